r"""Slow turns weigh more: GRPO with the advantage of each turn times how long it took.

    .venv/bin/pip install --no-deps --no-build-isolation -e examples/add_an_algorithm
    agentgym-rl train experiment=smoke algorithm=duration

The advantage of turn :math:`t` is :math:`A_i \Delta_{i,t} / \mathrm{mean}(\Delta)`, with GRPO's :math:`A_i` and the
seconds :math:`\Delta` of model and environment (arXiv 2509.01684), or the tokens of the response; the mean is over all
turns of the task. Where episodes are learned from as they end, fast turns would else be learned from more often.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from agentgym_rl.algorithms.grpo import GRPOConfig, relative
from agentgym_rl.algorithms.policy_gradient import Credit, PolicyGradient
from agentgym_rl.data.episode import Episode, Turn


class Unit(StrEnum):
    """What a turn takes."""

    SECONDS = "seconds"
    TOKENS = "tokens"


@dataclass(kw_only=True)
class DurationConfig(GRPOConfig):
    """Keys of ``algorithm=duration``."""

    unit: Unit = Unit.SECONDS
    """What a turn is weighed by."""


class Duration(PolicyGradient[DurationConfig]):
    """Rewards relative to those of the same task, by duration."""

    Config = DurationConfig
    fewest_samples = 2

    def credit(self, group: Sequence[Episode]) -> Credit:
        took = [[self.duration(turn) for turn in episode.turns] for episode in group]
        mean = fmean(duration for own in took for duration in own) or 1.0
        of_episodes = relative([episode.reward for episode in group], self.config.normalise_by_std)
        return [[a * duration / mean for duration in own] for a, own in zip(of_episodes, took, strict=True)]

    def duration(self, turn: Turn) -> float:
        return turn.model_s + turn.env_s if self.config.unit is Unit.SECONDS else turn.tokens[1] - turn.tokens[0]
