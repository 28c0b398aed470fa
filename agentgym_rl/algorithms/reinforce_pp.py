r"""REINFORCE++ (arXiv 2501.03262), configured from verl.

A token's return is the discounted reward that follows, its advantage the return whitened over all tokens of the batch,

.. math:: G_t = \sum_{l \ge t} \gamma^{l - t} r_l, \qquad A_t = (G_t - \mathrm{mean}(G)) / \mathrm{std}(G)

with no groups and no critic. How verl's estimator takes an episode of several turns:

- observation tokens are jumped over: the running return passes through them unchanged, so the reward at the end
  reaches the first turn, and they take no part in the whitening;
- :math:`\gamma` discounts a token and not a turn: below 1 it prefers short replies and forgets early turns fast
  (0.99 over 300 tokens is 0.05). The default is 1;
- the whitening is over tokens, so that long episodes weigh more in mean and deviation;
- the reward must stand on a token the model wrote, which the agent loop guarantees.

Departure: the paper's KL penalty in the reward is a loss here (``algorithm.kl_loss``, off by default).
"""

from agentgym_rl.algorithms.core import Algorithm

REINFORCE_PP = Algorithm(name="reinforce_pp", estimator="reinforce_plus_plus")
