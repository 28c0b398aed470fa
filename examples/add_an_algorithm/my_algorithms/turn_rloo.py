r"""Turn-level credit: a leave-one-out baseline for each turn.

    .venv/bin/pip install --no-deps --no-build-isolation -e examples/add_an_algorithm
    agentgym-rl train experiment=smoke algorithm=turn_rloo

The advantage of turn :math:`t` is its return less the mean return of the same turn in the other episodes of the task,

.. math:: A_{i,t} = R_{i,t} - \frac{1}{k - 1} \sum_{j \ne i} R_{j,t}, \qquad
          R_{i,t} = \sum_{s \ge t} \gamma^{s - t} r_{i,s}

An episode that has ended before turn :math:`t` counts with a return of 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from agentgym_rl.algorithms.config import PolicyGradientConfig
from agentgym_rl.algorithms.policy_gradient import Credit, PolicyGradient
from agentgym_rl.algorithms.step_credit import returns
from agentgym_rl.data.episode import Episode


@dataclass(kw_only=True)
class TurnRLOOConfig(PolicyGradientConfig):
    """Keys of ``algorithm=turn_rloo``."""

    gamma: float = 1.0
    """Discount of a turn."""


class TurnRLOO(PolicyGradient[TurnRLOOConfig]):
    """Returns of turns less those of the other episodes."""

    Config = TurnRLOOConfig
    fewest_samples = 2

    def credit(self, group: Sequence[Episode]) -> Credit:
        found = [returns([turn.reward for turn in episode.turns], self.config.gamma) for episode in group]
        totals = [sum(column) for column in zip_longest(*found, fillvalue=0.0)]
        others = len(group) - 1
        return [[own - (total - own) / others for own, total in zip(row, totals, strict=False)] for row in found]
