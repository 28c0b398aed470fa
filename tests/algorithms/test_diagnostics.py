"""Signs of trouble on made-up batches."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms import diagnostics as module
from agentgym_rl.algorithms.diagnostics import diagnostics, mutual_information
from agentgym_rl.data.episode import Ending, Episode, Turn


def episode(task, *responses, env="e", reward=0.0, invalid=False):
    turns = [
        Turn(
            response=response,
            action=response,
            observation="",
            reward=0.0,
            invalid=invalid and not at,
            tokens=(at, 2 * at + 1),
        )
        for at, response in enumerate(responses)
    ]
    return Episode(
        env=env, item_id=f"{env}_{task}", ending=Ending.TERMINATED, reward=reward, success=False, max_turns=9,
        turns=turns,
    )  # fmt: skip


def batch(write, tasks=8, samples=8, words=40, env="e"):
    """Episodes of each task; ``write(rng, task)`` is one word of a response."""
    rng = Random(1)
    return [
        episode(task, " ".join(write(rng, task) for _ in range(words)), env=env)
        for task in range(tasks)
        for _ in range(samples)
    ]


def template(rng, task):
    """As diverse as can be, and the same for every task."""
    return str(rng.randrange(20))


def specific(rng, task):
    return f"{task}:{rng.randrange(20)}"


def partly(rng, task):
    return rng.choice((template, specific))(rng, task)


def test_responses_depend_on_the_task_not_at_all_partly_and_wholly():
    none, some, wholly = (mutual_information(batch(write)) for write in (template, partly, specific))
    assert none == pytest.approx(0, abs=0.02)
    assert some == pytest.approx(0.4, abs=0.1), "towards 0.5 with more episodes of a task"
    assert wholly == pytest.approx(1)


@pytest.mark.parametrize("most", [module.MOST, 20])
def test_the_order_in_which_episodes_end_has_no_effect(most, monkeypatch):
    monkeypatch.setattr(module, "MOST", most)
    episodes = batch(partly, words=6) + batch(specific, words=6, env="other")
    groups = [episodes[at : at + 8] for at in range(0, len(episodes), 8)]
    expected, rng = diagnostics(groups), Random(3)
    for _ in range(5):
        shuffled = diagnostics([rng.sample(group, len(group)) for group in rng.sample(groups, len(groups))])
        assert shuffled["diagnostics/mutual_information"] == expected["diagnostics/mutual_information"]
        assert mutual_information(rng.sample(episodes, len(episodes))) == mutual_information(episodes)


def test_few_words_are_corrected_for_chance():
    assert abs(mutual_information(batch(template, words=3))) < 0.05


def test_telling_environments_apart_does_not_count():
    def naming(env):
        return lambda rng, task: f"{env}{template(rng, task)}"

    both = batch(naming("a"), env="a") + batch(naming("b"), env="b")
    assert mutual_information(both) == pytest.approx(0, abs=0.02)


def test_where_it_is_not_defined():
    assert mutual_information(batch(specific, samples=1)) is None
    assert mutual_information(batch(specific, tasks=1)) is None
    assert mutual_information([]) is None
    unlike = [episode(task, f"{task}{sample}") for task in "ab" for sample in "xy"]
    assert mutual_information(unlike) is None, "no two episodes share a word"


WORDS = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=4)
EPISODES = st.lists(st.builds(lambda task, words: episode(task, *words), st.integers(0, 2), WORDS), max_size=9)


@given(EPISODES, st.randoms())
def test_it_is_at_most_1_and_knows_no_order_of_turns(episodes, rng):
    information = mutual_information(episodes)
    if information is not None:
        assert information <= 1 + 1e-9
        for episode in episodes:
            rng.shuffle(episode.turns)
        assert mutual_information(episodes) == pytest.approx(information)


def test_gradient_share_invalid_turns_and_length():
    groups = [
        [episode(1, "a", "b", reward=1.0, invalid=True), episode(1, "a")],
        [episode(2, "a"), episode(2, "a")],
        [episode(3, "a")],
    ]
    metrics = diagnostics(groups)
    assert metrics["diagnostics/gradient_share"] == 0.5, "a single episode is no group"
    assert metrics["diagnostics/invalid_turns"] == pytest.approx(1 / 6)
    assert metrics["diagnostics/response_tokens"] == pytest.approx((1 + 2 + 1 + 1 + 1 + 1) / 6)
    assert diagnostics([[episode(1)]]) == {}


@pytest.mark.parametrize(("most", "every"), [(64, 1), (63, 2), (16, 4)])
def test_of_a_large_step_the_information_is_that_of_every_nth_task(most, every, monkeypatch):
    monkeypatch.setattr(module, "MOST", most)
    episodes = batch(specific)
    groups = [episodes[start : start + 8] for start in range(0, 64, 8)]
    expected = mutual_information([episode for group in groups[::every] for episode in group])
    assert diagnostics(groups)["diagnostics/mutual_information"] == expected
