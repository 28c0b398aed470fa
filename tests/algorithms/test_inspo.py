"""Instructions that gain and lose weight by the rewards of those who read them."""

import json
import random
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.base import Request, Rollout
from agentgym_rl.algorithms.groups import GroupsConfig
from agentgym_rl.algorithms.grpo import GRPO, GRPOConfig
from agentgym_rl.algorithms.inspo import Inspo, InspoConfig
from agentgym_rl.algorithms.instructions import Population, alike
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.envs import Task

KEYS = {"steps": 50, "tasks_per_step": 8, "samples_per_task": 4, "mini_batch_tasks": 8}
MEANS = {"Good.": 0.8, "Fair.": 0.6, "": 0.5, "Bad.": 0.2, "Harmful.": 0.05}


class FixedPolicy:
    """A run whose policy succeeds by what it reads, and never changes."""

    seed, response_tokens, step = 5, 100, 1

    def __init__(self, means=MEANS, envs=("maze",), written=()):
        self.means, self.envs, self.written = means, envs, written
        self.asked, self.learned, self.tried, self.said, self.questions = [], [], [], [], []

    def requests(self, number):
        return [
            Request(task=Task(self.envs[at % len(self.envs)], 8 * number + at), samples=4, max_turns=9)
            for at in range(8)
        ]

    def request(self, number, task):
        return Request(task=task, max_turns=9)

    def played(self, request, sample):
        read = "" if request.prompt is None else request.prompt
        won = random.Random(f"{request.task} {sample} {read}").random() < self.means[read]
        action = "Action: win" if won else "Action: lose"
        return Episode(
            env=request.task.env, item_id=str(request.task), ending=Ending.TERMINATED, reward=float(won), success=won,
            max_turns=9, messages=[{"role": "user", "content": "Go."}, {"role": "assistant", "content": action}],
            turns=[Turn(response=action, action=None, observation="", reward=float(won), invalid=read == "Shout.")],
            tags=dict(request.tags),
        )  # fmt: skip

    def batches(self, number, plan=None, *, keep=None, refills=0):
        requests = self.requests(number)
        self.asked.append(plan is not None)
        planned = requests if plan is None else plan(number, requests)
        self.read = [request.prompt for request in planned]
        groups = [
            [
                Rollout(
                    episode=self.played(request, number), group=str(request.task), kept=[f"{request.task} {number}"]
                )
                for number in range(4)
            ]
            for request in planned
        ]
        yield [rollout for group in groups if keep is None or keep(group) for rollout in group]

    def rollouts(self, requests, label, *, resumable=False):
        self.tried += [(request.prompt, request.samples) for request in requests]
        return [Rollout(episode=self.played(request, 9)) for request in requests]

    def learn(self, rows, loss, **how):
        self.learned.append((rows, how))
        return {}

    def generate(self, conversations, *, samples=1, by="policy", **_):
        self.questions.append((by, samples, conversations[0][0]["content"]))
        return [list(self.written)]

    def say(self, text):
        self.said.append(text)


def went(config, run, steps):
    """The algorithm after some steps, and what its groups read."""
    algorithm, read = Inspo(config), []
    for number in range(steps):
        algorithm.unit(run, number)
        read += run.read
    return algorithm, read


def test_the_weights_order_the_instructions():
    """And the regret is far below that of uniform draws."""
    config = InspoConfig(instructions={"maze": [*MEANS]}, tau=0.3, prune_every=99, **KEYS)
    algorithm, read = went(config, FixedPolicy(), 40)
    by_weight = [each.text for each in sorted(algorithm.population.known, key=lambda each: -each.weight)]
    assert by_weight[0] == "Good." == algorithm.prompt("maze") and set(by_weight[-2:]) == {"Bad.", "Harmful."}
    regret = fmean(max(MEANS.values()) - MEANS[text] for text in read[160:])
    assert regret < 0.25 * (max(MEANS.values()) - fmean(MEANS.values()))
    share = config.floor / len(MEANS)
    shares = dict(zip(MEANS, algorithm.population.chances("maze"), strict=True))
    assert shares["Harmful."] == pytest.approx(share, abs=0.01) and shares["Bad."] == pytest.approx(share, abs=0.01)


def test_the_last_step_tells_how_often_each_is_drawn():
    run, config = FixedPolicy(), InspoConfig(instructions={"maze": ["Good.", ""]}, **KEYS | {"steps": 2})
    algorithm = Inspo(config)
    algorithm.unit(run, 0)
    assert run.said == []
    algorithm.unit(run, 1)
    chance, _ = algorithm.population.chances("maze")
    good, own = algorithm.population.known
    assert run.said == [
        f"maze: {chance:.1%} of the draws, {good.uses} groups, reward {good.reward:.2f}: Good.",
        f"maze: {1 - chance:.1%} of the draws, {own.uses} groups, reward {own.reward:.2f}: (its own instruction alone)",
    ]


def test_a_hard_environment_blames_no_instruction():
    population = Population(tau=0.1, eta=0.2, floor=0.05)
    for env in ("easy", "hard"):
        population.add(env, "One.")
        population.add(env, "Two.")
    for _ in range(60):
        for each in population.known:
            population.observe(each.env, each.id, 0.9 if each.env == "easy" else 0.1)
    assert [each.weight for each in population.known] == pytest.approx([0.0] * 4)
    assert [each.uses for each in population.known] == [60] * 4


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=9), st.floats(0.01, 5), st.floats(0, 1))
def test_chances_are_shares_with_a_floor(weights, tau, floor):
    population = Population(tau=tau, eta=0.2, floor=floor)
    for number, weight in enumerate(weights):
        population.add("maze", f"{number}", weight)
    chances = population.chances("maze")
    assert sum(chances) == pytest.approx(1) and min(chances) >= floor / len(weights) - 1e-9
    assert sorted(chances) == pytest.approx([chance for _, chance in sorted(zip(weights, chances, strict=True))])
    assert population.entropy("maze") >= -1e-9


def test_with_one_instruction_it_is_grpo():
    ours, theirs = FixedPolicy(), FixedPolicy()
    for number in range(3):
        metrics = Inspo(InspoConfig(population=1, **KEYS)).unit(ours, number)
        assert metrics == GRPO(GRPOConfig(**KEYS)).unit(theirs, number)
    assert ours.asked == theirs.asked == [False] * 3
    assert [(repr(rows), how) for rows, how in ours.learned] == [(repr(rows), how) for rows, how in theirs.learned]


def test_one_instruction_is_that_of_all_episodes():
    run = FixedPolicy()
    algorithm, _ = went(InspoConfig(instructions={"maze": ["Good."]}, **KEYS), run, 2)
    assert run.asked == [False, False], "nothing is drawn"
    assert algorithm.prompt("maze") == "Good." and algorithm.prompt("counter") == ""


def test_the_lowest_leave_and_one_stays():
    config = InspoConfig(instructions={"maze": [*MEANS]}, prune_every=12, min_uses=1, drop=9, floor=1.0, **KEYS)
    algorithm, _ = went(config, FixedPolicy(), 12)
    assert [each.text for each in algorithm.population.known] == ["Good."]
    patient, _ = went(replace(config, min_uses=1000), FixedPolicy(), 12)
    assert len(patient.population.known) == len(MEANS), "none has been read so often"


def test_an_instruction_that_few_read_sends_none_above_it_away():
    population = Population(tau=0.1, eta=0.2, floor=0.05)
    for text, weight, uses in (("Best.", 1.0, 90), ("Fair.", 0.5, 9), ("Bad.", 0.1, 9), ("Harmful.", -1.0, 2)):
        population.add("maze", text, weight)
        population.known[-1].uses = uses
    population.prune("maze", min_uses=8, drop=2)
    assert [each.text for each in population.known] == ["Best.", "Fair.", "Harmful."]
    population.prune("maze", min_uses=8, drop=1)
    assert len(population.known) == 3, "the lowest is not known well enough"


def proposing(*written, **keys):
    settings = {"prune_every": 2, "min_uses": 1, "drop": 2, "proposals": len(written), "verify_tasks": 5, **keys}
    config = InspoConfig(instructions={"maze": ["Fair.", "Bad.", "Harmful."]}, **settings, **KEYS)
    run = FixedPolicy({**MEANS, "Best of all.": 1.0, "Shout.": 1.0, "Middling so far.": 0.5}, written=written)
    return *went(config, run, 2), run


def test_the_filter_of_groups_hides_no_instruction():
    """One that always fails has no group to learn from, and loses weight all the same."""
    means = {"Always.": 1.0, "Never.": 0.0}
    filtered = GroupsConfig(filter=True)
    config = InspoConfig(instructions={"maze": [*means]}, groups=filtered, **KEYS)
    run = FixedPolicy(means)
    algorithm, _ = went(config, run, 6)
    good, bad = algorithm.population.known
    assert good.weight > 0 > bad.weight and all(rows == [] for rows, _ in run.learned)


def test_a_writer_reads_failures_and_the_best_join():
    algorithm, _, run = proposing("Middling so far.", " Best of all. ", "Shout.", "fair.", "", "x" * 3000)
    ((by, samples, question),) = run.questions
    assert (by, samples) == ("writer", 6) and "Action: lose" in question and "Action: win" not in question
    assert {text for text, _ in run.tried} == {"Middling so far.", "Best of all.", "Shout."}, "no copy, nothing empty"
    assert len(run.tried) == 15 and {samples for _, samples in run.tried} == {1}, "episodes of the run"
    joined = [each for each in algorithm.population.known if each.born]
    assert [each.text for each in joined] == ["Best of all.", "Middling so far."], "Shout. breaks the format"
    assert joined[0].weight in [each.weight for each in algorithm.population.known if not each.born]
    assert run.said[0] == "maze has a new instruction: Best of all."
    needs = Inspo.needs(algorithm.config)
    assert needs.writer == needs.whole_steps == "algorithm.proposals", "trials share the queue of groups"
    assert Inspo.needs(InspoConfig(**KEYS)).whole_steps is None


def test_proposals_are_tried_on_the_tasks_of_the_step():
    """The mixture has observed it by then, and may draw none of the environment any more."""

    class Moving(FixedPolicy):
        def batches(self, *asked, **how):
            self.envs = ("maze",)
            yield from super().batches(*asked, **how)
            self.envs = ("counter",)

        def rollouts(self, requests, label, *, resumable=False):
            self.tasks = [str(request.task) for request in requests]
            return super().rollouts(requests, label)

    run = Moving({**MEANS, "Best of all.": 1.0}, written=["Best of all."])
    config = InspoConfig(instructions={"maze": ["Bad."]}, prune_every=1, proposals=1, verify_tasks=3, **KEYS)
    algorithm, _ = went(config, run, 1)
    assert run.tasks == ["maze_0", "maze_1", "maze_2"] and run.tried == [("Best of all.", 1)] * 3
    assert [each.text for each in algorithm.population.of("maze")] == ["Bad.", "Best of all."]


def test_there_is_no_room_for_more_than_the_population():
    algorithm, _, run = proposing("Best of all.", population=3, min_uses=1000)
    assert len(algorithm.population.known) == 3 and run.questions == []


def test_a_resumed_run_draws_the_same():
    config = InspoConfig(instructions={"maze": [*MEANS]}, prune_every=3, min_uses=4, drop=1, **KEYS)
    uninterrupted, _ = went(config, FixedPolicy(), 8)
    first, _ = went(config, FixedPolicy(), 4)
    second, run = Inspo(config), FixedPolicy()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for number in range(4, 8):
        second.unit(run, number)
    assert second.state_dict() == uninterrupted.state_dict()


def test_what_is_logged():
    algorithm = Inspo(InspoConfig(instructions={"maze": [*MEANS]}, **KEYS))
    metrics = algorithm.unit(FixedPolicy(), 0)
    assert {key for key in metrics if key.startswith("inspo/")} == {
        "inspo/entropy", "inspo/best_weight", "inspo/age_of_best",
    }  # fmt: skip
    assert metrics["inspo/age_of_best"] == 1


@pytest.mark.parametrize("texts", [["a", "a"], [], ["a", "b", "c"]])
def test_texts_that_cannot_be_used_are_refused(texts):
    says = f"instructions.maze has {len(texts)} texts; give 1 to population=2, no two alike"
    with pytest.raises(ValueError, match=says):
        InspoConfig(instructions={"maze": texts}, population=2)


def test_environments_of_texts_must_be_the_runs():
    needs = Inspo.needs(InspoConfig(instructions={"maze": ["a"]}))
    assert needs.environments == {"algorithm.instructions": {"maze"}}


def test_values_out_of_range_are_refused():
    for wrong in ({"tau": 0}, {"eta": 2}, {"floor": -1}, {"population": 0}, {"drop": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            InspoConfig(**wrong)


UNDRAWN = {"population", "tau", "eta", "floor", "prune_every", "min_uses", "drop"}
UNWRITTEN = {"episodes", "verify_tasks"}


@pytest.mark.parametrize(
    ("keys", "unused"),
    [
        ({"instructions": {"maze": ["a", "b"]}}, UNWRITTEN),
        ({"instructions": {"maze": ["a"], "counter": ["b"]}}, UNDRAWN | UNWRITTEN),
        ({}, UNDRAWN | UNWRITTEN),
        ({"proposals": 4}, set()),
        ({"proposals": 4, "drop": 0}, {"proposals", "prune_every", "min_uses", *UNWRITTEN}),
        ({"instructions": {"maze": ["a", "b"]}, "drop": 0}, {"prune_every", "min_uses", *UNWRITTEN}),
        ({"proposals": 4, "population": 1}, {"proposals", *UNWRITTEN}),
    ],
)
def test_keys_without_an_effect(keys, unused):
    of_grpo = GRPOConfig().unused(off_policy=False, environments=2)
    assert InspoConfig(**keys).unused(off_policy=False, environments=2).keys() - of_grpo.keys() == unused


def test_copies_are_alike():
    assert alike("Plan, then  act.", "plan, then act.") and not alike("Plan, then act.", "Plan, then rest.")
    assert alike("", " ") and not alike("", "Plan.")
