"""Groups without a gradient leave a step and others take their place; buffer and queue are scripted."""

from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest

pytest.importorskip("verl")

import transfer_queue as tq
from transfer_queue import KVBatchMeta

from agentgym_rl.algorithms.groups import GroupsConfig
from agentgym_rl.algorithms.grpo import GRPO, GRPOConfig
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import RecipeError
from agentgym_rl.engine.run.folder import State
from agentgym_rl.engine.run.run import REDRAW, EngineRun
from agentgym_rl.engine.verl import sampler as sampling
from agentgym_rl.engine.verl.dataset import row
from agentgym_rl.engine.verl.learner import StepMetrics
from agentgym_rl.engine.verl.rows import NothingToLearn
from agentgym_rl.engine.verl.sampler import Sampler
from agentgym_rl.envs import Task
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.rollout.prefix import Prefix, Replayed

FAILED = None
"""Stands for the reward of an episode that failed outside the agent."""


class Buffer:
    """Gives groups in the order in which they were submitted."""

    def __init__(self):
        self.waiting, self.episodes, self.may_be_empty = [], {}, False

    @contextmanager
    def refilling(self):
        self.may_be_empty = True
        yield
        self.may_be_empty = False

    def sample(self, global_steps, partition_id, batch_size):
        prompts, self.waiting = self.waiting[:batch_size], self.waiting[batch_size:]
        assert len(prompts) == batch_size, "a real buffer would wait for ever"
        keys = []
        for uid, rewards in prompts:
            for session, reward in enumerate(rewards):
                ending = Ending.ENV_ERROR if reward is FAILED else Ending.TERMINATED
                self.episodes[f"{uid}_{session}"] = Episode(
                    env="e", item_id=uid, ending=ending, reward=reward or 0.0, success=False, max_turns=9
                )
                keys += [] if reward is FAILED else [f"{uid}_{session}_0"]
        if not keys and not self.may_be_empty:
            raise NothingToLearn("all of them failed")
        return KVBatchMeta(partition_id="train", keys=keys, tags=[{"min_global_steps": 0} for _ in keys]), {}

    def take_episodes(self):
        episodes, self.episodes = self.episodes, {}
        return episodes


class Learner:
    """Takes batches."""

    def begin_step(self):
        self.metrics = StepMetrics()

    def take(self, batch, rollouts, metrics):
        self.metrics.add_step_metrics(metrics)
        self.learned = batch if rollouts else None

    def give_up(self):
        return self.learned


class Step:
    """One training step.

    Args:
        rewards: of the groups of each draw: those of the step itself, then of its redraws.
        filtered: keys of ``algorithm.groups``; None keeps all groups.
    """

    def __init__(self, rewards, filtered, syncs=1):
        self.drawn, self.learnt, self.triggers = [], [], []

        def nothing(*_, **__):
            return None

        self.buffer, self.rewards = Buffer(), rewards
        verl = SimpleNamespace(
            replay_buffer=self.buffer, global_steps=1, parameter_sync_step=syncs, on_step_begin=nothing,
            on_sample_begin=nothing, on_sample_end=nothing, _compute_metrics=nothing, timing_raw={},
        )  # fmt: skip
        settings = SimpleNamespace(
            begin_step=nothing, fewest_samples=2, temperature=1.0,
            config=SimpleNamespace(data=SimpleNamespace(train_batch_size=len(rewards[0]))),
        )  # fmt: skip
        weights = SimpleNamespace(ensure_synced=nothing, sync=nothing, sync_metrics={})
        self.sampler = Sampler(verl, settings, weights, Learner(), 0)
        self.sampler.submit = self.submit
        groups = GroupsConfig(filter=filtered is not None, **(filtered or {}))
        for batch in self.sampler.batches(0, 9, self.rows, **GRPO(GRPOConfig(groups=groups)).filter()):
            self.learnt.append(sorted({rollout.group for rollout in batch}))
            self.triggers.append(verl.local_trigger_step)
        self.metrics = {name: self.sampler.step_metrics.get(f"batch/{name}_groups") for name in
                        ("filtered", "refilled", "unfilled")}  # fmt: skip

    def rows(self, number, redraw, tasks):
        self.drawn.append((number, redraw, tasks))
        return [(redraw, task) for task in range(len(self.rewards[0]) if tasks is None else tasks)]

    def submit(self, rows, due):
        assert due == 1
        self.buffer.waiting += [(f"{redraw}.{task}", self.rewards[redraw][task]) for redraw, task in rows]


@pytest.fixture(autouse=True)
def cleared(monkeypatch):
    keys_cleared = []
    monkeypatch.setattr(tq, "kv_clear", lambda keys, partition_id: keys_cleared.extend(keys))
    return keys_cleared


FLAT, MIXED = [1.0, 1.0], [0.0, 1.0]
ANY = {"refills": 9}


def test_flat_groups_are_replaced_until_none_is_left(cleared):
    step = Step([[FLAT, MIXED, [0.0, 0.0]], [MIXED, FLAT], [MIXED]], ANY)
    assert step.learnt == [["0.1", "1.0", "2.0"]]
    assert step.drawn == [(0, 0, None), (0, 1, 2), (0, 2, 1)], "each redraw has as many tasks as were left out"
    assert step.metrics == {"filtered": 3, "refilled": 3, "unfilled": 0}
    assert {"0.0_0_0", "0.0_1_0", "0.2_0_0", "1.1_1_0"} <= set(cleared), "their tokens leave the queue"
    observed = [episode.item_id for episode in step.sampler.step_episodes]
    assert sorted(observed) == sorted(["0.0", "0.1", "0.2", "1.0", "1.1", "2.0"] * 2), "filtered ones are observed, too"


def test_all_groups_stay_without_a_filter():
    step = Step([[FLAT, MIXED]], None)
    assert (step.learnt, step.metrics) == ([["0.0", "0.1"]], dict.fromkeys(("filtered", "refilled", "unfilled")))
    assert step.sampler.step_metrics["rollout/staleness"] == 0, "sampled by what the step before led to"


@pytest.mark.parametrize(("refills", "learnt"), [(0, ["0.1"]), (1, ["0.1"]), (2, ["0.1", "1.1"])])
def test_refills_are_a_budget_of_the_step(refills, learnt):
    step = Step([[FLAT, MIXED, FLAT], [FLAT, MIXED]], {"refills": refills})
    assert step.learnt == [learnt]
    filtered = 2 + (refills > 0)
    assert step.metrics == {"filtered": filtered, "refilled": refills, "unfilled": filtered - refills}


def test_the_first_mini_batch_with_groups_is_the_first_for_verl():
    """At its first, verl keeps the weights that old log-probabilities of the others come from."""
    assert Step([[FLAT, MIXED, MIXED]], {"refills": 0}, syncs=3).triggers == [0, 0, 1]
    assert Step([[MIXED, FLAT, MIXED]], {"refills": 0}, syncs=3).triggers == [0, 1, 1]


def test_mini_batches_share_the_budget():
    step = Step([[FLAT, MIXED, FLAT, MIXED], [MIXED]], {"refills": 1}, syncs=2)
    assert step.learnt == [["0.1"], ["0.3", "1.0"]], "0.2 is under way, takes the place of 0.0, and is flat, too"
    assert step.metrics == {"filtered": 2, "refilled": 1, "unfilled": 1}


def test_groups_that_failed_are_not_filtered():
    step = Step([[[FAILED, FAILED], [1.0, FAILED], [FAILED, 1.0, 1.0], MIXED], [[FAILED, FAILED]]], ANY)
    assert step.learnt == [["0.3"]]
    assert step.metrics == {"filtered": 1, "refilled": 1, "unfilled": 0}
    assert step.sampler.step_metrics["rollout/singleton_episodes"] == 1


def test_a_mini_batch_that_failed_as_a_whole_ends_no_step():
    """A task whose server is down, where mini-batches are learned from as they come: the others are learned from."""
    step = Step([[[FAILED, FAILED], MIXED, [1.0, FAILED]]], None, syncs=3)
    assert step.learnt == [[], ["0.1"], []]
    assert step.sampler.step_metrics["rollout/singleton_episodes"] == 1
    with pytest.raises(NothingToLearn, match="none of the 4 episodes"):
        Step([[[FAILED, FAILED], [1.0, FAILED]]], None, syncs=2)


def test_counts_of_mini_batches_add_up():
    singles = [[1.0, FAILED], MIXED]
    assert Step([singles * 2], None, syncs=2).sampler.step_metrics["rollout/singleton_episodes"] == 2


def test_metrics_of_a_step_are_not_read_off_any_part_of_their_names():
    step = StepMetrics()
    share, updates = "rollout_corr/rollout_rs_seq_sum_k1_masked_fraction", "batch/updates"
    for value in (0.2, 0.4):
        step.add_step_metrics({share: value, updates: 1, "rollout_corr/rollout_rs_seq_sum_k1_max": value}, 3)
    metrics = step.get_aggregated_metrics()
    assert [*metrics.values()] == pytest.approx([0.3, 2, 0.4])


def test_a_step_without_any_gradient_has_no_update():
    step = Step([[FLAT, FLAT]], {"refills": 0})
    assert (step.learnt, step.metrics) == ([[]], {"filtered": 2, "refilled": 0, "unfilled": 2})
    with pytest.raises(NothingToLearn):
        Step([[[1.0, FAILED]]], ANY)


def test_groups_of_little_variance_leave_too():
    rewards = [[[0.4, 0.5, 0.4], [0.0, 1.0, 0.0]]]
    assert Step(rewards, {"refills": 0, "min_reward_std": 0.1}).learnt == [["0.1"]]
    assert Step(rewards, {"refills": 0, "min_reward_std": 0.05}).learnt == [["0.0", "0.1"]]
    assert Step([[[0.0, 0.5, 1.0]]], {"refills": 0, "min_reward_std": 0.5}).learnt == [["0.0"]], "no lower than that"


def test_what_is_drawn_in_their_place(toy_recipes):
    """By seed, step and redraw, from the mixture, with the turn limit of the step."""
    overrides = ["experiment=counter", "+env=generous", "algorithm.tasks_per_step=8", "curriculum=stepwise",
                 "curriculum.rounds=[3,7]", "curriculum.steps=1"]  # fmt: skip
    config = recipes.load(overrides)
    plans = []
    sampler = SimpleNamespace(
        batches=lambda number, steps, rows, *_: plans.append(rows) or [], step_metrics={}, step_episodes=[]
    )
    trainer = SimpleNamespace(sampler=sampler, timing_raw={"gen": 0.0})

    def drawn(redraw, number=1, count=6):
        run = EngineRun(
            resolved=Resolved(config), trainer=trainer, folder=None, state=State(global_step=number + 1), log=None,
            encoder=None, demonstrations=[], bar=None, say=None, stop=None, steps=5,
        )  # fmt: skip
        with suppress(EnvUnavailable):  # no episode comes back here
            list(run.batches(number))
        return [(row["item_id"], row["max_turns"]) for row in plans[-1](number, redraw, count)]

    first = drawn(1)
    assert len(first) == 6 and {limit for _, limit in first} == {7}
    assert {item.partition("_")[0] for item, _ in first} == {"counter", "generous"}, "in the shares of the mixture"
    assert drawn(1) == first
    assert drawn(2) != first != drawn(1, number=2)
    expected = Resolved(config).mixture.draw(2 + REDRAW, 6, config.algorithm.samples_per_task)
    assert [item for item, _ in first] == [str(draw.task) for draw in expected]


def test_requests_always_have_a_turn_limit(toy_recipes):
    """Plans compare and add it: to the turns of a prefix, to those of a task's successes."""

    def limit(*overrides):
        resolved = Resolved(recipes.load(["experiment=counter", *overrides]))
        run = SimpleNamespace(resolved=resolved, curriculum=resolved.curriculum)
        return EngineRun.request(run, 0, Task("counter", 1)).max_turns, resolved.envs["counter"].spec.max_turns

    usual, of_env = limit("rollout.max_turns=null", "envs.counter.max_turns=null")
    assert usual == of_env
    assert limit("rollout.max_turns=3", "envs.counter.max_turns=null") == (3, of_env)


def test_requests_of_a_step_can_be_planned(toy_recipes):
    """In place of drawn ones, with what they begin with; what replaces lost groups is drawn."""
    config = recipes.load(["experiment=counter", "algorithm.tasks_per_step=2"])
    plans = []
    sampler = SimpleNamespace(batches=lambda number, steps, rows, *_: plans.append(rows) or [], step_metrics={},
                              step_episodes=[])  # fmt: skip
    run = EngineRun(
        resolved=Resolved(config), trainer=SimpleNamespace(sampler=sampler, timing_raw={"gen": 0.0}), folder=None,
        state=State(global_step=1), log=None, encoder=None, demonstrations=[], bar=None, say=None, stop=None, steps=5,
    )  # fmt: skip
    prefix = Prefix(responses=[Replayed(text="Action: up")])

    def plan(number, drawn, many=2):
        return [run.request(number, Task("counter", number), prefix=prefix, preface="Up."), *drawn][:many]

    def rows(plan, *arguments):
        with suppress(EnvUnavailable):  # no episode comes back here
            list(run.batches(0, plan))
        return plans[-1](*arguments)

    first, second = rows(plan, 3, 0, None)
    assert (first["item_id"], first["prefix"], first["preface"]) == ("counter_3", prefix.to_dict(), "Up.")
    assert "prefix" not in second and "preface" not in second
    assert rows(plan, 3, 1, 2) == rows(None, 3, 1, 2), "drawn again"
    with pytest.raises(ValueError, match=r"a step takes .*=2 requests, and 3 were planned"):
        rows(lambda number, drawn: plan(number, drawn, 3), 0, 0, None)


def test_rows_of_a_step_may_begin_in_different_ways(monkeypatch):
    """Those without a prefix, or without a preface, say so where others have one."""
    monkeypatch.setattr(sampling.tq, "kv_batch_put", lambda **_: None)
    batches = []
    manager = SimpleNamespace(generate_sequences=batches.append)
    verl = SimpleNamespace(global_steps=1, agent_loop_manager=manager)
    sampler = sampling.Sampler(verl, None, None, None, 0)
    prefix = Prefix(responses=[Replayed(text="up")]).to_dict()
    tasks = [Task("counter", number) for number in range(3)]
    sampler.submit([row(0, tasks[0], prefix=prefix), row(1, tasks[1], preface="Up."), row(2, tasks[2])], 1)
    (batch,) = batches
    assert list(batch["item_id"]) == ["counter_0", "counter_1", "counter_2"]
    assert list(batch["prefix"]) == [prefix, None, None] and list(batch["preface"]) == [None, "Up.", None]


@pytest.mark.slow
def test_only_algorithms_that_compare_episodes_have_the_key(toy_recipes):
    for algorithm in ("ppo", "reinforce_pp", "dpo"):
        with pytest.raises(RecipeError, match=r"algorithm\.groups is unknown"):
            recipes.load(["experiment=counter", f"algorithm={algorithm}", "algorithm.groups.filter=true"])
    for algorithm in ("grpo", "rloo", "gigpo", "exit"):
        config = recipes.load(["experiment=counter", f"algorithm={algorithm}", "algorithm.groups.filter=true"])
        assert Resolved(config).algorithm.filter()["refills"] == 4
