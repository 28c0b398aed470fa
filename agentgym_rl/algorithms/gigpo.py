r"""Group-in-group policy optimisation (arXiv 2505.10978): GRPO, and the same once more over turns.

A turn's advantage is that of its episode plus that of the step it took,

.. math:: A(a_t) = A^E + \omega A^S(a_t), \qquad
          A^S(a_t) = (R_t - \mathrm{mean}(R)) / F, \qquad R_t = \sum_{k \ge t} \gamma^{k - t} r_k

:math:`A^E` is GRPO's (verl's estimator). Mean and :math:`F` of :math:`A^S` run over all turns in the episodes of the
task that answered the same observation, the anchor state; :math:`F` is their standard deviation, or 1 with
``algorithm.normalise_by_std=false``. :math:`\omega` is ``algorithm.step_weight``, :math:`\gamma` ``algorithm.gamma``.
Both advantages stand on every token of the turn.

Departures: the anchor is the text of the observation alone, which in partly observed worlds may stand for several
states ("nothing happens"). The paper feeds the model one prompt a turn; here an episode is one sequence, in which each
turn's tokens carry its own advantage. A turn whose observation nobody else answered has :math:`A^S = 0`. Groups as in
:mod:`~agentgym_rl.algorithms.grpo`: without failed episodes, and never of one.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_rl.algorithms.core import Algorithm
from agentgym_rl.algorithms.groups import relative
from agentgym_rl.data.episode import Episode

GIGPO = Algorithm(name="gigpo", estimator="grpo", grouped=True, step_level=True)

Anchor = tuple[str, str]
"""Group of an episode, and the observation that a turn answered."""


def answered(episode: Episode) -> list[str]:
    """The observation each turn answered, the first of the task included. Length: turns."""
    return [episode.messages[episode.start + 2 * turn - 1]["content"] for turn in range(len(episode.turns))]


def anchors(episodes: Sequence[Episode], groups: Sequence[str]) -> list[list[Anchor]]:
    """What the turns of each episode are compared by."""
    return [
        [(group, observation) for observation in answered(episode)]
        for episode, group in zip(episodes, groups, strict=True)
    ]


def returns(rewards: Sequence[float], gamma: float) -> list[float]:
    """Discounted sum of the rewards from each turn on."""
    total, backwards = 0.0, []
    for reward in reversed(rewards):
        total = reward + gamma * total
        backwards.append(total)
    return backwards[::-1]


def step_advantages(
    episodes: Sequence[Episode], groups: Sequence[str], *, gamma: float, by_std: bool
) -> list[list[float]]:
    """:math:`A^S` of every turn of every episode; ``groups`` says which episodes belong together."""
    flat = iter(
        relative(
            [value for episode in episodes for value in returns([turn.reward for turn in episode.turns], gamma)],
            [anchor for own in anchors(episodes, groups) for anchor in own],
            by_std,
        )
    )
    return [[next(flat) for _ in episode.turns] for episode in episodes]
