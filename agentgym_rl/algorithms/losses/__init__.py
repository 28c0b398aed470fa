r"""The losses of policy updates, by the word of ``algorithm.loss``.

With :math:`\rho = \pi_\theta / \pi_{old}` of a token, its advantage :math:`A` and clipping to
:math:`[1 - \epsilon, 1 + \epsilon_{high}]`, the loss of a token is

=======  ==============================================================================================================
vanilla  :math:`\max(-\rho A, -\mathrm{clip}(\rho) A)` (PPO, arXiv 1707.06347, equation 7), and for :math:`A < 0` at
         most :math:`-c A` (dual clip, arXiv 1912.09729, equation 5)
gspo     the same without dual clip, with the geometric mean of :math:`\rho` over the sequence for :math:`\rho`; the
         gradient is that of each token (GSPO-token, arXiv 2507.18071, equations 7 and 14)
turn     the same with the geometric mean over the tokens of a turn, so that a turn is clipped as one decision (the
         chunks of ROME, arXiv 2512.24873)
cispo    :math:`-\mathrm{sg}[\mathrm{clip}(\rho)] A \log \pi_\theta` (arXiv 2506.13585, equation 4)
sapo     :math:`-\frac{4}{\tau} \sigma(\tau (\rho - 1)) A`, :math:`\tau` 1 for :math:`A > 0` and 1.05 otherwise (arXiv
         2511.20347, equations 5 and 6)
=======  ==============================================================================================================

A sequence is one segment of an episode. What is made of the tokens of an update is
:func:`~agentgym_rl.algorithms.losses.aggregation.token_weights`. Every loss can have a KL loss
(:mod:`~agentgym_rl.algorithms.losses.kl`) and an entropy bonus beside it. A package adds a loss by a class of its own
and an entry point in the group ``agentgym_rl.losses``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym_rl.algorithms.installed import installed
from agentgym_rl.algorithms.losses.base import Loss

GROUP = "agentgym_rl.losses"


def losses() -> Mapping[str, type[Loss[Any]]]:
    """The classes of all installed losses by name.

    Raises:
        ValueError: two have one name.
    """
    return installed(GROUP, Loss)


def loss_of(config: Any) -> Loss[Any]:
    """The loss of a block of keys, ``algorithm.loss``."""
    return losses()[config.name](config)
