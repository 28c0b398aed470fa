r"""A loss of one's own: a quadratic penalty in place of a clipped ratio, as Kimi k1.5 has it (arXiv 2501.12599).

    .venv/bin/pip install --no-deps --no-build-isolation -e examples/add_an_algorithm
    agentgym-rl train experiment=smoke algorithm=grpo algorithm.loss=proximal algorithm.loss.tau=0.2

With :math:`\rho = \pi_\theta / \pi_{old}` of a token and its advantage :math:`A`, the loss of the token is

.. math:: -\rho A + \frac{\tau}{2} (\log \rho)^2

Every algorithm with ``algorithm.loss`` takes it by its word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentgym_rl.algorithms.checks import above
from agentgym_rl.algorithms.losses.base import Loss, LossConfig, Tokens

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(kw_only=True)
class ProximalConfig(LossConfig):
    """Keys of ``algorithm.loss=proximal``."""

    tau: float = 0.1
    """How strongly a policy is held back that leaves the one that sampled."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above(self, 0, "tau")


class Proximal(Loss[ProximalConfig]):
    """No token loses its gradient; each is pulled back the further it goes."""

    Config = ProximalConfig

    def __call__(self, tokens: Tokens) -> Tensor:
        gained = tokens.log_ratio.exp() * tokens.advantages
        return self.config.tau / 2 * tokens.log_ratio.square() - gained

    def metrics(self, tokens: Tokens) -> Mapping[str, Tensor]:
        return {"squared_log_ratio": tokens.log_ratio.detach().square()}
