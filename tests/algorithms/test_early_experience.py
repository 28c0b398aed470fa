"""Observations that follow other actions than the expert's, and then cloning."""

import json
from dataclasses import replace
from types import SimpleNamespace

from agentgym_rl.algorithms.base import Request, Rollout
from agentgym_rl.algorithms.early_experience import Budget, EarlyExperience, EarlyExperienceConfig
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.rollout.supervised import Example

SEGMENT = Example([9, 9, 1, 2, 3, 4, 5], [0.0, 0, 1, 1, 0, 1, 1], 2)


def episode(*actions, calls=1, tags=None):
    spans = [(0, 2), (3, 5)]
    turns = [
        Turn(response=action, action=action, observation="", reward=0.0, invalid=False, tokens=span, calls=calls)
        for action, span in zip(actions, spans, strict=False)
    ]
    return Episode(env="counter", item_id="counter_3", ending=Ending.TERMINATED, reward=1.0, success=True, max_turns=9,
                   turns=turns, tags=tags or {})  # fmt: skip


class ScriptedRun:
    seed, observation_weight, learn_invalid = 1, 0.0, True

    def __init__(self, shown=2, action="other"):
        self.demonstrations = [Rollout(episode=episode("say 1", "say 2"), segments=[SEGMENT]) for _ in range(shown)]
        self.action, self.asked, self.learned = action, [], []

    def request(self, number, task, **fields):
        return Request(task=task, **fields)

    def rollouts(self, requests, label, *, resumable):
        self.asked += requests
        return [
            Rollout(episode=episode(self.action, "more", tags=dict(one.tags)), segments=[SEGMENT])
            for one in requests for _ in range(one.samples)
        ]  # fmt: skip

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
    assert [(len(one.prefix.responses), one.prefix.avoid, one.max_turns) for one in run.asked] == [
        (0, ["say 1"], 2), (1, ["say 2"], 3),
    ]  # fmt: skip
    assert {one.samples for one in run.asked} == {3} and not any(one.prefix.learn for one in run.asked)
    few = ScriptedRun(shown=1)
    run_of(few, states=1)
    assert len(few.asked) == 1


def test_the_weights_are_on_observations_alone():
    run = ScriptedRun()
    algorithm, _ = run_of(run, alternatives=1)
    assert len(algorithm.observed) == 2 + 4
    assert {tuple(row.streams["cross_entropy"]) for row in algorithm.observed} == {(0, 0, 0, 0, 1, 0, 0)}
    assert len(run_of(ScriptedRun(), alternatives=1, include_expert=False)[0].observed) == 4


def test_a_branch_that_repeats_the_expert_or_ends_is_none():
    run = ScriptedRun(shown=1, action="say 1")
    algorithm, (found, *_) = run_of(run, alternatives=1, include_expert=False)
    assert len(algorithm.observed) == 1 and found == {"ee/branches": 2, "ee/without_example": 1}


def test_without_alternatives_it_learns_the_observations_of_demonstrations():
    run = ScriptedRun()
    run_of(run, alternatives=0, budget=Budget.EXTRA, epochs=1)
    assert run.asked == []
    world, cloned = (rows for rows, _ in run.learned)
    assert [row.segment for row in world] == [row.segment for row in cloned] == [SEGMENT] * 2
    seen = [weight for row in world for weight in row.streams["cross_entropy"]]
    (own,) = {tuple(row.segment.loss_weight) for row in world}
    assert sum(seen) == len(world) * own[SEGMENT.prompt :].count(0)


def test_an_equal_budget_takes_the_updates_from_cloning():
    run = ScriptedRun(shown=8)
    algorithm, _ = run_of(run, alternatives=1, states=1, epochs=5)
    world = -(-len(algorithm.observed) // 2)
    cloning = [passes["updates"] for _, passes in run.learned[1:]]
    assert sum(cloning) + world == 5 * 4
    extra = ScriptedRun(shown=8)
    run_of(extra, alternatives=1, states=1, epochs=5, budget=Budget.EXTRA)
    assert [passes["updates"] for _, passes in extra.learned] == [None] * 6


def test_a_resumed_run_learns_the_same():
    run, again = ScriptedRun(), ScriptedRun()
    algorithm, _ = run_of(run)
    resumed = EarlyExperience(algorithm.config)
    resumed.load_state_dict(json.loads(json.dumps(algorithm.state_dict())))
    for number in range(1, resumed.units):
        resumed.unit(again, number)
    assert [([row.streams for row in rows], passes) for rows, passes in again.learned] == [
        ([row.streams for row in rows], passes) for rows, passes in run.learned
    ]
    assert SimpleNamespace(**vars(resumed)).observed == [replace(row, episode=None) for row in algorithm.observed]
