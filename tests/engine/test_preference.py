"""DPO's loss, its pairs in micro-batches, and what a step does with them."""

from types import SimpleNamespace

import pytest

pytest.importorskip("verl")

import torch
from verl.utils import tensordict_utils as tu
from verl.workers.engine.utils import prepare_micro_batches

from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.engine.verl.modes import SyncTrainer
from agentgym_rl.engine.verl.preference import dpo_loss, episode_log_probs, pair_batch
from agentgym_rl.rollout.supervised import Example

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


def episode(item_id, success, turns=1):
    one = Turn(response="r", action="r", observation="", reward=0.0, invalid=False)
    return Episode(
        env="e", item_id=item_id, ending=Ending.TERMINATED, reward=float(success), success=success, horizon=9,
        turns=[one] * turns,
    )  # fmt: skip


class Workers:
    """Two workers that learn nothing; every token's log-probability is minus its id."""

    def __init__(self):
        self.rates, self.losses, self.log_probs, self.updates = [], [], [], []

    def set_learning_rate(self, lr):
        self.rates.append(lr)

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


@pytest.fixture
def trainer(monkeypatch):
    monkeypatch.setattr("agentgym_rl.engine.verl.trainer.omega_conf_to_dataclass", lambda config: config)
    one = object.__new__(SyncTrainer)
    one.config = SimpleNamespace(
        trainer=SimpleNamespace(nnodes=1, n_gpus_per_node=2),
        actor_rollout_ref=SimpleNamespace(actor=None),
    )
    one.actor_rollout_wg = Workers()
    one._loss, one._awake, one.asleep = "policy", True, []
    one.checkpoint_manager = SimpleNamespace(
        sleep_replicas=lambda: one.asleep.append(len(one.actor_rollout_wg.log_probs))
    )
    return one


SETTINGS = {"beta": 0.2, "pairs_per_task": 2, "batch": 4, "epochs": 2, "lr": 1e-3, "seed": "s"}


def test_a_step(trainer):
    played = [episode("a", True), episode("a", False), episode("a", False), episode("b", True), episode("b", False)]
    examples = [Example([9, place], [0.0, 1.0]) for place in range(5)]
    metrics = trainer.prefer(played, examples, **SETTINGS)
    workers = trainer.actor_rollout_wg
    assert trainer.asleep == [0], "vLLM gives its memory back before the workers compute"
    assert (metrics["dpo/pairs"], metrics["dpo/updates"], metrics["dpo/loss"]) == (3.0, 2.0, 0.5)
    assert (workers.rates, workers.losses) == ([1e-3], [dpo_loss])
    assert len(workers.log_probs) == 1 and len(workers.updates) == 2
    wanted = {(0, 1), (0, 2), (3, 4)}
    for data in workers.updates:
        tokens = [int(row[1]) for row in data["input_ids"].unbind()]
        assert len(tokens) == 8  # three pairs make an update of four, so that two workers share it equally
        assert set(zip(tokens[::2], tokens[1::2], strict=True)) == wanted
        assert data["ref_log_prob"].tolist() == [-token for token in tokens]
        assert (data["beta"], data["mini_batch_size"], data["force_group_size"]) == (0.2, 8, 2)


def test_a_step_without_a_pair_changes_nothing(trainer):
    played = [episode("a", True), episode("b", False)]
    metrics = trainer.prefer(played, [GOOD, BAD], **SETTINGS)
    assert metrics == {"dpo/pairs": 0.0, "dpo/updates": 0.0}
    workers = trainer.actor_rollout_wg
    assert not (workers.rates or workers.losses or workers.log_probs or workers.updates)
