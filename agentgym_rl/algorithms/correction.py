r"""What corrects for a difference between the policy that sampled and the one that learning starts from.

They differ where the weights have moved on since (asynchronous modes), and where vLLM computes other probabilities than
the training workers from the same weights (bfloat16, other kernels). With :math:`w = \pi_{old} / \pi_{rollout}` of a
token, :math:`[a, b]` of ``algorithm.correction_bounds`` and :math:`C` = ``algorithm.importance_cap``, the choices of
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
and still count where :func:`~agentgym_rl.algorithms.losses.token_weights` divides: rejection changes which tokens push,
not how hard the others do. verl (``algorithm.rollout_correction``) computes weights and rejections; its own normalisers
count rejected tokens, too.

Ratios are those of the whole distribution, so verl's ``top_p`` and ``top_k`` are refused for policy gradients.
"""

from __future__ import annotations

from enum import StrEnum


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
"""Bounds where ``algorithm.correction_bounds`` is null."""
