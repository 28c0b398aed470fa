"""The KL loss to a reference policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def k3(log_prob: Tensor, reference: Tensor) -> Tensor:
    """[rows, tokens]: the estimator k3 (http://joschu.net/blog/kl-approx.html), with verl's bounds on its parts.

    Args:
        log_prob: [rows, tokens], of the policy, with gradient.
        reference: [rows, tokens], of the reference policy.
    """
    difference = (reference - log_prob).clamp(-20, 20)
    return (difference.exp() - difference - 1).clamp(-10, 10)
