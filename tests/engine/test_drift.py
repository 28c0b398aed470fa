"""Metrics and weights from workers that each see their own rows are those that verl finds on all tokens together."""

from functools import cache
from pathlib import Path
from random import Random

import pytest
from sweep import thinned

pytest.importorskip("verl")

import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import agg_loss
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch
from verl.utils import tensordict_utils as tu
from verl.utils.debug.metrics import calculate_debug_metrics
from verl.workers.utils.padding import response_from_nested

from agentgym_rl.algorithms.losses.aggregation import Aggregation
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.verl import drift, drift_metrics
from agentgym_rl.engine.verl.mapping import verl_config
from agentgym_rl.engine.verl.rows import WRITTEN
from agentgym_rl.engine.verl.worker import AgentWorker

PROMPT = 3
CORRECTIONS = ["none", "tis", "icepop", "mis", "geo_rs"]


@cache
def correction(name):
    run = Resolved(recipes.load(["name=x", "algorithm=grpo", f"algorithm.correction={name}"]))
    config = verl_config(run, "m", Path("x"))
    return OmegaConf.to_container(config.algorithm.rollout_correction)


def jagged(rows):
    return torch.nested.as_nested_tensor([*rows], layout=torch.jagged)


def batch(lengths, seed, spread):
    """What a worker is given, and what it computes; the last row is padding, as verl makes it."""
    draw = torch.Generator().manual_seed(seed)
    masks = [(torch.rand(length, generator=draw) < 0.7).long() for length in lengths]
    masks[0][0] = 1
    masks.append(torch.zeros(1, dtype=torch.int64))
    sampled = [-3 * torch.rand(len(mask), generator=draw) * mask for mask in masks]
    computed = [-torch.rand(PROMPT + len(mask), generator=draw) for mask in masks]
    for log_probs, of_sampler, mask in zip(computed, sampled, masks, strict=True):
        near = of_sampler + spread * torch.randn(len(mask), generator=draw)
        log_probs[PROMPT - 1 : -1] = near.clamp(max=0)
    entropy = [torch.rand(len(log_probs), generator=draw) for log_probs in computed]
    data = TensorDict({"response_mask": jagged(masks), "rollout_log_probs": jagged(sampled)}, batch_size=len(masks))
    return data, TensorDict({"log_probs": jagged(computed), "entropy": jagged(entropy)}, batch_size=len(masks))


def by_verl(data, computed, chosen, aggregation):
    """On all tokens: metrics, and the fields of the rows."""
    mask = data["response_mask"]
    rows = TensorDict(
        {
            "old_log_probs": response_from_nested(computed["log_probs"], mask),
            "entropy": response_from_nested(computed["entropy"], mask),
            **dict(data.items()),
            "responses": mask,
        },
        batch_size=len(data),
    ).to_padded_tensor()
    real = rows[rows["response_mask"].any(-1)]  # verl's means over rows count padding
    entropy = agg_loss(real["entropy"], real["response_mask"], aggregation)
    metrics = {"actor/entropy": entropy.item(), **calculate_debug_metrics(DataProto(batch=real.clone()))}
    (_, of_correction), (corrected, _) = (
        compute_rollout_correction_and_add_to_batch(DataProto(batch=some.clone()), OmegaConf.create(chosen))
        for some in (real, rows)
    )
    return metrics | of_correction, rows, corrected.batch


def by_workers(data, computed, chosen, shares, aggregation, longest):
    """The same of workers with a part of the rows each."""
    parts = [slice(begin, end) for begin, end in zip(shares, [*shares[1:], len(data)], strict=True)]

    def of(table, part):
        return TensorDict({name: jagged(value.unbind()[part]) for name, value in table.items()}, batch_size=None)

    fields = []
    for part in parts:
        part_data, its = of(data, part), of(computed, part)
        part_data.batch_size = its.batch_size = [part.stop - part.start]
        fields.append(drift.response_fields(its, part_data, chosen, lambda *_: pytest.fail("no worker needs another")))
    numbers = torch.cat([worker_fields[drift.NUMBERS] for worker_fields in fields])
    ratio = torch.cat([worker_fields[drift.LOG_RATIO].values() for worker_fields in fields])
    metrics = drift_metrics.row_metrics(numbers, chosen, aggregation, longest)
    return metrics | drift_metrics.ratio_metrics(ratio), fields


@pytest.mark.parametrize("seed", thinned(range(6), 3))
@pytest.mark.parametrize("name", CORRECTIONS)
def test_they_are_verls(name, seed):
    draw = Random(seed)
    lengths = draw.choices(range(1, 13), k=draw.randint(2, 8))
    aggregation, chosen = draw.choice([*Aggregation]), correction(name)
    data, computed = batch(lengths, seed, spread=(0.01, 0.3, 1.0)[seed % 3])
    expected, rows, corrected = by_verl(data, computed, chosen, aggregation)
    metrics, fields = by_workers(data, computed, chosen, [0, 1, len(lengths)], aggregation, max(lengths))
    assert {key for key in metrics if not key.startswith("diagnostics/")} == expected.keys()
    for key, value in expected.items():
        rel, least = (0.02, 0.01) if key.endswith("_std") else (2e-4, 1e-5)  # verl's is a difference in float32
        assert metrics[key] == pytest.approx(value, rel=rel, abs=least), key
    ratio = (rows["old_log_probs"] - rows["rollout_log_probs"])[rows["response_mask"].bool()].exp()
    assert metrics["diagnostics/ratio_mean"] == pytest.approx(ratio.mean().item(), rel=1e-5)
    assert metrics["diagnostics/ratio_max"] == pytest.approx(ratio.max().item(), rel=1e-6)
    for field, of_verl in (("old_log_probs", rows), (drift.WEIGHTS, corrected), (drift.KEPT, corrected)):
        if field in fields[0]:
            theirs = of_verl["response_mask" if field == drift.KEPT else field]
            our_rows = [row for batch in fields for row in batch[field].unbind()]
            for row, mine in zip(theirs, our_rows, strict=True):
                assert mine.dtype == row.dtype and torch.equal(row[: len(mine)], mine), field
    assert (drift.WEIGHTS in fields[0], drift.KEPT in fields[0]) == (name in ("tis", "icepop", "mis"),
                                                                      name in ("mis", "geo_rs"))  # fmt: skip


@pytest.mark.parametrize("name", CORRECTIONS)
def test_padding_is_in_no_mean(name):
    """Of a batch that is filled up so that workers get equal parts, which may be most of it."""
    data, computed = batch([6, 4, 9], 2, 0.3)
    fields = drift.response_fields(computed, data, correction(name), lambda *_: pytest.fail("no worker needs another"))
    numbers = fields[drift.NUMBERS]
    alone = drift_metrics.row_metrics(numbers[:-1], correction(name), "seq-mean-token-mean", 9)
    padded = torch.cat([numbers, *[numbers[-1:]] * 4])
    assert drift_metrics.row_metrics(padded, correction(name), "seq-mean-token-mean", 9) == alone


@pytest.mark.parametrize("name", CORRECTIONS)
def test_tokens_that_no_policy_sampled_have_a_ratio_of_1(name):
    """A replayed prefix that is learned from: nothing is NaN, and nothing drifts."""
    data, computed = batch([6, 4], 3, 0.3)
    mask, sampled = (data[name].to_padded_tensor(0) for name in ("response_mask", "rollout_log_probs"))
    before = sampled.clone()
    sampled[0, :3] = torch.nan
    lengths = data["response_mask"].offsets().diff()
    data["rollout_log_probs"] = jagged([row[:length] for row, length in zip(sampled, lengths, strict=True)])
    fields = drift.response_fields(computed, data, correction(name), lambda *_: pytest.fail("no worker needs another"))
    ratio = fields[drift.LOG_RATIO].to_padded_tensor(torch.nan)
    learned = mask[0, :3].bool()
    assert learned.any() and (ratio[0, :3][learned] == 0).all()
    assert not fields[drift.NUMBERS].isnan().any() and not before.isnan().any()
    if drift.WEIGHTS in fields:
        assert not fields[drift.WEIGHTS].values().isnan().any()


@pytest.mark.parametrize("name", ["tis", "mis"])
def test_weights_are_divided_by_their_mean_over_all_workers(name):
    data, computed = batch([4, 7, 3], 1, 0.5)
    chosen = correction(name) | {"rollout_is_batch_normalize": True}
    expected, _, corrected = by_verl(data, computed, chosen, "token-mean")
    sums = []

    def mean(total, count):
        sums.append((total, count))
        return total / count

    fields = drift.response_fields(computed, data, chosen, mean)
    for row, mine in zip(corrected[drift.WEIGHTS], fields[drift.WEIGHTS].unbind(), strict=True):
        assert torch.allclose(row[: len(mine)], mine)
    metrics = drift_metrics.row_metrics(fields[drift.NUMBERS], chosen, "token-mean", 7)
    assert len(sums) == 1
    for key, value in expected.items():
        assert metrics[key] == pytest.approx(value, rel=1e-2, abs=1e-3), key


def test_a_worker_writes_what_the_driver_asks_for(monkeypatch):
    data, computed = batch([4, 3], 0, 0.3)
    worker = object.__new__(AgentWorker)
    monkeypatch.setattr(DetachActorWorker, "compute_log_prob", lambda self, data: computed)
    assert worker.compute_log_prob(data) is computed, "nothing in particular"
    tu.assign_non_tensor(data, **{WRITTEN: "ref_log_prob"})
    reference = worker.compute_log_prob(data)
    assert [*reference.keys()] == ["ref_log_prob"]
    of_response = response_from_nested(computed["log_probs"], data["response_mask"])
    assert torch.equal(reference["ref_log_prob"].values(), of_response.values())
    tu.assign_non_tensor(data, calculate_entropy=True)
    entropy = worker.compute_log_prob(data)["ref_log_prob_entropy"]
    assert torch.equal(entropy.values(), response_from_nested(computed["entropy"], data["response_mask"]).values())
    tu.assign_non_tensor(data, **{WRITTEN: "old_log_probs", "correction": correction("tis")})
    assert {*worker.compute_log_prob(data).keys()} == {"old_log_probs", drift.NUMBERS, drift.LOG_RATIO, drift.WEIGHTS}
    computed = None  # a rank that shares its rows with another one
    assert worker.compute_log_prob(data) is None


def test_rows_without_a_token_of_the_models_are_an_error():
    with pytest.raises(ValueError, match="no row has a token that the model wrote"):
        drift_metrics.row_metrics(torch.zeros(2, len(drift.NAMES)), correction("tis"), "token-mean", 1)
