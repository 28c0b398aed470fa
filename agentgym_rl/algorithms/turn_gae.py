r"""Value and advantage a turn instead of a token: ``algorithm=ppo algorithm.level=turn``, after VL-DAC (2508.04280).

.. math:: A_k = \sum_l (\gamma\lambda)^l (r_{k+l} + \gamma V_{k+l+1} - V_{k+l}), \qquad \hat V_k = A_k + V_k

over turns :math:`k`, where :math:`V_k` is the critic's value once the turn's observation has been read, before its
first token, and :math:`r_k` the world's reward for the turn. :math:`A_k` stands on every token of the turn; the policy
loss stays PPO's, with one ratio a token. The critic learns :math:`\hat V_k` at that one place of a turn and nothing
elsewhere. So :math:`\gamma` and :math:`\lambda` discount decisions, whatever the length of their wording.

Departures: VL-DAC puts a value head on the policy and stops its gradient there; verl's critic is a model of its own,
so there is no gradient to stop. Advantages are whitened over tokens, as verl does at token level.
"""

from __future__ import annotations

from collections.abc import Sequence


def turn_gae(
    rewards: Sequence[float], values: Sequence[float], *, gamma: float, lam: float
) -> tuple[list[float], list[float]]:
    """Advantages and value targets of one episode, each of length turns; the value after the last turn is 0."""
    advantages: list[float] = []
    advantage = following = 0.0
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        advantage = reward + gamma * following - value + gamma * lam * advantage
        following = value
        advantages.append(advantage)
    advantages.reverse()
    return advantages, [advantage + value for advantage, value in zip(advantages, values, strict=True)]
