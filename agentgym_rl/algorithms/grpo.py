r"""Group-relative policy optimisation (arXiv 2402.03300), configured from verl.

An episode's advantage is its reward relative to the other episodes of the same task,

.. math:: A_i = (r_i - \mathrm{mean}(r)) / \mathrm{std}(r)

on every token the model wrote, with PPO's clipped ratio. ``algorithm.normalise_by_std=false`` leaves the division out
(Dr. GRPO, arXiv 2503.20783). Episodes that failed outside the agent are not members of their group.
"""

from agentgym_rl.algorithms.core import Algorithm

GRPO = Algorithm(name="grpo", estimator="grpo")
