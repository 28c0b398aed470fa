"""vLLM and the workers share a GPU's memory: servers sleep while weights change, and wake with the new ones.

A CPU never sleeps, so servers that check the order stand in for verl's.
"""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("verl")

import torch
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.utils import MetricsAggregator

from agentgym_rl.algorithms.base import Preference, Supervised
from agentgym_rl.algorithms.optimizer import OptimizerConfig
from agentgym_rl.engine.verl import trainer as trainers
from agentgym_rl.engine.verl.modes import ColocateTrainer, SyncTrainer
from agentgym_rl.engine.verl.schedule import Schedule
from agentgym_rl.rollout.supervised import Example


class Machine:
    """Servers and workers on the same GPUs. Each call says what verl would do, and fails where a GPU would."""

    def __init__(self):
        self.weights = self.served = 0
        self.awake, self.running = True, True
        self.said = []

    # the servers, as verl's checkpoint manager has them

    def sleep_replicas(self):
        assert self.awake, "they sleep already"
        self.awake = False
        self.said.append("sleep")

    def abort_replicas(self):
        self.running = False

    def resume_generation_replicas(self):
        assert self.awake and self.served == self.weights, "they go on with old weights"
        self.running = True

    def update_weights(self, step):
        assert not self.awake, "weights are sent to servers that hold the memory"
        self.awake, self.served = True, self.weights
        self.said.append("wake")

    # the workers

    def _change(self, *_, **__):
        assert not self.awake, "the weights change beside servers that hold the memory"
        self.weights += 1
        self.said.append("update")
        return {"metrics": {name: [0.0] for name in ("loss", "grad_norm", *trainers.PREFERENCE)}}

    update_actor = load_checkpoint = restore_model_from_cpu = _change

    def compute_log_prob(self, data):
        assert not self.awake, "log-probabilities beside servers that hold the memory"
        return {"log_probs": torch.zeros(8)}

    def reset_optimizer(self):
        pass

    set_loss_fn = set_optimizer = lambda self, *_: None

    def generate(self):
        assert self.awake and self.running and self.served == self.weights, "an episode of old weights"
        self.said.append("rollout")


def a_trainer(kind, monkeypatch):
    one, machine = object.__new__(kind), Machine()
    one.actor_rollout_wg = one.checkpoint_manager = machine
    one._probe = SimpleNamespace(due=lambda when: False)
    one.schedule, one.parameter_sync_step, one.curr_step_profile = Schedule(0), 1, False
    one._warmup, one._redraws, one._fewest_samples, one._group_filter = 0, 0, 1, None
    one._synced, one._pristine, one._verify_sync, one._sync_metrics = True, True, "never", {}
    one.timing_raw, one._metrics, one.use_critic, one.global_steps = {}, MetricsAggregator(), False, 1
    one.optimizer, one._loss, one.replay_buffer = OptimizerConfig(), "", SimpleNamespace(exploring=nullcontext)
    one.config = OmegaConf.create(
        {
            "data": {"train_batch_size": 1},
            "trainer": {"critic_warmup": 0, "nnodes": 1, "n_gpus_per_node": 1},
            "actor_rollout_ref": {"rollout": {"temperature": 1.0}},
        }
    )
    one._set_loss = lambda kind: None
    one._submit = lambda *_, **__: machine.generate()
    one._take_finished = lambda partition, size: []
    one._groups = lambda size: (KVBatchMeta(partition_id="train", keys=[], tags=[]), {})
    monkeypatch.setattr(trainers, "episode_log_probs", lambda *_: torch.zeros(2))
    return one, machine


EXAMPLE = Example([1, 2, 3], [0.0, 1.0, 1.0])
SUPERVISED = Supervised(examples=[EXAMPLE] * 2, mini_batch=2, updates=None)
PREFERENCE = Preference(pairs=[(EXAMPLE, EXAMPLE)], mini_batch=1, beta=0.1, epochs=1)

PHASES = {
    "rollouts": (lambda one: one.rollouts([{}], validate=True), ["rollout"]),
    "cloning": (lambda one: one.sft_step(SUPERVISED, 1e-3, "seed", lambda *_: None), ["sleep", "update"]),
    "preference": (lambda one: one.preference_step(PREFERENCE, 1e-3, "seed"), ["sleep", "update"]),
    "restore": (lambda one: one.restore(Path("step")), ["sleep", "update"]),
    "base": (lambda one: one.restore(None), ["sleep", "update"]),
}


@pytest.mark.parametrize("phase", PHASES)
def test_each_phase_sleeps_before_weights_change_and_wakes_before_episodes(phase, monkeypatch):
    one, machine = a_trainer(SyncTrainer, monkeypatch)
    one._pristine = False
    act, said = PHASES[phase]
    act(one)
    assert machine.said == said
    one.rollouts([{}], validate=False)
    woken = [] if phase == "rollouts" else ["wake"]
    assert machine.said == [*said, *woken, "rollout"]


@pytest.mark.parametrize("kind", [SyncTrainer, ColocateTrainer])
def test_a_policy_step_wakes_the_servers_at_its_end(kind, monkeypatch):
    one, machine = a_trainer(kind, monkeypatch)
    for number in range(2):
        for _ in one.batches(number, 2, lambda *_: []):
            machine.update_actor()  # as policy_step does
    assert machine.said == ["rollout", "sleep", "update", "wake"] * 2 and machine.running


def test_phases_follow_each_other_in_any_order(monkeypatch):
    for first in PHASES:
        for second in PHASES:
            one, machine = a_trainer(SyncTrainer, monkeypatch)
            one._pristine = False
            PHASES[first][0](one)
            PHASES[second][0](one)
            for _ in one.batches(0, 1, lambda *_: []):
                machine.update_actor()
            assert machine.awake and machine.served == machine.weights
