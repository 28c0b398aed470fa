"""vLLM and the workers share a GPU's memory: servers sleep while weights change, and wake with the new ones.

A CPU never sleeps, so servers that check the order stand in for verl's.
"""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("verl")

from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta

from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.losses.dpo import Preference, PreferenceConfig
from agentgym_rl.algorithms.rows import Row, imitation
from agentgym_rl.engine.verl.learner import Learner
from agentgym_rl.engine.verl.sampler import Sampler
from agentgym_rl.engine.verl.weights import PausedServers, Servers, Weights
from agentgym_rl.rollout.supervised import Example


class Machine:
    """Servers and workers on the same GPUs. Each call says what verl would do, and fails where a GPU would."""

    def __init__(self):
        self.weights = self.served = 0
        self.awake, self.running, self.paused = True, True, False
        self.said = []

    # the servers, as verl's checkpoint manager has them

    def sleep_replicas(self):
        assert self.awake, "they sleep already"
        assert not (self.paused and self.running), "episodes of a next step run"
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
        return {"metrics": {name: [0.0] for name in ("loss", "grad_norm")}}

    update_actor = load_checkpoint = restore_model_from_cpu = _change

    def compute_log_prob(self, data):
        assert not self.awake, "log-probabilities beside servers that hold the memory"
        return {"log_probs": data["input_ids"].float()}

    def reset_optimizer(self):
        pass

    set_loss_fn = set_optimizer = lambda self, *_: None

    def generate(self):
        assert self.awake and self.running and self.served == self.weights, "an episode of old weights"
        self.said.append("rollout")


def parts(kind):
    """Sampler, learner and weights on such a machine; nothing is sampled."""
    machine = Machine()
    machine.paused = kind is PausedServers

    def paused():
        machine.abort_replicas()
        machine.sleep_replicas()

    verl = SimpleNamespace(
        actor_rollout_wg=machine, servers=lambda: kind(machine, []), use_critic=False, parameter_sync_step=1,
        timing_raw={}, global_steps=1, replay_buffer=SimpleNamespace(exploring=nullcontext),
        on_step_begin=lambda: None, on_sample_begin=lambda: None,
        on_sample_end=paused if kind is PausedServers else machine.sleep_replicas,
    )  # fmt: skip
    settings = SimpleNamespace(
        begin_step=lambda *_: None, fewest_samples=1, temperature=1.0, workers=1, ranks=1,
        verify_sync="never", set_loss=lambda *_: None,
        config=OmegaConf.create({"data": {"train_batch_size": 1, "max_response_length": 9}}),
    )  # fmt: skip
    weights = Weights(verl, settings)
    weights.probe, weights.pristine = SimpleNamespace(due=lambda when: False), False
    learner = Learner(verl, settings, weights)
    learner._set_loss = lambda *_: None
    sampler = Sampler(verl, settings, weights, learner, 0)
    sampler.submit = lambda *_, **__: machine.generate()
    sampler.take_finished = lambda partition, size: []
    sampler._groups = lambda size: (KVBatchMeta(partition_id="train", keys=[], tags=[]), {})
    return sampler, learner, weights, machine


EXAMPLE = Example([1, 2, 3], [0.0, 1.0, 1.0])
PAIR = Preference(PreferenceConfig())

PHASES = {
    "rollouts": (lambda sampler, *_: sampler.rollouts([{}], validate=True), ["rollout"]),
    "cloning": (
        lambda _, learner, __: learner.learn([imitation(EXAMPLE)] * 2, CROSS_ENTROPY, lr=1e-3, mini_batch=2),
        ["sleep", "update"],
    ),
    "preference": (
        lambda _, learner, __: learner.learn([Row(EXAMPLE, {})] * 2, PAIR, lr=1e-3, mini_batch=1),
        ["sleep", "update"],
    ),
    "restore": (lambda _, __, weights: weights.restore(Path("step")), ["sleep", "update"]),
    "base": (lambda _, __, weights: weights.restore(None), ["sleep", "update"]),
}


@pytest.mark.parametrize("phase", PHASES)
def test_each_phase_sleeps_before_weights_change_and_wakes_before_episodes(phase):
    *roles, machine = parts(Servers)
    act, expected = PHASES[phase]
    act(*roles)
    assert machine.said == expected
    roles[0].rollouts([{}], validate=False)
    woken = [] if phase == "rollouts" else ["wake"]
    assert machine.said == [*expected, *woken, "rollout"]
    assert roles[0].verl.timing_raw["gen"] > 0, "the unit tells how long it took"


@pytest.mark.parametrize("kind", [Servers, PausedServers])
def test_a_policy_step_wakes_the_servers_at_its_end(kind):
    sampler, _, _, machine = parts(kind)
    for number in range(2):
        for _ in sampler.batches(number, 2, lambda *_: []):
            machine.update_actor()  # as an update does
    assert machine.said == ["rollout", "sleep", "update", "wake"] * 2 and machine.running


def test_episodes_of_a_next_step_stop_before_any_update():
    """As those of a model beside the policy, after the policy's."""
    sampler, learner, _, machine = parts(PausedServers)
    for _ in sampler.batches(0, 2, lambda *_: []):
        machine.update_actor()
    learner.learn([imitation(EXAMPLE)] * 2, CROSS_ENTROPY, lr=1e-3, mini_batch=2)
    assert not machine.running and not machine.awake
    sampler.rollouts([{}], validate=True)
    assert machine.running


def test_phases_follow_each_other_in_any_order():
    for first in PHASES:
        for second in PHASES:
            *roles, machine = parts(Servers)
            PHASES[first][0](*roles)
            PHASES[second][0](*roles)
            for _ in roles[0].batches(0, 1, lambda *_: []):
                machine.update_actor()
            assert machine.awake and machine.served == machine.weights
