"""verl's metrics of old log-probabilities and of its correction, from the sums of rows that training workers write.

verl's functions take matrices of tokens. Here they are given one token a row, the mean over the row, and in place of
the mask the number of its tokens; averages over tokens and over rows come out the same. What is no average is computed
here from other sums of :func:`agentgym_rl.engine.verl.drift.sums`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from verl.trainer.ppo import rollout_corr_helper as of_verl
from verl.trainer.ppo.core_algos import agg_loss
from verl.utils.torch_functional import masked_mean

from agentgym_rl.algorithms.base import Metrics
from agentgym_rl.engine.verl.drift import NAMES, bounds, is_icepop

Columns = Mapping[str, torch.Tensor]
"""By name, [rows, 1]."""


def row_metrics(numbers: torch.Tensor, settings: Mapping[str, Any], aggregation: str, longest: int) -> Metrics:
    """verl's metrics, as if it had seen every token of the rows that have one of the model's.

    verl's own means over rows count padding, too, as rows on which both sides agree.

    Args:
        numbers: of all rows of a batch, see :func:`agentgym_rl.engine.verl.drift.sums`.
        settings: verl's ``algorithm.rollout_correction``.
        aggregation: verl's ``loss_agg_mode``.
        longest: number of tokens by which that divides, where it does.

    Raises:
        ValueError: no row has a token that the model wrote.
    """
    numbers = numbers[numbers[:, NAMES.index("tokens")] > 0]
    if not len(numbers):
        raise ValueError("no row has a token that the model wrote")
    of = {name: numbers[:, [place]] for place, name in enumerate(NAMES)}
    tokens = of["tokens"]
    mean = {name: values / tokens.clamp(min=1) for name, values in of.items()}
    entropy = agg_loss(mean["entropy"], tokens, aggregation, loss_scale_factor=longest)
    return {
        "actor/entropy": float(entropy),
        **_probabilities(of),
        **{f"rollout_corr/{name}": float(value) for name, value in _correction(of, mean, settings).items()},
    }


def ratio_metrics(log_ratio: torch.Tensor) -> Metrics:
    """Mean, median, greatest value, 1st and 99th percentile of the ratios of tokens.

    The ratio is that of a token's probability, before the first update, to the one it was sampled with.

    Args:
        log_ratio: of all tokens; NaN where the model did not write one.
    """
    values = log_ratio.float()
    ratio = values[~values.isnan()].exp().numpy()
    low, median, high = np.quantile(ratio, [0.01, 0.5, 0.99])
    return {
        "diagnostics/ratio_mean": float(ratio.mean()),
        "diagnostics/ratio_low": float(low),
        "diagnostics/ratio_median": float(median),
        "diagnostics/ratio_high": float(high),
        "diagnostics/ratio_max": float(ratio.max()),
    }


def _probabilities(of: Columns) -> Metrics:
    """As verl's ``calculate_debug_metrics``."""
    n, p, q, pp, qq, pq, gap, squares = (
        of[name].sum() for name in ("tokens", "p", "q", "pp", "qq", "pq", "gap", "squared_gap")
    )
    covariance, spread = pq - p * q / n, ((pp - p * p / n) * (qq - q * q / n)).clamp(min=0).sqrt()
    return {
        "training/rollout_probs_diff_valid": 1.0,
        "training/rollout_probs_diff_max": float(of["largest_gap"].max()),
        "training/rollout_probs_diff_mean": float(gap / n),
        "training/rollout_probs_diff_std": float(((squares - gap * gap / n) / (n - 1)).clamp(min=0).sqrt()),
        "training/rollout_actor_probs_pearson_corr": float((covariance / spread).clamp(-1, 1)),
    }


def _correction(of: Columns, mean: Columns, settings: Mapping[str, Any]) -> dict[str, Any]:
    """As verl's ``compute_rollout_correction_and_rejection_mask``."""
    tokens = of["tokens"]
    metrics: dict[str, Any] = of_verl.compute_offpolicy_metrics(mean["learned"], mean["sampled"], tokens)
    metrics["k3_kl"] = masked_mean(mean["k3"], tokens)
    metrics["chi2_token"] = masked_mean(mean["squared_ratio"], tokens) - 1
    if level := settings.get("rollout_is"):
        log_ratio = of["learned"] - of["sampled"]
        weight = mean["weight"].clamp(min=1e-30)  # verl divides by their squares
        metrics |= of_verl.compute_is_metrics(weight, mean["unbounded"], log_ratio, tokens, level, *bounds(settings))
        if level == "token":
            metrics |= _token_weights(of, mean)
        if is_icepop(settings):
            metrics["rollout_is_oob_ratio"] = masked_mean(mean["above"] + mean["below"], tokens)
        if settings.get("rollout_is_batch_normalize"):
            once = (tokens > 0).double() if level == "sequence" else tokens
            metrics["rollout_is_batch_norm_factor"] = masked_mean(mean["weight"], once)
    if rejection := settings.get("rollout_rs"):
        metrics |= of_verl.compute_rollout_rejection_mask(
            mean["bounded"], tokens, rejection, settings["rollout_rs_threshold"]
        )[1]
    return metrics


def _token_weights(of: Columns, mean: Columns) -> dict[str, Any]:
    """Statistics of the weights of tokens, as verl's metrics take them."""
    tokens = of["tokens"]
    average, squares = (masked_mean(mean[name], tokens) for name in ("weight", "squared_weight"))
    return {
        "rollout_is_max": of["largest_weight"].max(),
        "rollout_is_min": of["smallest_weight"].min(),
        "rollout_is_ratio_fraction_high": masked_mean(mean["above"], tokens),
        "rollout_is_ratio_fraction_low": masked_mean(mean["below"], tokens),
        "rollout_is_std": (squares - average.square()).clamp(min=0).sqrt(),
        "rollout_is_eff_sample_size": (average + 1e-8).square() / squares.clamp(min=1e-30),
    }
