r"""REINFORCE with a leave-one-out baseline (arXiv 2402.14740), configured from verl.

An episode's advantage is its reward less the mean reward of the other episodes of its task,

.. math:: A_i = r_i - \frac{1}{k - 1} \sum_{j \ne i} r_j

on every token the model wrote; no division by a standard deviation.

Departures: verl takes several clipped updates (PPO's ratio) where the paper takes one of plain REINFORCE; with one
update a step (``minibatch`` = ``tasks``, ``epochs=1``) the gradients agree. The KL penalty is a loss
(``algorithm.kl_loss``, off by default) and not part of the reward. Groups as in :mod:`~agentgym_rl.algorithms.grpo`:
without failed episodes, and never of one.
"""

from agentgym_rl.algorithms.core import Algorithm

RLOO = Algorithm(name="rloo", estimator="rloo", grouped=True)
