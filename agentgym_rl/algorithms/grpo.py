r"""Group-relative policy optimisation (arXiv 2402.03300), configured from verl.

An episode's advantage is its reward relative to the other episodes of the same task,

.. math:: A_i = (r_i - \mathrm{mean}(r)) / \mathrm{std}(r)

on every token the model wrote, with PPO's clipped ratio. ``algorithm.normalise_by_std=false`` leaves the division out
(Dr. GRPO, arXiv 2503.20783).

Departures: episodes that failed outside the agent are not members of their group. An episode left alone in its group
leaves the batch before anything is computed; verl's estimator would give it its raw reward as advantage. The loss is a
mean over all tokens of a mini-batch (``algorithm.loss_aggregation=token-mean``); the paper takes a mean of the
episodes' means (``seq-mean-token-mean``).
"""

from agentgym_rl.algorithms.core import Algorithm

GRPO = Algorithm(name="grpo", estimator="grpo", grouped=True)
