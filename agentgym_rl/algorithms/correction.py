r"""Corrections for a difference between the policy that sampled and the one that learning starts from.

They differ where the weights have moved on since (asynchronous modes), and where vLLM computes other probabilities than
the training workers from the same weights (bfloat16, other kernels). With :math:`w = \pi_{old} / \pi_{rollout}` of a
token, :math:`[a, b]` of ``algorithm.correction.bounds`` and :math:`C` = ``algorithm.correction.cap``, the choices of
``algorithm.correction`` are

======  ===============================================================================================================
none    nothing
tis     each token's loss has the weight :math:`\min(w, C)` (truncated importance sampling,
        https://fengyao.notion.site/off-policy-rl)
icepop  the weight is :math:`w` inside :math:`[a, b]`, else 0; [0.5, 5] (IcePop, arXiv 2510.18855)
mis     the weight is the product :math:`W` of :math:`w` over the sequence; a sequence with :math:`W` outside
        :math:`[a, b]` is rejected; [0.5, 2] (masked importance sampling, https://richardli.xyz/rl-collapse)
geo_rs  no weights; a sequence whose geometric mean of :math:`w` is outside :math:`[a, b]` is rejected; [0.999, 1.001]
        (same source)
bypass  the log-probabilities of the rollout are taken for the old ones, so that the ratio of the loss spans the whole
        difference, and is clipped with it; saves the pass that computes the old ones
======  ===============================================================================================================

A sequence is one segment of an episode. The tokens of a rejected sequence weigh 0 in the policy, KL and entropy losses
and still count where ``algorithm.loss.aggregation`` divides: rejection changes which tokens push, not how hard the
others do. verl (``algorithm.rollout_correction``) computes weights and rejections; its own normalisers
count rejected tokens, too.

Ratios are those of the whole distribution, so verl's ``top_p`` and ``top_k`` are refused for policy gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from agentgym_rl.algorithms.checks import above


class Correction(StrEnum):
    """Which correction; the table above says what each does."""

    NONE = "none"
    TIS = "tis"
    ICEPOP = "icepop"
    MIS = "mis"
    GEO_RS = "geo_rs"
    BYPASS = "bypass"


BOUNDS: dict[Correction, tuple[float, float]] = {
    Correction.ICEPOP: (0.5, 5.0),
    Correction.MIS: (0.5, 2.0),
    Correction.GEO_RS: (0.999, 1.001),
}
"""Bounds where ``algorithm.correction.bounds`` is null."""


@dataclass(kw_only=True)
class CorrectionConfig:
    """Keys of ``algorithm.correction``."""

    kind: Correction | None = None
    """Correction for rollouts of another policy: none, tis, icepop, mis, geo_rs or bypass; see
    :mod:`agentgym_rl.algorithms.correction`. null takes none where rollouts have the probabilities that learn
    (``engine.mode=sync`` on a CPU), else tis."""
    cap: float = 2.0
    """tis: greatest importance weight of a token."""
    bounds: list[float] | None = None
    """icepop, mis, geo_rs: least and greatest ratio that is kept; null takes the bounds of the source."""

    def __post_init__(self) -> None:
        above(self, 0, "cap")
        if (bounds := self.bounds) is not None and not (len(bounds) == 2 and 0 < bounds[0] < 1 < bounds[1]):
            raise ValueError(f"bounds must be two ratios, one between 0 and 1 and one above 1, got {bounds}")

    def chosen(self, *, off_policy: bool) -> Correction:
        """The correction of a run."""
        if self.kind is not None:
            return self.kind
        return Correction.TIS if off_policy else Correction.NONE

    def unused(self, *, off_policy: bool) -> Mapping[str, str]:
        """Keys that have no effect beside the others, and why."""
        kind = self.chosen(off_policy=off_policy)
        reasons = {} if kind is Correction.TIS else {"cap": f"algorithm.correction.kind={kind} cuts no weights"}
        return reasons if kind in BOUNDS else {**reasons, "bounds": f"algorithm.correction.kind={kind} has no bounds"}
