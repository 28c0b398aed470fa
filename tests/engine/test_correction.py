"""What each choice of ``algorithm.correction`` does, through verl's own functions."""

from math import log, prod
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("verl")

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import RecipeError
from agentgym_rl.engine.verl.mapping import verl_config

RATIOS = [[1.0, 1.0, 1.0], [1.2, 1.0, 1.5], [4.0, 0.25, 6.0], [0.4, 0.9, 1.0]]
"""Of the probability that learning starts from to that of the rollout, a row for each sequence."""


def settings(*overrides):
    return verl_config(Resolved(recipes.load(["experiment=smoke", *overrides])), "m", Path("run"))


def corrected(*overrides):
    """Weights, None where there are none, and the mask after rejection."""
    from verl.protocol import DataProto
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch

    ratio = torch.tensor(RATIOS).log()
    fields = {"old_log_probs": ratio - 1, "rollout_log_probs": torch.full_like(ratio, -1.0),
              "response_mask": torch.ones_like(ratio)}  # fmt: skip
    batch = DataProto(batch=TensorDict(fields, batch_size=len(RATIOS)))
    corrected_batch, metrics = compute_rollout_correction_and_add_to_batch(
        batch, settings(*overrides).algorithm.rollout_correction
    )
    assert "rollout_corr/kl" in metrics
    weights = corrected_batch.batch.get("rollout_is_weights", None)
    return weights, corrected_batch.batch["response_mask"][:, 0].bool().tolist()


def weighted(values):
    return pytest.approx(torch.tensor(values, dtype=torch.float32), rel=1e-4)


@pytest.mark.slow
def test_none_weighs_and_rejects_nothing():
    assert corrected() == corrected("algorithm.correction=none") == (None, [True] * 4)
    assert corrected("engine.mode=colocate_async", "algorithm.correction=none") == (None, [True] * 4)


@pytest.mark.parametrize("overrides", [("algorithm.correction=tis",), ("engine.mode=colocate_async",)])
def test_tis_cuts_the_weight_of_a_token(overrides):
    weights, mask = corrected(*overrides)
    assert weights == weighted([[min(ratio, 2.0) for ratio in row] for row in RATIOS]) and all(mask)
    weights, _ = corrected(*overrides, "algorithm.correction.cap=1.1")
    assert weights == weighted([[min(ratio, 1.1) for ratio in row] for row in RATIOS])


@pytest.mark.slow
def test_icepop_gives_a_weight_of_0_outside_the_bounds():
    weights, mask = corrected("algorithm.correction=icepop")
    assert weights == weighted([[ratio if 0.5 <= ratio <= 5 else 0.0 for ratio in row] for row in RATIOS]) and all(mask)
    weights, _ = corrected("algorithm.correction=icepop", "algorithm.correction.bounds=[0.3,1.3]")
    assert weights == weighted([[ratio if 0.3 <= ratio <= 1.3 else 0.0 for ratio in row] for row in RATIOS])


def test_mis_weighs_and_rejects_sequences_by_their_product():
    weights, mask = corrected("algorithm.correction=mis")
    products = [prod(row) for row in RATIOS]
    assert mask == [0.5 <= product <= 2 for product in products] == [True, True, False, False]
    assert weights[:2] == weighted([[product] * 3 for product in products[:2]])
    _, mask = corrected("algorithm.correction=mis", "algorithm.correction.bounds=[0.3,1.5]")
    assert mask == [True, False, False, True], "a bound of the ratio, not of its inverse"


def test_geo_rs_rejects_sequences_by_their_geometric_mean():
    weights, mask = corrected("algorithm.correction=geo_rs")
    assert weights is None and mask == [True, False, False, False]
    _, mask = corrected("algorithm.correction=geo_rs", "algorithm.correction.bounds=[0.9,1.3]")
    assert mask == [0.9 <= prod(row) ** (1 / 3) <= 1.3 for row in RATIOS] == [True, True, False, False]


def jagged(values, kind=torch.float32):
    return torch.nested.as_nested_tensor([torch.tensor(row, dtype=kind) for row in values], layout=torch.jagged)


@pytest.fixture
def queue(monkeypatch):
    fields = {
        "rollout_log_probs": jagged([[-1.0, -2.0], [-0.5]]),
        "old_log_probs": jagged([[-1.0 + log(2), -2.0], [-0.5 + log(0.5)]]),
        "loss_mask": jagged([[1, 0], [1]], torch.int64),
    }

    def put(keys, partition_id, fields):
        queue.update(dict(fields.items()))

    queue = dict(fields)
    monkeypatch.setattr(
        tq, "kv_batch_get", lambda keys, partition_id, select_fields: {name: queue[name] for name in select_fields}
    )
    monkeypatch.setattr(tq, "kv_batch_put", put)
    return queue


BATCH = KVBatchMeta(partition_id="train", keys=["a_0_0", "b_0_0"], tags=[{}, {}])


def test_bypass_takes_the_log_probabilities_of_the_rollout(queue):
    """verl's own method; a worker that computed any would be missing here."""
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    config = settings("algorithm.correction=bypass")
    PPOTrainer._compute_old_log_prob(SimpleNamespace(config=config), BATCH, {})
    assert [row.tolist() for row in queue["old_log_probs"].unbind()] == [[-1.0, -2.0], [-0.5]]
    assert config.actor_rollout_ref.actor.policy_loss.loss_mode == "vanilla", "the loss is still ours"


@pytest.mark.parametrize(("key", "value"), [("top_p", 0.9), ("top_k", 50)])
def test_a_policy_gradient_samples_from_the_whole_distribution(key, value):
    override = f"verl.actor_rollout_ref.rollout.{key}={value}"
    with pytest.raises(RecipeError, match=rf"{key}={value} is refused: the ratios of algorithm=grpo"):
        settings("algorithm=grpo", override)
    assert settings("algorithm=dpo", override).actor_rollout_ref.rollout[key] == value
    settings("algorithm=grpo", f"verl.actor_rollout_ref.rollout.{key}={dict(top_p=1.0, top_k=-1)[key]}")
