r"""Credit for single turns beside that of their episode, which several algorithms share.

The advantage of a turn is that of its episode, :math:`A^E`, which is GRPO's, plus that of the step it took,

.. math:: A(a_t) = \nu A^E + \omega A^S(a_t)

An algorithm says what :math:`A^S` is. :math:`\nu` is ``algorithm.episode_weight``, :math:`\omega`
``algorithm.step_weight``; with :math:`\nu = 1` and :math:`\omega = 0` it is GRPO.

The state in which a turn acts is the text of the observation that it answers, its anchor. In partly observed
environments an anchor may stand for several states ("nothing happens").
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from agentgym_rl.algorithms.base import Metrics, Rollout, groups
from agentgym_rl.algorithms.checks import at_least, share
from agentgym_rl.algorithms.grpo import GRPOConfig, relative
from agentgym_rl.algorithms.policy_gradient import Credit, PolicyGradient
from agentgym_rl.data.episode import Episode

OfTurns = list[list[float]]
"""Of each episode of a group, one number a turn."""


@dataclass(kw_only=True)
class StepCreditConfig(GRPOConfig):
    """Keys of every algorithm with credit for steps."""

    tasks_per_step: int = 16
    """Tasks of a step."""
    mini_batch_tasks: int = 16
    """Tasks of an update, each with all its episodes."""
    episode_weight: float = 1.0
    """Weight of the advantage of the episode."""
    step_weight: float = 1.0
    """Weight of the step-level advantage."""
    gamma: float = 0.95
    """Discount of a turn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "episode_weight", "step_weight")
        share(self, "gamma")
        if not self.episode_weight and not self.step_weight:
            raise ValueError("episode_weight=0 and step_weight=0 leave every advantage at 0; set one above 0")

    def of_steps(self) -> Sequence[str]:
        """The keys that step-level advantages alone read."""
        return ["gamma"]

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        keys = super().unused(off_policy=off_policy, environments=environments)
        if self.step_weight:
            return keys
        return {**keys, **dict.fromkeys(self.of_steps(), "algorithm.step_weight=0 ignores single turns")}


S = TypeVar("S", bound=StepCreditConfig)


class StepCredit(PolicyGradient[S]):
    """Episodes relative to those of their task, and turns by :meth:`of_steps`."""

    Config = StepCreditConfig
    fewest_samples = 2

    @abstractmethod
    def of_steps(self, group: Sequence[Episode]) -> OfTurns:
        """:math:`A^S` of every turn of the episodes of a task."""

    def credit(self, group: Sequence[Episode]) -> Credit:
        config = self.config
        of_episodes = relative([episode.reward for episode in group], config.normalise_by_std)
        return [
            [config.episode_weight * advantage + config.step_weight * step for step in steps]
            for advantage, steps in zip(of_episodes, self.of_steps(group), strict=True)
        ]

    def metrics(self, rollouts: Sequence[Rollout]) -> Metrics:
        """How many observations several turns answered, the share of turns that did, and the mean size of A^S.

        Nothing of a step without a turn to learn from.
        """
        steps = [
            abs(advantage)
            for group in groups(rollouts)
            for advantages in self.of_steps([rollout.episode for rollout in group])
            for advantage in advantages
        ]
        sizes = Counter((rollout.group, anchor) for rollout in rollouts for anchor in anchors(rollout.episode))
        shared = [size for size in sizes.values() if size > 1]
        if not steps:
            return {}
        return {
            "credit/step_groups": float(len(shared)),
            "credit/shared_turns_frac": sum(shared) / len(steps),
            "credit/step_advantage_abs": fmean(steps),
        }


def anchors(episode: Episode) -> list[str]:
    """The observation that each turn answers, the first of the task included."""
    first = [episode.messages[episode.start - 1]["content"]] if episode.turns else []
    return [*first, *(turn.observation for turn in episode.turns[:-1])]


def returns(rewards: Sequence[float], gamma: float) -> list[float]:
    """Discounted sum of the rewards from each turn on."""
    total, backwards = 0.0, []
    for reward in reversed(rewards):
        total = reward + gamma * total
        backwards.append(total)
    return backwards[::-1]


def returned(group: Sequence[Episode], gamma: float) -> OfTurns:
    """The return of every turn."""
    return [returns([turn.reward for turn in episode.turns], gamma) for episode in group]


def compared(
    values: Sequence[Sequence[float]], keys: Sequence[Sequence[Hashable]], by: Callable[[list[float]], Sequence[float]]
) -> OfTurns:
    """What ``by`` makes of the values of all turns with the same key."""
    members: dict[Hashable, list[tuple[int, int]]] = {}
    for index, of_turns in enumerate(keys):
        for turn, key in enumerate(of_turns):
            members.setdefault(key, []).append((index, turn))
    results = [[0.0] * len(of_turns) for of_turns in values]
    for places in members.values():
        for (index, turn), value in zip(places, by([values[i][t] for i, t in places]), strict=True):
            results[index][turn] = value
    return results
