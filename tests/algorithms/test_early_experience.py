"""Observations that follow other actions than the expert's, and then cloning."""

import json
from dataclasses import replace

import pytest

from agentgym_rl.algorithms.base import Request, Rollout
from agentgym_rl.algorithms.bc import Cloning, CloningConfig
from agentgym_rl.algorithms.early_experience import Budget, EarlyExperience, EarlyExperienceConfig, Mode
from agentgym_rl.algorithms.rows import PerToken
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.rollout.supervised import Example

SEGMENT = Example([9, 9, 1, 2, 3, 4, 5], [0.0, 0, 1, 1, 0, 1, 1], 2)
LONG = Example([9, 9, 1, 2, 3, 4, 5, 6, 7, 8], [0.0, 0, 1, 1, 0, 1, 1, 0, 1, 1], 2)


def episode(*actions, calls=1, tags=None):
    spans = [(0, 2), (3, 5), (6, 8)]
    turns = [
        Turn(response=action, action=action, observation="", reward=0.0, invalid=False, tokens=span, calls=calls)
        for action, span in zip(actions, spans, strict=False)
    ]
    messages = [{"role": role, "content": "start"} for _ in turns for role in ("user", "assistant")]
    return Episode(messages=messages, env="counter", item_id="counter_3", ending=Ending.TERMINATED, reward=1.0,
                   success=True,
                   max_turns=9, turns=turns, tags=tags or {})  # fmt: skip


class ScriptedRun:
    seed, observation_weight, learn_invalid = 1, 0.0, True

    def __init__(self, shown=2, action="other", sees=""):
        self.demonstrations = [Rollout(episode=episode("say 1", "say 2"), segments=[SEGMENT]) for _ in range(shown)]
        self.action, self.sees, self.asked, self.learned, self.general = action, sees, [], [], []
        self.questions = []

    def request(self, number, task, **fields):
        return Request(task=task, **fields)

    def rollouts(self, requests, label, *, resumable):
        self.asked += requests
        return [self.rollout(request) for request in requests for _ in range(request.samples)]

    def rollout(self, request):
        """Its replayed turns, with what they now lead to, and two of the policy."""
        replayed = [each.text for each in request.prefix.responses]
        branch = episode(*replayed, self.action, "more", tags=dict(request.tags))
        for turn in branch.turns[: len(replayed)]:
            turn.observation = self.sees
        branch.turns[len(replayed)].observation = f"seen {self.action}"
        return Rollout(episode=branch, segments=[LONG])

    def generate(self, conversations, *, by):
        """Every answer has the action of the first turn."""
        assert by == "writer"
        self.questions += conversations
        return [["say 1"] for _ in conversations]

    def encode(self, messages, task):
        """A conversation whose last turn is the answer."""
        assert str(task) == "counter_3" and len(messages) % 2 == 0
        answer = episode(messages[-1]["content"])
        return Rollout(episode=answer, segments=[SEGMENT])

    def score(self, rows, *, name, read):
        """Each token with a weight has half the log-probability after a pass."""
        score = -2.0 / (1 + len(self.learned))
        scores = [PerToken(score * weight for weight in row.segment.loss_weight) for row in rows]
        return [replace(row, streams={**row.streams, name: score}) for row, score in zip(rows, scores, strict=True)]

    def learn(self, rows, loss, **passes):
        self.learned.append((list(rows), passes))
        return {}


def run_of(run, **keys):
    algorithm = EarlyExperience(EarlyExperienceConfig(**{"mini_batch_trajectories": 2, **keys}))
    metrics = [algorithm.unit(run, number) for number in range(algorithm.units)]
    return algorithm, metrics


def test_branches_leave_the_expert_at_every_state():
    run = ScriptedRun(shown=1)
    run_of(run, alternatives=3)
    assert [(len(request.prefix.responses), request.prefix.avoid, request.max_turns) for request in run.asked] == [
        (0, ["say 1"], 2), (1, ["say 2"], 3),
    ]  # fmt: skip
    assert {request.samples for request in run.asked} == {3} and not any(request.prefix.learn for request in run.asked)
    few = ScriptedRun(shown=1)
    run_of(few, states=1)
    assert len(few.asked) == 1


def test_the_weights_are_on_the_observation_alone():
    run = ScriptedRun(shown=1)
    algorithm, _ = run_of(run, alternatives=1)
    assert [row.segment.input_ids for row in algorithm.branches] == [LONG.input_ids[:5], LONG.input_ids[:8]]
    assert [[*row.streams["cross_entropy"]] for row in algorithm.branches] == [[0] * 4 + [1], [0] * 7 + [1]]
    world = run.learned[0][0]
    assert world[0].segment == SEGMENT and world[1:] == algorithm.branches
    apart = ScriptedRun(shown=1)
    run_of(apart, alternatives=1, include_expert=False)
    assert apart.learned[0][0] == algorithm.branches


def counted(run):
    _, (metrics, *_) = run_of(run, alternatives=1)
    return {name: count for name, count in metrics.items() if count}


def test_a_branch_without_an_example_is_counted():
    assert counted(ScriptedRun(1)) == {"ee/branches": 2, "ee/examples": 2}
    assert counted(ScriptedRun(1, "say 1")) == {"ee/branches": 2, "ee/examples": 1, "ee/repeated": 1}
    assert counted(ScriptedRun(1, sees="other")) == {"ee/branches": 2, "ee/examples": 1, "ee/diverged": 1}
    short, lost = ScriptedRun(1), ScriptedRun(1)
    short.rollout = lambda request: cut_short(ScriptedRun.rollout(short, request))
    assert counted(short) == {"ee/branches": 2, "ee/ended": 2}
    lost.rollout = lambda request: Rollout(episode=ScriptedRun.rollout(lost, request).episode)
    assert counted(lost) == {"ee/branches": 2, "ee/lost": 2}


def cut_short(rollout):
    rollout.episode.turns.pop()
    del rollout.episode.messages[-2:]
    return rollout


def test_without_alternatives_it_is_cloning_with_weight_on_observations_alone():
    run, cloning = ScriptedRun(shown=5), ScriptedRun(shown=5)
    keys = {"lr": 0.1, "mini_batch_trajectories": 2}
    run_of(run, alternatives=0, iwm_lr=0.1, budget=Budget.EXTRA, epochs=1, **keys)
    cloning.observation_weight = 1.0
    Cloning(CloningConfig(epochs=1, **keys)).unit(cloning, 0)
    assert run.asked == []
    (world, passes), ((rows, expected),) = run.learned[0], cloning.learned
    assert passes == {"updates": None, **expected}
    for observed, row in zip(world, rows, strict=True):
        weights = zip(row.streams["cross_entropy"], row.segment.loss_weight, strict=True)
        alone = [weight * (1 - learned) for weight, learned in weights]
        assert observed.segment == row.segment
        assert [*observed.streams["cross_entropy"]] == [0.0] * SEGMENT.prompt + alone[SEGMENT.prompt :]


def test_without_passes_over_observations_it_is_cloning():
    run, cloning = ScriptedRun(shown=5), ScriptedRun(shown=5)
    run_of(run, iwm_epochs=0, epochs=3, lr=0.1)
    stage = Cloning(CloningConfig(epochs=3, lr=0.1, mini_batch_trajectories=2))
    for number in range(3):
        stage.unit(cloning, number)
    assert run.asked == [] and run.learned == [(rows, {"updates": None, **passes}) for rows, passes in cloning.learned]


def updates(run):
    """Of each pass; a whole one has as many as it has mini-batches of two."""
    return [passes["updates"] or -(-len(rows) // 2) for rows, passes in run.learned]


def test_an_equal_budget_takes_the_updates_from_cloning():
    run = ScriptedRun(shown=8)
    run_of(run, alternatives=1, states=1, epochs=5)
    assert sum(updates(run)) == 5 * 4
    many = ScriptedRun(shown=8)
    run_of(many, alternatives=16, epochs=5, iwm_epochs=3)
    assert updates(many)[:3] == [5, 5, 6] and sum(updates(many)) == 5 * 4
    extra = ScriptedRun(shown=8)
    run_of(extra, alternatives=1, states=1, epochs=5, budget=Budget.EXTRA)
    assert [passes["updates"] for _, passes in extra.learned] == [None] * 6


def test_a_resumed_run_learns_the_same():
    run, again = ScriptedRun(shown=11), ScriptedRun(shown=11)
    algorithm, _ = run_of(run, mode=Mode.BOTH)
    resumed = EarlyExperience(algorithm.config)
    resumed.load_state_dict(json.loads(json.dumps(algorithm.state_dict())))
    assert resumed.state_dict() == algorithm.state_dict() and resumed.held_out == algorithm.held_out
    for number in range(1, resumed.units):
        resumed.unit(again, number)
    assert again.learned == run.learned and again.questions == run.questions


def test_held_out_branches_tell_how_well_next_states_are_known():
    run = ScriptedRun(shown=10)
    algorithm, (metrics, first, *_) = run_of(run, alternatives=1)
    assert len(algorithm.held_out) == 2 and len(algorithm.branches) == metrics["ee/examples"] == 18
    assert len(run.learned[0][0]) == 10 + 18
    assert metrics["ee/next_state_loss"] == 2.0 and first["ee/next_state_loss"] == 1.0, "before and after a pass"
    assert "ee/next_state_loss" not in run_of(ScriptedRun(shown=9), alternatives=1)[1][0]


def test_a_writer_tells_why_the_expert_is_right():
    run = ScriptedRun(shown=2)
    algorithm, metrics = run_of(run, mode=Mode.REFLECTION, alternatives=1, epochs=2)
    assert [set(unit) >= {"ee/reflections"} for unit in metrics] == [False, True, False, False]
    assert metrics[1] == {"ee/reflections": 4, "ee/reflections_kept": 2}, "those with another action are dropped"
    assert EarlyExperience.needs(algorithm.config).writer == "algorithm.mode=reflection"
    question = run.questions[1][0]["content"]
    assert all(text in question for text in ("user: start", "say 2", "other", "seen other"))
    assert [row.streams["cross_entropy"] for row in algorithm.reflections] == [(0, 0, 1, 1, 0, 0, 0)] * 2
    for rows, passes in run.learned:
        assert len(rows) == 2 and sum(row in algorithm.reflections for row in rows) == 1 and passes["updates"] is None
    all_told = ScriptedRun(shown=2)
    run_of(all_told, mode=Mode.REFLECTION, alternatives=1, epochs=2, reflection_share=1.0)
    assert all(row.streams["cross_entropy"] == (0, 0, 1, 1, 0, 0, 0) for rows, _ in all_told.learned for row in rows)


def test_both_modes_stand_beside_each_other():
    run = ScriptedRun(shown=4)
    algorithm, metrics = run_of(run, mode=Mode.BOTH, alternatives=1, epochs=3)
    assert algorithm.units == len(metrics) == 1 + 1 + 1 + 3 and sum(updates(run)) == 3 * 2
    assert [number for number in range(algorithm.units) if algorithm.ends_phase(number)] == [0, 1, 2]
    assert run.learned[0][0][4:] == algorithm.branches and algorithm.reflections


def test_reflections_without_any_are_cloning():
    run, cloning = ScriptedRun(shown=4, action="say 1"), ScriptedRun(shown=4)
    run.rollout = lambda request: Rollout(episode=ScriptedRun.rollout(run, request).episode)
    run_of(run, mode=Mode.REFLECTION, epochs=1, lr=0.1)
    Cloning(CloningConfig(epochs=1, lr=0.1, mini_batch_trajectories=2)).unit(cloning, 0)
    assert run.questions == [] and run.learned == [(rows, {"updates": None, **keys}) for rows, keys in cloning.learned]


def test_a_writer_is_asked_for_no_reflections_that_are_not_learned():
    with pytest.raises(ValueError, match="reflection_share must be greater than 0, got 0"):
        EarlyExperienceConfig(mode=Mode.BOTH, reflection_share=0.0)
