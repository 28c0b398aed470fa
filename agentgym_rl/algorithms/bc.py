r"""Behaviour cloning: maximum likelihood of expert actions.

.. math:: J_{BC}(\theta) = E_{(e,u,\tau) \sim D_s} \log \pi_\theta(\tau | e, u)

over the tokens the expert wrote (arXiv 2406.04151, section 4.1); the mean runs over the tokens of a mini-batch.
"""

from agentgym_rl.algorithms.core import Algorithm

BC = Algorithm(name="bc")


def learning_rate(peak: float, epoch: int, epochs: int) -> float:
    """Falls linearly from ``peak`` at the first epoch (0) to a tenth of it at the last."""
    return peak * (1.0 - 0.9 * epoch / max(1, epochs - 1)) if epochs > 1 else peak
