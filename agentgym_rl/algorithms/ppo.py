r"""PPO (arXiv 1707.06347) with a learned critic and generalised advantages (GAE, arXiv 1506.02438).

``algorithm.level=token``, with verl's estimator:

.. math:: A_t = \sum_l (\gamma\lambda)^l (r_{t+l} + \gamma V_{t+l+1} - V_{t+l})

over the tokens of responses; observation tokens are skipped. The reward of an episode is on its last token.

``algorithm.level=turn``, after VL-DAC (arXiv 2508.04280), counts :math:`t` in turns: :math:`V_t` is the critic's value
after the observation and before the first token of the response, :math:`r_t` the reward of the turn. :math:`A_t` is on
every token of the turn; the policy loss keeps one ratio a token. The critic learns :math:`A_t + V_t` at that one place
of a turn. So :math:`\gamma` and :math:`\lambda` discount decisions, whatever the length of their wording.

Advantages are whitened over the tokens of the batch at either level. The turn limit counts as an end: nothing is
bootstrapped beyond it.

Departure: VL-DAC puts a value head on the policy and stops its gradient there; verl's critic is a model of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from agentgym_rl.algorithms.base import Estimator, Needs, Rollout
from agentgym_rl.algorithms.checks import above, at_least, share
from agentgym_rl.algorithms.config import PolicyGradientConfig
from agentgym_rl.algorithms.model import CRITIC, Critic
from agentgym_rl.algorithms.policy_gradient import PolicyGradient
from agentgym_rl.algorithms.rows import Row, Stream, whitened


class Level(StrEnum):
    """The level of values and advantages."""

    TOKEN = "token"
    TURN = "turn"


@dataclass(kw_only=True)
class PPOConfig(PolicyGradientConfig):
    """Keys of ``algorithm=ppo``."""

    tasks_per_step: int = 64
    """Tasks of a step."""
    samples_per_task: int = 1
    """Episodes of a task."""
    level: Level = Level.TOKEN
    """A value and an advantage for each token, or for each turn."""
    gamma: float = 1.0
    """Discount of a token or turn."""
    lam: float = 1.0
    """GAE's lambda, of a token or turn."""
    critic_lr: float = 1e-5
    """Learning rate of the critic."""
    critic_weight_decay: float = 0.0
    """AdamW's decoupled weight decay of the critic."""
    critic_warmup: int = 0
    """Steps that train the critic alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        share(self, "gamma", "lam")
        above(self, 0, "critic_lr")
        at_least(self, 0, "critic_weight_decay", "critic_warmup")


class PPO(PolicyGradient[PPOConfig]):
    """Generalised advantages from a critic."""

    Config = PPOConfig

    @classmethod
    def needs(cls, config: PPOConfig) -> Needs:
        needs, estimator = super().needs(config), Estimator(name="gae", gamma=config.gamma, lam=config.lam)
        critic = Critic(lr=config.critic_lr, weight_decay=config.critic_weight_decay, warmup=config.critic_warmup)
        return replace(
            needs,
            models={**needs.models, CRITIC: critic},
            estimator=estimator if config.level is Level.TOKEN else None,
        )

    def rows(self, rollouts: Sequence[Rollout]) -> list[Row]:
        rows = super().rows(rollouts)
        return rows if self.config.level is Level.TOKEN else whitened(rows)

    def streams(self, rollouts: Sequence[Rollout]) -> list[dict[str, Stream]]:
        if self.config.level is Level.TOKEN:
            return super().streams(rollouts)
        streams: list[dict[str, Stream]] = []
        for rollout in rollouts:
            rewards, values = [turn.reward for turn in rollout.episode.turns], rollout.values
            advantages = turn_gae(rewards, values, gamma=self.config.gamma, lam=self.config.lam)
            returns = [advantage + value for advantage, value in zip(advantages, values, strict=True)]
            streams.append({"advantage": advantages, "return": returns, "value": values})
        return streams


def turn_gae(rewards: Sequence[float], values: Sequence[float], *, gamma: float, lam: float) -> list[float]:
    """Advantages of the turns of one episode; the value after the last turn is 0."""
    advantages: list[float] = []
    advantage = following = 0.0
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        advantage = reward + gamma * following - value + gamma * lam * advantage
        following = value
        advantages.append(advantage)
    return advantages[::-1]
