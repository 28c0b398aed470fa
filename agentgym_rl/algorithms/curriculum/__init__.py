r"""ScalingInter (arXiv 2509.08755, section 4): the turn limit of training episodes grows with training.

With rounds :math:`h_0, h_1, ...` and S steps a round, the turn limit at step t (from 1) is

* ``fixed``: :math:`h_0`, or that of the environment;
* ``stepwise``: :math:`h_k` with :math:`k = \min(\lfloor (t-1) / S \rfloor, \mathrm{last})`, as published;
* ``linear``: interpolated between the rounds, :math:`h_k` at :math:`t = 1 + kS`, rounded down;
* ``success_gated``: the next round when success at the present one passes a threshold, or has not risen for a while.

The first three are functions of the step alone, so a run that resumes at any step has the turn limit it would have had
(AgentGym-RL counts from the resumed step and skips a round). The gate is our own; its state is checkpointed.

A curriculum of one's own is a :class:`TurnLimit` and an entry point in the group ``agentgym_rl.curricula``.
"""
