"""The losses of updates, pairs in micro-batches, and a preference step."""

import inspect
from functools import partial
from itertools import product
from math import nan
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("verl")

import torch
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import trainer_base
from verl.utils import tensordict_utils as tu
from verl.workers.config import ActorConfig
from verl.workers.engine.utils import prepare_micro_batches

from agentgym_rl.algorithms.base import Policy, Preference, Rollout, Supervised
from agentgym_rl.algorithms.losses import losses
from agentgym_rl.algorithms.losses.dpo import episode_log_probs
from agentgym_rl.algorithms.losses.vanilla import Vanilla, VanillaConfig
from agentgym_rl.algorithms.optimizer import OptimizerConfig
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.engine.recipe.compose import load
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.verl import updates
from agentgym_rl.engine.verl.by_rows import ByRows, metric_data, told
from agentgym_rl.engine.verl.learner import Learner
from agentgym_rl.engine.verl.mapping import verl_config
from agentgym_rl.engine.verl.modes import TRAINERS, ColocateTrainer, SeparateTrainer, SyncTrainer
from agentgym_rl.engine.verl.settings import Settings
from agentgym_rl.engine.verl.updates import dpo_loss, order, pair_batch, supervised_loss, to_batch
from agentgym_rl.rollout.supervised import Example

# supervised


@given(count=st.integers(1, 40), batch=st.integers(1, 12), seed=st.text(), updates=st.none() | st.integers(0, 15))
def test_order(count, batch, seed, updates):
    indices = order(count, batch, seed, updates)
    assert len(indices) % batch == 0
    if updates is None:
        assert count <= len(indices) < count + batch
    else:
        assert len(indices) == updates * batch
    for start in range(0, len(indices), count):
        one_pass = indices[start : start + count]
        assert len(set(one_pass)) == len(one_pass)
        assert len(one_pass) < count or sorted(one_pass) == list(range(count))
    assert order(count, batch, seed, updates) == indices


VANILLA = Vanilla(VanillaConfig())


def test_order_differs_from_seed_to_seed_and_pass_to_pass():
    assert order(20, 10, "a") != order(20, 10, "b")
    two = order(20, 10, "a", updates=4)
    assert two[:20] == order(20, 10, "a")
    assert two[20:] != two[:20]


def test_to_batch():
    import torch
    from verl.utils import tensordict_utils as tu

    examples = [Example([7, 8, 9], [0.0, 1.0, 0.0]), Example([4, 5], [0.0, 0.5])]
    data = to_batch(examples, batch=2)
    assert data.batch_size == torch.Size([2])
    for name, rows, kind in (
        ("input_ids", [[7, 8, 9], [4, 5]], torch.int64),
        ("position_ids", [[0, 1, 2], [0, 1]], torch.int64),
        ("loss_mask", [[0.0, 1.0, 0.0], [0.0, 0.5]], torch.float32),
    ):
        assert data[name].is_nested and data[name].dtype == kind
        assert [row.tolist() for row in data[name].unbind()] == rows
    assert tu.get_non_tensor_data(data, "global_batch_size", None) == 2
    assert tu.get_non_tensor_data(data, "mini_batch_size", None) == 2
    assert tu.get_non_tensor_data(data, "dataloader_kwargs", None) == {"shuffle": False}


def test_a_first_token_cannot_be_learnt():
    with pytest.raises(AssertionError, match="first token"):
        to_batch([Example([1, 2], [1.0, 1.0])], batch=1)


# preference

GOOD, BAD = Example([1, 2, 3, 4], [0.0, 1.0, 0.0, 1.0]), Example([1, 5, 6], [0.0, 0.0, 1.0])
OTHER = Example([1, 7], [0.0, 1.0])


def nested(data, values):
    return torch.nested.nested_tensor_from_jagged(values, data["input_ids"].offsets())


def test_log_probs_of_the_tokens_the_model_wrote():
    data = pair_batch([(GOOD, BAD)], 1)
    at = torch.tensor([-1.0, -2.0, -3.0, 99.0, -10.0, -20.0, 99.0])  # each that of the token after it
    assert episode_log_probs(nested(data, at), data["loss_mask"]).tolist() == [-4.0, -20.0]


def loss_of(data, log_probs, reference, beta, dp_size, pairs):
    data["ref_log_prob"] = torch.tensor(reference)
    tu.assign_non_tensor(data, beta=beta, dp_size=dp_size, global_batch_size=2 * pairs)
    return dpo_loss(None, {"log_probs": nested(data, log_probs)}, data)


def test_the_loss_by_hand():
    data = pair_batch([(GOOD, BAD)], 1)
    at = torch.tensor([-1.0, -2.0, -3.0, 99.0, -10.0, -5.0, 99.0], requires_grad=True)
    loss, metrics = loss_of(data, at, [-6.0, -4.0], beta=0.5, dp_size=1, pairs=1)
    margin = 0.5 * ((-4.0 + 6.0) - (-5.0 + 4.0))
    assert loss.item() == pytest.approx(-torch.tensor(margin).sigmoid().log().item())
    assert {name: metric.aggregate() for name, metric in metrics.items()} == {
        "dpo/margin": pytest.approx(margin),
        "dpo/accuracy": 1.0,
    }
    loss.backward()
    slope = 0.5 * torch.sigmoid(torch.tensor(-margin)).item()
    assert at.grad.tolist() == pytest.approx([-slope, 0, -slope, 0, 0, slope, 0])


def test_at_the_reference_the_loss_is_log_2():
    data = pair_batch([(GOOD, BAD)], 1)
    loss, metrics = loss_of(data, torch.full((7,), -1.0), [-2.0, -1.0], beta=0.1, dp_size=1, pairs=1)
    assert loss.item() == pytest.approx(0.6931, abs=1e-4)
    assert metrics["dpo/accuracy"].aggregate() == 0.0


def test_micro_batches_keep_pairs_together_and_sum_to_the_whole():
    """Whatever the split, the summed loss of the micro-batches is the mean over the pairs."""
    pairs = [(GOOD, BAD), (OTHER, GOOD), (BAD, OTHER), (GOOD, OTHER)]
    reference = torch.linspace(-4.0, -1.0, 8)
    whole = pair_batch(pairs, 4)
    total = whole["input_ids"].values().numel()
    expected, _ = loss_of(whole, -whole["input_ids"].values().float() / 3, reference.tolist(), 0.3, 1, 4)
    for limit in (7, 12, total):
        data = pair_batch(pairs, 4)
        data["ref_log_prob"] = reference
        data["row"] = torch.arange(8)
        tu.assign_non_tensor(data, use_dynamic_bsz=True, max_token_len_per_gpu=limit, sp_size=1)
        micro_batches, _ = prepare_micro_batches(data)
        assert (len(micro_batches) == 1) is (limit == total)
        summed = 0.0
        for one in micro_batches:
            rows = one["row"].tolist()
            assert all(
                second == first + 1 and first % 2 == 0 for first, second in zip(rows[::2], rows[1::2], strict=True)
            )
            tu.assign_non_tensor(one, beta=0.3, dp_size=1, global_batch_size=8)
            loss, _ = dpo_loss(None, {"log_probs": nested(one, -one["input_ids"].values().float() / 3)}, one)
            summed += loss.item()
        assert summed == pytest.approx(expected.item(), rel=1e-5)


def test_a_share_of_two_workers():
    """verl averages the gradients of workers, so that each worker's loss counts its pairs twice."""
    first, second = pair_batch([(GOOD, BAD)], 2), pair_batch([(OTHER, GOOD)], 2)
    both = pair_batch([(GOOD, BAD), (OTHER, GOOD)], 2)
    losses = [
        loss_of(data, -data["input_ids"].values().float(), reference, 0.3, size, 2)[0].item()
        for data, reference, size in (
            (first, [-4.0, -1.0], 2),
            (second, [-2.0, -3.0], 2),
            (both, [-4.0, -1.0, -2.0, -3.0], 1),
        )
    ]
    assert (losses[0] + losses[1]) / 2 == pytest.approx(losses[2])


def test_workers_and_updates_never_part_a_pair():
    """verl's own split of a batch: equal shares of workers, then mini-batches, then micro-batches."""
    data = pair_batch([(GOOD, BAD), (OTHER, GOOD), (BAD, OTHER), (GOOD, OTHER)], 2)
    data["row"] = torch.arange(8)
    seen = []
    for share in tu.chunk_tensordict(data, 2):
        for update in tu.make_iterator(
            share, mini_batch_size=2, epochs=1, seed=1, dataloader_kwargs={"shuffle": False}
        ):
            tu.assign_non_tensor(update, use_dynamic_bsz=True, max_token_len_per_gpu=7, sp_size=1)
            seen += [one["row"].tolist() for one in prepare_micro_batches(update)[0]]
    assert seen == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_pair_that_does_not_fit_is_refused():
    data = pair_batch([(GOOD, BAD)], 1)
    tu.assign_non_tensor(data, use_dynamic_bsz=True, max_token_len_per_gpu=6, sp_size=1)
    with pytest.raises(ValueError, match="forced group exceeds"):
        prepare_micro_batches(data)


# a step of the trainer


class Workers:
    """Two workers that learn nothing; every token's log-probability is minus its id."""

    def __init__(self):
        self.settings, self.losses, self.log_probs, self.updates = [], [], [], []

    def set_optimizer(self, *settings):
        self.settings.append(settings)

    def set_loss_fn(self, loss):
        self.losses.append(loss.func)

    def compute_log_prob(self, data):
        self.log_probs.append(data)
        assert not self.updates and len(data) % 4 == 0
        ids = data["input_ids"].values().float()
        return {"log_probs": nested(data, -torch.roll(ids, shifts=-1))}

    def update_actor(self, data):
        self.updates.append(data)
        return {"metrics": {"loss": [0.5], "dpo/margin": [0.1], "dpo/accuracy": [1.0], "grad_norm": [2.0]}}


def settings():
    """verl's, of a run."""
    return verl_config(Resolved(load(["experiment=smoke"])), "model", Path("run"))


@pytest.fixture
def learner(monkeypatch):
    monkeypatch.setattr("agentgym_rl.engine.verl.learner.omega_conf_to_dataclass", lambda config: config)
    found = Learner(SimpleNamespace(actor_rollout_wg=Workers()), SimpleNamespace(workers=2, actor=None), None)
    found.weights = SimpleNamespace(
        asleep=[], sleep=lambda: found.weights.asleep.append(len(found.verl.actor_rollout_wg.log_probs))
    )
    found.optimizer = OptimizerConfig(weight_decay=0.1, betas=[0.5, 0.9], clip_grad=2.0)
    return found


def test_a_preference_step(learner):
    examples = [Example([9, place], [0.0, 1.0]) for place in range(5)]
    pairs = [(examples[won], examples[lost]) for won, lost in ((0, 1), (0, 2), (3, 4))]
    update = Preference(pairs=pairs, mini_batch=4, epochs=2, beta=0.2)
    metrics, updates = learner.preference_step(update, 1e-3, "s")
    workers = learner.verl.actor_rollout_wg
    assert learner.weights.asleep == [0], "vLLM gives its memory back before the workers compute"
    assert (updates, metrics["dpo/updates"], metrics["dpo/loss"]) == (2, 2.0, 0.5)
    assert (workers.settings, workers.losses) == ([(1e-3, 0.1, (0.5, 0.9), 2.0)], [dpo_loss])
    assert len(workers.log_probs) == 1 and len(workers.updates) == 2
    wanted = {(0, 1), (0, 2), (3, 4)}
    for data in workers.updates:
        tokens = [int(row[1]) for row in data["input_ids"].unbind()]
        assert len(tokens) == 8  # three pairs make an update of four, so that two workers share it equally
        assert set(zip(tokens[::2], tokens[1::2], strict=True)) == wanted
        assert data["ref_log_prob"].tolist() == [-token for token in tokens]
        assert (data["beta"], data["mini_batch_size"], data["force_group_size"]) == (0.2, 8, 2)


def test_a_supervised_step_shows_its_progress(learner, monkeypatch):
    examples, seen = [Example([9, place], [0.0, 1.0]) for place in range(10)], []
    step = partial(
        learner.sft_step, Supervised(examples=examples, mini_batch=2), 1e-3, "s", lambda *at: seen.append(at)
    )
    metrics, updates = step()
    assert (updates, metrics["supervised/loss"], metrics["supervised/grad_norm"]) == (5, 0.5, 2.0)
    assert seen == [(1, 5), (3, 5), (5, 5)]
    tokens = [int(row[1]) for data in learner.verl.actor_rollout_wg.updates for row in data["input_ids"].unbind()]
    assert tokens == order(10, 2, "s"), "the parts are those of one pass"
    seen.clear()
    monkeypatch.setattr("agentgym_rl.engine.verl.learner.PART_S", 0.0)
    step()
    assert seen == [(done, 5) for done in range(1, 6)], "slow updates are shown one by one"


def policy_step(learner, monkeypatch):
    """A policy update of which nothing is real but when it sets its loss; returns the loss that it ran with."""
    ran, workers = [], learner.verl.actor_rollout_wg
    actor = SimpleNamespace(
        loss_agg_mode="token-mean", ppo_mini_batch_size=1, ppo_epochs=1,
    )  # fmt: skip
    correction = SimpleNamespace(rollout_is=None, rollout_rs=None, bypass_mode=False)
    learner.settings = SimpleNamespace(
        actor=actor, workers=2, with_reference=False, learns=lambda step: True,
        config=SimpleNamespace(
            data=SimpleNamespace(max_response_length=9), algorithm=SimpleNamespace(rollout_correction=correction)
        ),
    )  # fmt: skip
    learner.verl = SimpleNamespace(
        actor_rollout_wg=workers, use_critic=False, global_steps=1, timing_raw={},
        _compute_old_log_prob=lambda batch, metrics: batch,
        _update_actor=lambda batch, metrics: (ran.append(workers.losses[-1]), batch)[1],
    )  # fmt: skip
    learner.on_policy, learner.balance = lambda: False, lambda batch, metrics: batch
    for name, stub in {
        "only": lambda batch, kept: batch, "write": lambda batch, *_, **__: batch,
        "advantage_metrics": lambda *_: {}, "ratio_metrics": lambda *_: {},
    }.items():  # fmt: skip
        monkeypatch.setattr(f"agentgym_rl.engine.verl.learner.queue.{name}", stub)
    learner.batch = KVBatchMeta(partition_id="train", keys=["a_0_0"], tags=[{}])
    episode = Episode(env="e", item_id="e_1", ending=Ending.TERMINATED, reward=1.0, success=True, max_turns=1)
    learner.policy_step(Policy(loss=VANILLA, rollouts=[Rollout(episode=episode, key="a_0")], advantages=[1.0]), 1e-3)
    return ran[0]


def test_every_update_sets_its_own_loss_in_whatever_order(learner, monkeypatch):
    examples = [Example([9, place], [0.0, 1.0]) for place in range(2)]
    workers = learner.verl.actor_rollout_wg

    def supervised():
        learner.sft_step(Supervised(examples=examples, mini_batch=2), 1e-3, "s", lambda *_: None)
        return workers.losses[-1]

    def preference():
        workers.updates.clear()
        learner.preference_step(Preference(pairs=[(GOOD, BAD)], mini_batch=1, epochs=1, beta=0.1), 1e-3, "s")
        return workers.losses[-1]

    functions = {"policy": updates.policy_loss, "supervised": supervised_loss, "preference": dpo_loss}
    kinds = {"policy": partial(policy_step, learner, monkeypatch), "supervised": supervised, "preference": preference}
    for first, second in product(kinds, repeat=2):
        assert [kinds[first](), kinds[second]()] == [functions[first], functions[second]]


# the policy loss

ACTOR = {"strategy": "fsdp2", "rollout_n": 1, "ppo_micro_batch_size_per_gpu": 1}


def policy_loss(config, output, data, loss=None):
    return updates.policy_loss(config, output, data, loss=loss or VANILLA)


def policy_data(loss_weight=None, **fields):
    """Two rows of one prompt token; the second token of each response is an observation."""
    masks = [[1, 0, 1], [1, 0]]
    rows = {name: [[value] * len(mask) for mask in masks] for name, value in {"advantages": 1.0}.items()}
    jagged = {
        "response_mask": [torch.tensor(mask) for mask in masks],
        "advantages": [torch.tensor(row) for row in rows["advantages"]],
        "old_log_probs": [torch.full((len(mask),), -1.0) for mask in masks],
        "prompts": [torch.tensor([5]), torch.tensor([5])],
        "responses": [torch.tensor([6, 7, 8]), torch.tensor([6, 7])],
        **{name: [torch.tensor(row) for row in value] for name, value in fields.items()},
    }
    nested_rows = {name: torch.nested.as_nested_tensor(value, layout=torch.jagged) for name, value in jagged.items()}
    data = tu.get_tensordict(nested_rows)
    data["loss_weight"] = torch.tensor([1 / 3, 1 / 3] if loss_weight is None else loss_weight)
    tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=3, global_batch_size=2)
    return data


def test_observation_weights_add_a_supervised_loss_to_the_policy_loss():
    config = ActorConfig(**ACTOR)
    # at each place the log-probability of the token after it: prompt, then the response
    flat = torch.tensor([-1.0, -2.0, -1.0, 0.0, -1.0, -4.0, 0.0], requires_grad=True)
    output = {"log_probs": torch.nested.nested_tensor_from_jagged(flat, torch.tensor([0, 4, 7]))}
    plain, _ = policy_loss(config, output, policy_data())
    weights = {"observation_weight": [[0.0, 0.5, 0.0], [0.0, 0.25]]}
    loss, metrics = policy_loss(config, output, policy_data(**weights))
    assert (loss - plain).item() == pytest.approx((0.5 * 2.0 + 0.25 * 4.0) / 3)
    assert metrics["observation_loss"].aggregate() == pytest.approx(2 / 3)
    (loss - plain).backward()
    assert flat.grad.tolist() == pytest.approx([0, -0.5 / 3, 0, 0, 0, -0.25 / 3, 0])


def test_the_policy_loss_by_hand():
    """Weights of tokens, rejection, importance weights, entropy bonus and KL loss; equal on two workers."""
    fields = {
        "advantages": [[2.0, 9.0, -1.0], [1.0, 9.0]],
        "kept": [[1, 0, 1], [0, 0]],
        "loss_weight": [0.25, 0.125],
        "rollout_is_weights": [[1.0, 1.0, 2.0], [1.0, 1.0]],
        "ref_log_prob": [[-1.0, -1.0, -2.0], [-1.0, -1.0]],
    }
    flat = torch.full((7,), -1.0)  # as the old ones, so that every ratio is 1
    offsets = torch.tensor([0, 4, 7])
    output = {
        "log_probs": torch.nested.nested_tensor_from_jagged(flat, offsets),
        "entropy": torch.nested.nested_tensor_from_jagged(torch.full((7,), 0.4), offsets),
    }
    config, chosen = ActorConfig(**ACTOR), Vanilla(VanillaConfig(entropy=0.1, kl=0.5))
    data = policy_data(**fields)
    loss, metrics = policy_loss(config, output, data, chosen)
    policy, entropy = -(2.0 * 0.25 - 1.0 * 0.25 * 2.0), 0.4 * 0.5
    kl = 0.25 * (torch.tensor(-1.0).exp().item() + 1 - 1)
    assert loss.item() == pytest.approx(policy - 0.1 * entropy + 0.5 * kl)
    assert metrics["actor/pg_loss"].aggregate() == pytest.approx(policy)
    assert metrics["kl_loss"].aggregate() == pytest.approx(kl)
    tu.assign_non_tensor(data, dp_size=2)
    assert policy_loss(config, output, data, chosen)[0].item() == pytest.approx(2 * loss.item())


def test_without_old_log_probabilities_they_are_the_present_ones():
    """As in a batch that is updated once, with the weights that sampled it."""
    config = ActorConfig(**ACTOR)
    offsets = torch.tensor([0, 4, 7])

    def updated(data):
        flat = torch.tensor([-1.0, -2.0, -1.5, 0.0, -1.0, -4.0, 0.0], requires_grad=True)
        loss, metrics = policy_loss(config, {"log_probs": torch.nested.nested_tensor_from_jagged(flat, offsets)}, data)
        loss.backward()
        return loss.item(), {name: metric.aggregate() for name, metric in metrics.items()}, flat.grad.tolist()

    given = policy_data(old_log_probs=[[-1.0, -2.0, -1.5], [-1.0, -4.0]])
    assert updated(given.exclude("old_log_probs")) == updated(given)
    replayed = policy_data(old_log_probs=[[nan, nan, -1.5], [-1.0, nan]])
    assert updated(replayed) == updated(given), "tokens that no policy sampled"


@pytest.mark.parametrize("kind", [*losses().values()], ids=[*losses()])
def test_one_advantage_a_row_is_that_of_each_of_its_tokens(kind):
    config, chosen = ActorConfig(**ACTOR), kind(kind.Config())
    flat = torch.tensor([-1.0, -0.5, -1.5, 0.0, -1.3, -4.0, 0.0])
    output = {"log_probs": torch.nested.nested_tensor_from_jagged(flat, torch.tensor([0, 4, 7]))}
    turns = {"turn": [[0, 1, 1], [0, 1]]}
    each, once = policy_data(advantages=[[2.0] * 3, [-1.0] * 2], **turns), policy_data(**turns)
    once["advantages"] = torch.tensor([2.0, -1.0])
    found = [policy_loss(config, output, data, chosen)[0].item() for data in (each, once, policy_data(**turns))]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("changed", "on_policy"),
    [
        ({}, True),
        ({"trainer.device": "cuda"}, False),
        ({"actor_rollout_ref.actor.ppo_epochs": 2}, False),
        ({"algorithm.rollout_correction.rollout_is": "token"}, False),
        ({"algorithm.rollout_correction.rollout_rs": "seq_sum_k1"}, False),
        ({"algorithm.rollout_correction.bypass_mode": True}, False),
    ],
    ids=str,
)
def test_a_batch_is_on_policy(changed, on_policy):
    config = settings()
    OmegaConf.update(config, "trainer.device", "cpu")
    for key, value in changed.items():
        OmegaConf.update(config, key, value)
    for present, of_rows, expected in ((True, [0, 0], on_policy), (True, [0, 1], False), (False, [0, 0], False)):
        learner = Learner(SimpleNamespace(samples_present=present), Settings(config), None)
        learner.update_of = dict(enumerate(of_rows))
        assert learner.on_policy() is expected
    assert [kind.samples_present for kind in (SyncTrainer, ColocateTrainer, SeparateTrainer)] == [True, False, False]


def test_verls_metrics_have_advantages_and_returns_of_each_token():
    name = "get_metric_data_with_optional_routed_experts"
    assert f"{name}(" in inspect.getsource(trainer_base.PPOTrainer._compute_metrics)
    rows = policy_data().select("response_mask", "advantages")
    once, twice = torch.tensor([1.0, 2.0]), rows["advantages"] * 2
    for written, advantages, returns in (
        ({"advantages": once}, [[1, 1, 1], [2, 2]], [[1, 1, 1], [2, 2]]),
        ({"returns": twice}, [[1, 1, 1], [1, 1]], [[2, 2, 2], [2, 2]]),
    ):
        data = metric_data(
            keys=["a_0_0", "b_0_0"], partition_id="train", fields=[], moe_lb_metrics_interval=0, global_steps=1,
            accumulator=None, kv_batch_get=lambda written=written, **_: {**dict(rows.items()), **written},
        )  # fmt: skip
        assert [[row.tolist() for row in data[key].unbind()] for key in ("advantages", "returns")] == [
            advantages, returns,
        ]  # fmt: skip


@pytest.mark.parametrize(("tag", "use_critic", "experts", "tokens"), [
    ({"advantage": 1.0}, False, 0, False), ({}, False, 0, True), ({"advantage": 1.0}, True, 0, True),
    ({"advantage": 1.0}, False, 5, True),
])  # fmt: skip
def test_verls_metrics_read_tokens_where_tags_do_not_say_all(tag, use_critic, experts, tokens):
    config = settings()
    config.actor_rollout_ref.rollout.moe_load_balance_metrics_interval = experts
    batch = KVBatchMeta(partition_id="train", keys=["a_0_0"], tags=[tag])
    assert told(batch, config, use_critic) == (not tokens)


@pytest.mark.parametrize("trainer", TRAINERS.values())
def test_every_mode_has_its_own_of_what_the_driver_does_by_rows(trainer):
    """Asynchronous learning puts other weights in place around the old log-probabilities."""
    order = trainer.__mro__
    assert order.index(ByRows) == order.index(trainer_base.PPOTrainer) - 1
    assert order.index(trainer.__bases__[1]) < order.index(ByRows)


def test_advantages_without_old_log_probabilities(monkeypatch):
    """And without verl's correction, which would ask for them."""
    config = settings()
    OmegaConf.update(config, "algorithm.adv_estimator", "reinforce_plus_plus")
    rows = policy_data().select("response_mask")
    rows["rm_scores"] = rows["rollout_log_probs"] = torch.nested.as_nested_tensor(
        [torch.tensor([0.0, 0.0, 2.0]), torch.tensor([3.0, 0.0])], layout=torch.jagged
    )
    written = []
    monkeypatch.setattr(
        "transfer_queue.kv_batch_get",
        lambda keys, partition_id, select_fields: tu.get_tensordict({**dict(rows.items()), "uid": ["a", "b"]}),
    )
    monkeypatch.setattr("transfer_queue.kv_batch_put", lambda keys, partition_id, fields: written.append(fields))
    batch = KVBatchMeta(partition_id="train", keys=["a_0_0", "b_0_0"], tags=[{}, {}])
    ByRows._compute_advantage(SimpleNamespace(config=config), batch, {})
    assert [row.tolist() for row in written[0]["returns"].unbind()] == [[2.0, 0.0, 2.0], [3.0, 0.0]]
