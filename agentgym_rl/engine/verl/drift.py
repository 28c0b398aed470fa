"""How far learning has drifted from sampling, measured by each training worker on the tokens of its rows.

It writes verl's correction of each token, and of each row a few sums, which the driver reads in place of the tokens
(:mod:`agentgym_rl.engine.verl.drift_metrics`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from tensordict import TensorDict
from verl.trainer.ppo import rollout_corr_helper as of_verl
from verl.utils.torch_functional import masked_mean, masked_sum
from verl.workers.utils.padding import response_from_nested, response_to_nested

WEIGHTS = "rollout_is_weights"
"""Field of the rows: weight of each token by the correction; only where one weighs."""
KEPT = "kept"
"""Field of the rows: 1 on the model's own tokens that the correction does not reject; only where one can reject."""
LOG_RATIO = "log_ratio"
"""Field of the rows: logarithm of the ratio of each of the model's own tokens; NaN on others."""
NUMBERS = "numbers"
"""Field of the rows: :func:`sums` of each row in the order of :data:`NAMES`, float64."""
NAMES = (
    "tokens", "learned", "sampled", "entropy", "bounded", "k3", "squared_ratio", "p", "q", "pp", "qq", "pq", "gap",
    "squared_gap", "largest_gap", "weight", "squared_weight", "largest_weight", "smallest_weight", "unbounded", "above",
    "below",
)  # fmt: skip
Mean = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Quotient of two numbers, each summed over all workers."""


def response_fields(outputs: TensorDict, data: TensorDict, settings: Mapping[str, Any], mean: Mean) -> TensorDict:
    """The fields that a worker writes: old log-probabilities of the responses, :data:`LOG_RATIO` and what else is here.

    ``response_mask``, out of which verl takes rejected tokens, stays as it is, so that normalisers, advantages, critic
    and metrics see the whole response.

    Args:
        outputs: ``log_probs`` and ``entropy`` of all tokens, as the worker computes them.
        data: the worker's rows.
        settings: verl's ``algorithm.rollout_correction``.
    """
    mask = data["response_mask"]
    old, entropy = (response_from_nested(outputs[name], mask) for name in ("log_probs", "entropy"))
    padded_mask, learned, sampled = (values.to_padded_tensor(0) for values in (mask, old, data["rollout_log_probs"]))
    sampled = sampled.where(~sampled.isnan(), learned)  # replayed tokens, which no policy sampled
    ratio = learned - sampled
    weights, unbounded = weigh(ratio, padded_mask, settings)
    numbers = sums(padded_mask, learned, sampled, entropy.to_padded_tensor(0), weights, unbounded, settings)
    fields = {LOG_RATIO: ratio.masked_fill(padded_mask == 0, torch.nan)}
    if settings.get("rollout_is"):
        if settings.get("rollout_is_batch_normalize"):
            weights = weights / _mean_weight(weights, padded_mask, settings, mean)
        fields[WEIGHTS] = weights
    if settings.get("rollout_rs"):
        fields[KEPT] = keep(ratio, padded_mask, settings)
    jagged = {name: response_to_nested(values, mask) for name, values in fields.items()}
    return TensorDict({"old_log_probs": old, NUMBERS: numbers, **jagged}, batch_size=len(padded_mask))


def weigh(ratio: torch.Tensor, mask: torch.Tensor, settings: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """verl's weights of tokens, [rows, tokens], and the same without bounds; 1 without a correction that weighs.

    verl's own function computes metrics too, which fails where all weights are 0, as those of a few rows may be.

    Args:
        ratio: logarithm of the ratio of each token, [rows, tokens].
        mask: 1 on the model's own tokens, [rows, tokens].
    """
    level = settings.get("rollout_is")
    if not level:
        return mask.float(), mask.float()
    log_ratio = masked_sum(ratio, mask, axis=-1).unsqueeze(-1) if level == "sequence" else ratio
    unbounded, (upper, lower) = bounded(log_ratio).exp() * mask, bounds(settings)
    if is_icepop(settings):
        return unbounded.masked_fill((unbounded < lower) | (unbounded > upper), 0), unbounded
    return unbounded.clamp(max=upper), unbounded


def keep(ratio: torch.Tensor, mask: torch.Tensor, settings: Mapping[str, Any]) -> torch.Tensor:
    """[rows, tokens]: 1 on the model's own tokens that verl does not reject."""
    if not mask.any():  # verl's function has no metrics then, and fails
        return mask
    accepted: torch.Tensor = of_verl.compute_rollout_rejection_mask(
        ratio, mask, settings["rollout_rs"], settings["rollout_rs_threshold"]
    )[0]
    return accepted


def sums(
    mask: torch.Tensor,
    learned: torch.Tensor,
    sampled: torch.Tensor,
    entropy: torch.Tensor,
    weights: torch.Tensor,
    unbounded: torch.Tensor,
    settings: Mapping[str, Any],
) -> torch.Tensor:
    """[rows, :data:`NAMES`]: numbers of each row over the model's own tokens.

    How many there are, and sums of: log-probabilities in learning and in sampling; entropy; the logarithm of their
    ratio as verl bounds it, verl's k3, the squared ratio; the probabilities p and q and their products; the distance
    of these and its square; weights and their squares; weights without bounds, and how many of these are above and
    below the bounds. A largest or smallest one is no sum.
    """

    def total(values: torch.Tensor) -> torch.Tensor:
        summed: torch.Tensor = masked_sum(values.double(), mask, axis=-1)
        return summed

    ratio, p, q = learned - sampled, learned.exp(), sampled.exp()
    gap, (upper, lower) = (p - q).abs(), bounds(settings)
    others = mask == 0
    columns = {
        "tokens": total(mask), "learned": total(learned), "sampled": total(sampled), "entropy": total(entropy),
        "bounded": total(bounded(ratio)), "k3": total(ratio.exp() - ratio - 1),
        "squared_ratio": total(bounded(ratio).exp().square()),
        "p": total(p), "q": total(q), "pp": total(p * p), "qq": total(q * q), "pq": total(p * q),
        "gap": total(gap), "squared_gap": total(gap * gap), "largest_gap": gap.masked_fill(others, -torch.inf).amax(-1),
        "weight": total(weights), "squared_weight": total(weights.square()),
        "largest_weight": weights.masked_fill(others, -torch.inf).amax(-1),
        "smallest_weight": weights.masked_fill(others, torch.inf).amin(-1),
        "unbounded": total(unbounded), "above": total(unbounded > upper), "below": total(unbounded < lower),
    }  # fmt: skip
    return torch.stack([columns[name].double() for name in NAMES], dim=-1)


def bounded(ratio: torch.Tensor) -> torch.Tensor:
    """A logarithm within the bounds of verl, so that its exponential is finite."""
    return ratio.clamp(-of_verl.SAFETY_BOUND, of_verl.SAFETY_BOUND)


def bounds(settings: Mapping[str, Any]) -> tuple[float, float]:
    """Upper and lower bound of a weight; the lower one is the inverse where verl has none."""
    upper, lower = of_verl._parse_rollout_is_threshold(settings.get("rollout_is_threshold", 2.0))
    return upper, 1 / upper if lower is None else lower


def is_icepop(settings: Mapping[str, Any]) -> bool:
    """True if weights out of the bounds are 0; otherwise they are cut at the upper one."""
    return of_verl._parse_rollout_is_threshold(settings.get("rollout_is_threshold", 2.0))[1] is not None


def _mean_weight(weights: torch.Tensor, mask: torch.Tensor, settings: Mapping[str, Any], mean: Mean) -> torch.Tensor:
    """By which verl divides weights, so that their mean is 1."""
    if settings["rollout_is"] == "sequence":
        weights, mask = masked_mean(weights, mask, axis=-1), mask.any(-1)
    divisor = mean(masked_sum(weights, mask), mask.sum())
    return divisor if divisor > 1e-8 else torch.ones(())
