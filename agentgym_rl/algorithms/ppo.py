r"""PPO (arXiv 1707.06347) with a learned critic and generalised advantages (arXiv 1506.02438), configured from verl.

.. math:: A_t = \sum_l (\gamma\lambda)^l (r_{t+l} + \gamma V_{t+l+1} - V_{t+l})

over the tokens the model wrote; observation tokens are skipped. The episode's reward stands on its last token, which
the model wrote. Advantages are whitened over the tokens of the batch. The horizon counts as an end: nothing is
bootstrapped beyond it.

``algorithm.level=turn`` counts :math:`t` in turns instead, see :mod:`~agentgym_rl.algorithms.turn_gae`.
"""

from agentgym_rl.algorithms.core import Algorithm

PPO = Algorithm(name="ppo", estimator="gae", critic=True)
