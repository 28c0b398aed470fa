"""Settings follow the agent: births, deaths, shares, and the same ones wherever a run resumes."""

import json
from collections.abc import Mapping
from math import exp
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept

from agentgym_rl.algorithms.mixture import Adjustable, By, Frontier, FrontierConfig, Pools
from agentgym_rl.algorithms.mixture.frontier import Individual, Mutate
from agentgym_rl.algorithms.mixture.posterior import Posterior
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs import Task
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.envs.knobs import Knob

LEVELS = tuple(range(1, 11))
KNOBS = (Knob("level", LEVELS), Knob("look", ("plain", "odd", "dark"), ordered=False))


def ground(unsolved=lambda settings: False, options: Mapping[str, Any] | None = None, **facts: Any) -> Adjustable:
    """An environment with ten levels in three looks, of which an oracle cannot solve some."""

    def tasks(name: str, setting: Mapping[str, Any]) -> range:
        if unsolved(setting):
            raise ValueError(f"{setting} is not solved")
        return range(100)

    return Adjustable(**{"knobs": KNOBS, "options": options or {}, "demonstrated": False, "tasks": tasks, **facts})


def frontier(envs: Mapping[str, Adjustable] | None = None, seed: int = 0, **keys: Any) -> Frontier:
    envs = {"maze": ground()} if envs is None else envs
    pools = Pools(
        tasks=dict.fromkeys(envs, range(9)), shares=dict.fromkeys(envs, 1.0), seed=seed, difficulty=str, adjustable=envs
    )
    return Frontier(FrontierConfig(**keys), pools)


def outcome(task: Task, success: bool) -> Episode:
    return Episode(
        env=task.env, item_id=str(task), ending=Ending.TERMINATED, reward=float(success), success=success, max_turns=9
    )


def played(mixture: Frontier, steps: range, skill: float, spread: float = 0.5, seed: int = 1) -> list[list[str]]:
    """Steps of an agent that solves a level d with the chance sigma((skill - d) / spread); the tasks of each."""
    drawn = []
    for number in steps:
        rng, episodes = Random(f"{seed}:{number}"), []
        for draw in mixture.draw(number, 24, 4):
            level = float(mixture.parts[draw.task.env].settings["level"])
            chance = 1 / (1 + exp((level - skill) / spread))
            episodes += [outcome(draw.task, rng.random() < chance) for _ in range(draw.samples)]
        mixture.observe(episodes)
        drawn.append([episode.item_id for episode in episodes])
    return drawn


def levels(mixture: Frontier) -> float:
    """Mean level by share."""
    shares = mixture.shares
    return sum(shares[each.name] * float(each.settings["level"]) for each in mixture.population)


@pytest.mark.parametrize("skill", [2.5, 5.0, 8.5])
def test_levels_follow_the_skill(skill: float) -> None:
    mixture = frontier(every=2, floor=0.02, novelty=0.1)
    played(mixture, range(60), skill)
    assert levels(mixture) == pytest.approx(skill, abs=1.0)
    assert mixture.deaths > 12


def test_levels_follow_a_skill_that_grows() -> None:
    mixture = frontier(every=2, floor=0.02, novelty=0.1)
    played(mixture, range(40), 2.5)
    early = levels(mixture)
    played(mixture, range(40, 110), 8.0)
    assert early < 4 < 6.5 < levels(mixture)


def test_utility_by_hand() -> None:
    mixture = frontier(novelty=0.4, distance=0.1)
    same = {"level": 4, "look": "plain"}
    mixture.population = [
        Individual("a", "maze", same, 0, [], 9, Posterior(5, 1)),
        Individual("b", "maze", {**same, "level": 5}, 0, [], 9, Posterior(0, 2)),  # 1/18 away
        Individual("c", "maze", {**same, "look": "odd"}, 0, [], 9, Posterior(1, 1)),  # 1/2 away
        Individual("d", "maze", {**same, "level": 10}, 0, [], 9, Posterior(0, 98)),  # 1/3 away
    ]
    assert [mixture.utility(each) for each in mixture.population] == pytest.approx([0.25 - 0.1, 0.25 - 0.1, 0.5, 0.01])
    weights = [0.15, 0.15, 0.5, 0.01]
    assert [*mixture.shares.values()] == pytest.approx([0.1 / 4 + 0.9 * weight / sum(weights) for weight in weights])


@pytest.mark.parametrize("tasks", By)
@pytest.mark.parametrize("stop", [1, 4, 7, 11])
def test_a_resumed_mixture_goes_on_with_the_same_settings(tasks: By, stop: int) -> None:
    envs = {"maze": ground(), "babyai": ground(lambda setting: setting["level"] == 3)}
    keys = {"every": 2, "tasks": tasks, "population": 6, "elite": 2}
    uninterrupted, first = frontier(envs, **keys), frontier(envs, **keys)
    played(uninterrupted, range(stop), 4)
    played(first, range(stop), 4)
    again = frontier(envs, **keys)
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert again.parts == uninterrupted.parts
    assert played(again, range(stop, 20), 4) == played(uninterrupted, range(stop, 20), 4)
    assert again.state_dict() == uninterrupted.state_dict() and again.metrics() == uninterrupted.metrics()


@settings(max_examples=swept(40), deadline=None)
@given(
    st.integers(0, 99),
    st.floats(0, 11),
    st.sets(st.sampled_from(LEVELS), max_size=4),
    st.integers(2, 9),
    st.floats(0, 1),
    st.floats(0.05, 1),
)
def test_whatever_happens(
    seed: int, skill: float, held: set[int], population: int, crossover: float, floor: float
) -> None:
    mixture = frontier(
        {"maze": ground(lambda setting: setting["look"] == "dark")},
        seed, every=1, min_episodes=4, population=population, elite=population // 2, crossover=crossover, floor=floor,
        held_out={"level": sorted(held)},
    )  # fmt: skip
    for number in range(6):
        tasks = played(mixture, range(number, number + 1), skill)[0]
        assert len(tasks) == 24 * 4
        assert 1 <= len(mixture.population) <= population
        assert (
            sum(mixture.shares.values()) == pytest.approx(1)
            and min(mixture.shares.values()) >= floor / population - 1e-9
        )
        assert len({json.dumps(each.settings) for each in mixture.population}) == len(mixture.population)
    assert all(
        part.settings["level"] not in held and part.settings["look"] != "dark" for part in mixture.parts.values()
    )
    assert len(mixture.individuals) == len(mixture.population) + mixture.deaths


def test_settings_that_no_oracle_solves_are_never_born_and_a_small_space_leaves_a_small_population() -> None:
    mixture = frontier({"maze": ground(lambda setting: setting["level"] > 2)})
    assert {each.settings["level"] for each in mixture.population} == {1, 2}
    assert mixture.metrics()["frontier/size"] == 6 < mixture.config.population
    assert mixture.metrics()["frontier/refused"] > 0
    for others in ({}, {"babyai": ground()}):
        with pytest.raises(ValueError, match=r"no setting of maze can be trained on: .* is not solved"):
            frontier({**others, "maze": ground(lambda setting: True)})


def test_every_environment_needs_a_place() -> None:
    with pytest.raises(ValueError, match=r"mixture\.population=2 must be at least 3, one for each"):
        frontier({name: ground() for name in ("maze", "babyai", "sqlgym")}, population=2, elite=1)


def test_no_environment_dies_out() -> None:
    envs = {"maze": ground(), "babyai": ground(lambda setting: setting["level"] < 9)}
    mixture = frontier(envs, every=1, min_episodes=1, elite=2, population=4)
    for number in range(12):
        played(mixture, range(number, number + 1), 4.0)  # hopeless in babyai
        assert {each.env for each in mixture.population} == {"maze", "babyai"}
    assert mixture.metrics()["env/babyai/share"] > 0


def test_what_has_too_few_episodes_is_not_judged() -> None:
    mixture = frontier(every=1, min_episodes=1000)
    first = [each.name for each in mixture.population]
    played(mixture, range(5), 5)
    assert [each.name for each in mixture.population] == first and mixture.deaths == 0
    assert "frontier/elite_success" not in mixture.metrics()


def test_late_episodes_of_parts_that_left_are_ignored_and_strangers_refused() -> None:
    mixture = frontier(every=1, min_episodes=4)
    played(mixture, range(6), 5)
    gone = next(name for name in mixture.parts if name not in mixture.shares)
    mixture.observe([outcome(Task(gone, 1), True)])
    with pytest.raises(ValueError, match="episodes of textcraft"):
        mixture.observe([outcome(Task("textcraft", 1), True)])


def test_tasks_that_are_left_out_are_drawn_no_more_and_a_part_without_tasks_leaves() -> None:
    mixture = frontier()
    first, second = (each.name for each in mixture.population[:2])
    mixture.leave_out([*(Task(first, index) for index in range(100)), *(Task(second, index) for index in range(99))])
    assert first not in mixture.shares
    drawn = {draw.task for step in range(40) for draw in mixture.draw(step, 8, 1)}
    assert {task.index for task in drawn if task.env == second} == {99}


def test_options_of_the_recipe_do_not_move() -> None:
    mixture = frontier({"maze": ground(options={"look": "odd"})})
    assert {tuple(part.settings) for part in mixture.parts.values()} == {("level",)}
    assert len(mixture.population) == 10


NESTED = (Knob("depth", (1, 2, 3), nested=True),)


@pytest.mark.parametrize(
    ("envs", "held_out", "says"),
    [
        ({"maze": ground(knobs=())}, {}, r"maze has none that envs\.maze\.options leaves free"),
        ({"maze": ground(options={"level": 1, "look": "odd"})}, {}, "maze has none"),
        ({"maze": ground()}, {"width": [1]}, "names width, which is no knob; knobs: level, look"),
        ({"maze": ground()}, {"level": [11]}, "level: 11 is no value of it; choose among 1, 2"),
        ({"maze": ground()}, {"look": ["plain", "odd", "dark"]}, "leaves no value of maze"),
        ({"maze": ground(options={"look": "odd"})}, {"look": ["odd"]}, r"options\.look=odd trains on it"),
        ({"maze": ground(demonstrated=True)}, {"look": ["odd"]}, "the demonstrations of envs.maze may have it"),
        ({"maze": ground(knobs=NESTED)}, {"depth": [2]}, "larger values of maze have the same tasks"),
    ],
)
def test_what_cannot_be(envs: dict[str, Adjustable], held_out: dict[str, list[Any]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        frontier(envs, held_out=held_out)


def after_writer(answer: str | Exception, envs: Mapping[str, Adjustable] | None = None, **keys: Any) -> Frontier:
    """A population that has changed once, after a writer was asked; what it was asked and what was said is kept."""
    mixture = frontier(envs, mutate=Mutate.WRITER, every=1, min_episodes=1, **keys)
    mixture.questions, mixture.said = [], []

    def ask(question: str) -> str:
        mixture.questions.append(question)
        if isinstance(answer, Exception):
            raise answer
        return answer

    mixture.ask, mixture.say = ask, mixture.said.append
    played(mixture, range(1), 5.0)
    return mixture


def test_what_a_writer_proposes_is_born_first() -> None:
    proposals = [
        {"environment": "maze", "level": "7", "look": "dark"},
        {"environment": "maze", "level": 6, "look": "odd"},
    ]
    mixture = after_writer(
        f"<think>[hm]</think>Here they are:\n```json\n{json.dumps(proposals)}\n```", held_out={"level": [10]}
    )
    born = [each for each in mixture.individuals if each.parents == ["writer"]]
    assert [each.settings for each in born] == [{"level": 7, "look": "dark"}, {"level": 6, "look": "odd"}]
    assert len(mixture.population) == 12 and mixture.deaths == 8, "children took the other places"
    assert [mixture.metrics()[f"frontier/writer_{key}"] for key in ("proposals", "refused", "unread")] == [2, 0, 0]
    (question,) = mixture.questions
    assert "maze: level = 1, 2, 3, 4, 5, 6, 7, 8, 9; look = plain, odd, dark" in question
    assert (
        question.count("% in 8 episodes") + question.count("% in 12 episodes") == 12
        and "Propose 8 other" in question
        and mixture.said == []
    )


FILLED = json.dumps({"environment": "maze", "level": 1, "look": "plain"})


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ("7", "7 is no object"),
        ('{"level": 1, "look": "odd"}', "environment=None is none of maze"),
        ('{"environment": ["maze"], "level": 1, "look": "odd"}', "is none of maze"),
        ('{"environment": "maze", "level": 99, "look": "odd"}', "level=99 is none of 1, 2, 3, 4, 5, 6, 7, 8, 9"),
        ('{"environment": "maze", "level": 10, "look": "odd"}', "level=10 is none of"),  # held out
        ('{"environment": "maze", "level": true, "look": "odd"}', "level=True is none of"),
        ('{"environment": "maze", "level": 1}', "look=None is none of plain, odd, dark"),
        ('{"environment": "maze", "level": 1, "look": "odd", "width": 3}', "width is no setting of maze"),
        ('{"environment": "maze", "level": 9, "look": "dark"}', "is not solved"),
        (f"{FILLED}, {FILLED}", "of maze lives already"),
        ('{"environment": "maze", "level": 99, "look": "odd"}, ' * 500 + "7", "8 of 8 proposals refused"),
    ],
)
def test_proposals_that_may_not_be_born_are_counted_and_children_take_their_place(item: str, says: str) -> None:
    grounds = {"maze": ground(lambda setting: (setting["level"], setting["look"]) in ((9, "dark"), (8, "dark")))}
    mixture = after_writer(f"[{item}]", grounds, held_out={"level": [10]})
    assert mixture.answers["refused"] > 0 and mixture.answers["unread"] == 0
    assert len(mixture.said) == 1 and says in mixture.said[0]
    assert len(mixture.population) == 12
    assert all(part.settings["level"] != 10 for part in mixture.parts.values())


@pytest.mark.parametrize("answer", ["", "no idea", "{}", "[1, 2", "[" * 5000, EnvUnavailable("the writer is gone")])
def test_without_an_answer_children_are_born(answer: str | Exception) -> None:
    mixture = after_writer(answer)
    assert mixture.answers == {"unread": 1} and len(mixture.population) == 12
    assert mixture.said[0].startswith("mixture=frontier: the writer proposes nothing: ")
    again = frontier(mutate=Mutate.WRITER, every=1, min_episodes=1)
    again.load_state_dict(json.loads(json.dumps(mixture.state_dict())))
    assert again.metrics() == mixture.metrics()


def test_a_writer_that_takes_no_question_ends_the_run() -> None:
    with pytest.raises(ValueError, match="no credit"):
        after_writer(ValueError("no credit"))


def test_a_population_that_shrinks_says_so() -> None:
    solved: set[str] = set()

    def tasks(name: str, setting: Mapping[str, Any]) -> range:
        if len(solved) == 12 and name not in solved:
            raise ValueError("is not solved")
        solved.add(name)
        return range(100)

    mixture = frontier({"maze": ground(tasks=tasks)}, every=1, min_episodes=1)
    messages: list[str] = []
    mixture.say = messages.append
    played(mixture, range(1), 5.0)
    assert 4 <= len(mixture.population) < 12
    assert messages == [
        f"mixture=frontier: {len(mixture.population)} settings live instead of 12; what else was drawn lives already, "
        "or its oracle does not solve it"
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [("population", 0), ("elite", 12), ("every", 0), ("min_episodes", 0), ("novelty", -1), ("distance", 2),
     ("crossover", 1.5)],
)  # fmt: skip
def test_values_out_of_range(key: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"mixture.{key}={value}"):
        FrontierConfig(**{key: value})


def test_one_parent_has_no_mate() -> None:
    unused = [FrontierConfig(elite=elite).unused(environments=1).keys() for elite in (1, 2)]
    assert unused[0] - unused[1] == {"crossover"} and not unused[1] - unused[0]


def test_without_novelty_nothing_is_near() -> None:
    unused = [FrontierConfig(novelty=novelty).unused(environments=1).keys() for novelty in (0.0, 0.3)]
    assert unused[0] - unused[1] == {"distance"} and not unused[1] - unused[0]


@pytest.mark.parametrize("state", [{"shares": {}, "tasks": {}}, {}, {"shares": {"maze": {}}, "tasks": {}}])
def test_states_of_other_mixtures_are_refused(state: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the state of mixture=frontier has a population"):
        frontier().load_state_dict(state)
