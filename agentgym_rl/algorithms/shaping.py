r"""Shaping of rewards for learning: what an algorithm learns from instead of the environment's own rewards.

The reward of an episode is

.. math:: R' = c \frac{R - \mu_e}{\sigma_e} - p \frac{\mathrm{invalid\ turns}}{\mathrm{turns}} - q L

with, of ``algorithm.shaping``, :math:`c` ``scale``, :math:`\mu_e` and :math:`\sigma_e` the running mean and standard
deviation of its environment's rewards (``normalise``; else 0 and 1), :math:`p` ``invalid_action_penalty`` and :math:`q`
``overlong_penalty``. :math:`L` is DAPO's soft punishment
(arXiv 2503.14476, equation 13, with the sign turned): 0 up to a buffer before the limit, 1 at the limit, linear
between; and 1 for an episode that its limit ended.

The reward of a turn, for credit that is given to turns, is :math:`c\, r / \sigma_e`, less :math:`p` where the turn is
invalid, less :math:`q L` in the last turn. The mean is not subtracted there: a constant at any one turn would pay for
longer or for shorter episodes.

verl-agent (https://github.com/langfengQ/verl-agent) has one training row a turn and subtracts :math:`p` from the score
of each invalid one; the mean over the rows of an episode is :math:`R - p` times the share of invalid turns, as here.
GiGPO there subtracts :math:`p` from a turn's return after discounting, here from its reward before.

Replayed turns are not the policy's: none is invalid or counted here.

Only learning sees shaped rewards. Metrics of success, mixture, curriculum and stored episodes keep the environment's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from math import sqrt
from statistics import fmean
from typing import Any

from agentgym_rl.algorithms.checks import above, at_least
from agentgym_rl.data.episode import Ending, Episode


@dataclass(kw_only=True)
class ShapingConfig:
    """Keys of ``algorithm.shaping``."""

    invalid_action_penalty: float = 0.0
    """Subtracted from the reward of each turn whose action is invalid; from that of the episode times the share of such
    turns (verl-agent: 0.1)."""
    overlong_tokens: int = 0
    """The last tokens of ``model.response_tokens``, over which the overlong penalty grows from 0 to its whole; 0 has
    none. An episode's length is that of its longest segment."""
    overlong_turns: int = 0
    """The last turns of an episode's turn limit, over which the overlong penalty grows; 0 has none."""
    overlong_penalty: float = 1.0
    """Subtracted from the reward of an episode that reaches its limit; the greater of both where both are penalised."""
    scale: float = 1.0
    """Factor of the environment's rewards."""
    normalise: bool = False
    """Take the environment's rewards relative to the running mean of its episodes, in standard deviations."""

    def __post_init__(self) -> None:
        at_least(self, 0, "invalid_action_penalty", "overlong_tokens", "overlong_turns")
        above(self, 0, "overlong_penalty", "scale")

    @property
    def penalises(self) -> bool:
        """True if something is subtracted from rewards."""
        return bool(self.invalid_action_penalty or self.overlong_tokens or self.overlong_turns)

    @property
    def shapes(self) -> bool:
        """True if any reward changes."""
        return self.penalises or self.normalise or self.scale != 1

    def unused(self) -> Mapping[str, str]:
        """Keys that have no effect beside the others, and why."""
        if self.overlong_tokens or self.overlong_turns:
            return {}
        why = "algorithm.shaping.overlong_tokens=0 and algorithm.shaping.overlong_turns=0 have none"
        return {"overlong_penalty": why}


@dataclass(slots=True)
class Moments:
    """Of the rewards of an environment's episodes so far."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, rewards: Sequence[float]) -> None:
        self.count += len(rewards)
        self.total += sum(rewards)
        self.squares += sum(reward * reward for reward in rewards)

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def deviation(self) -> float:
        """The standard deviation; 1 as long as all rewards are equal."""
        variance = self.squares / self.count - self.mean**2
        return sqrt(variance) if variance > 1e-12 else 1.0


class Shaping:
    """Shapes the rewards of one batch after the other."""

    def __init__(self, config: ShapingConfig) -> None:
        self.config = config
        self.moments: dict[str, Moments] = {}
        """By environment; empty without ``normalise``."""

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Take a batch into the running mean and deviation; before it is shaped."""
        if self.config.normalise:
            for env in {episode.env for episode in episodes}:
                rewards = [episode.reward for episode in episodes if episode.env == env]
                self.moments.setdefault(env, Moments()).add(rewards)

    def shaped(self, episode: Episode, response_tokens: int) -> Episode:
        """A copy of an episode with shaped rewards; its own reward is no longer the sum of its turns'.

        Args:
            response_tokens: most tokens of a response, ``model.response_tokens``.
        """
        config, moments = self.config, self.moments.get(episode.env)
        mean, scale = (moments.mean, config.scale / moments.deviation) if moments else (0, config.scale)
        penalties = [config.invalid_action_penalty * turn.invalid if turn.calls else 0.0 for turn in episode.turns]
        generated = len(episode.turns) - episode.prefix_turns
        reward = scale * (episode.reward - mean) - (sum(penalties) / generated if generated else 0.0)
        late = config.overlong_penalty * overlong(episode, config, response_tokens)
        if penalties:
            penalties[-1] += late
        turns = [
            replace(turn, reward=scale * turn.reward - penalty)
            for turn, penalty in zip(episode.turns, penalties, strict=True)
        ]
        return replace(episode, reward=reward - late, turns=turns)

    def metrics(self, episodes: Sequence[Episode], response_tokens: int) -> dict[str, float]:
        """Means over shaped episodes, and the running mean and deviation of each environment's rewards."""
        if not self.config.shapes or not episodes:
            return {}
        metrics = {"shaping/reward": fmean(episode.reward for episode in episodes)}
        if self.config.overlong_tokens or self.config.overlong_turns:
            metrics["shaping/overlong"] = fmean(overlong(episode, self.config, response_tokens) for episode in episodes)
        for env, stats in sorted(self.moments.items()):
            metrics |= {f"shaping/{env}/reward_mean": stats.mean, f"shaping/{env}/reward_std": stats.deviation}
        return metrics

    def state_dict(self) -> dict[str, Any]:
        return {"moments": {env: list(astuple(stats)) for env, stats in self.moments.items()}} if self.moments else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of :meth:`state_dict`."""
        self.moments = {env: Moments(*sums) for env, sums in state.get("moments", {}).items()}


def overlong(episode: Episode, config: ShapingConfig, response_tokens: int) -> float:
    """:math:`L` of an episode, in [0, 1]."""
    share = 0.0
    if config.overlong_tokens:
        length = max((turn.tokens[1] for turn in episode.turns), default=0)
        cut = episode.ending is Ending.CONTEXT_LIMIT
        share = 1.0 if cut else _soft(length, response_tokens, config.overlong_tokens)
    if config.overlong_turns:
        cut = episode.ending is Ending.TURN_LIMIT
        share = max(share, 1.0 if cut else _soft(len(episode.turns), episode.max_turns, config.overlong_turns))
    return share


def _soft(length: int, limit: int, buffer: int) -> float:
    return min(1.0, max(0.0, (length - (limit - buffer)) / buffer))
