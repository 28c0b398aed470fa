r"""Group-in-group policy optimisation (GiGPO, arXiv 2505.10978): GRPO over episodes, and again over turns.

The advantage of a turn is that of its episode plus that of the step it took,

.. math:: A(a_t) = A^E + \omega A^S(a_t), \qquad
          A^S(a_t) = (R_t - \mathrm{mean}(R)) / F, \qquad R_t = \sum_{k \ge t} \gamma^{k - t} r_k

:math:`A^E` is GRPO's. The mean and :math:`F` of :math:`A^S` are over all turns in the episodes of the task that answer
the same observation, the anchor state; :math:`F` is their standard deviation, or 1 with
``algorithm.normalise_by_std=false``. :math:`\omega` is ``algorithm.step_weight``, :math:`\gamma` ``algorithm.gamma``.

Departures: the anchor is the text of the observation alone, which in partly observed environments may stand for several
states ("nothing happens"). The paper feeds the model one prompt a turn, as ``rollout.context=recent`` does; else an
episode is one sequence, in which each turn's tokens have an advantage of their own. Mean and deviation of :math:`A^E`
are over the episodes of the task, as in the paper; verl-agent's default (``compute_mean_std_cross_steps=True``) takes
them over all turns of these episodes, so that long ones weigh more. A turn whose observation occurs once has :math:`A^S
= 0`. Groups are formed as in :mod:`~agentgym_rl.algorithms.grpo`. ``algorithm.groups.filter`` looks at rewards alone:
it also leaves out a group whose episodes were rewarded alike and took ways of other lengths, where :math:`A^S` is not
0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from agentgym_rl.algorithms.base import Metrics, Rollout, groups
from agentgym_rl.algorithms.checks import at_least, share
from agentgym_rl.algorithms.grpo import GRPOConfig, relative
from agentgym_rl.algorithms.policy_gradient import Credit, PolicyGradient
from agentgym_rl.data.episode import Episode


@dataclass(kw_only=True)
class GiGPOConfig(GRPOConfig):
    """Keys of ``algorithm=gigpo``."""

    tasks_per_step: int = 16
    """Tasks of a step."""
    mini_batch_tasks: int = 16
    """Tasks of an update, each with all its episodes."""
    step_weight: float = 1.0
    """Weight of the step-level advantage."""
    gamma: float = 0.95
    """Discount of a turn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "step_weight")
        share(self, "gamma")

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        keys = super().unused(off_policy=off_policy, environments=environments)
        return keys if self.step_weight else {**keys, "gamma": "algorithm.step_weight=0 ignores single turns"}


class GiGPO(PolicyGradient[GiGPOConfig]):
    """Episodes relative to those of their task, turns relative to those that answer the same observation."""

    Config = GiGPOConfig
    fewest_samples = 2

    def credit(self, group: Sequence[Episode]) -> Credit:
        config = self.config
        of_episodes = relative([episode.reward for episode in group], config.normalise_by_std)
        return [
            [advantage + config.step_weight * step for step in steps]
            for advantage, steps in zip(of_episodes, self._of_steps(group), strict=True)
        ]

    def _of_steps(self, group: Sequence[Episode]) -> list[list[float]]:
        return step_advantages(group, gamma=self.config.gamma, by_std=self.config.normalise_by_std)

    def metrics(self, rollouts: Sequence[Rollout]) -> Metrics:
        """How many observations several turns answered, the share of turns that did, and the mean size of A^S.

        Nothing of a step without a turn to learn from.
        """
        steps = [
            abs(advantage)
            for group in groups(rollouts)
            for advantages in self._of_steps([rollout.episode for rollout in group])
            for advantage in advantages
        ]
        sizes = Counter((rollout.group, anchor) for rollout in rollouts for anchor in anchors(rollout.episode))
        shared = [size for size in sizes.values() if size > 1]
        if not steps:
            return {}
        return {
            "gigpo/step_groups": float(len(shared)),
            "gigpo/shared_turns_frac": sum(shared) / len(steps),
            "gigpo/step_advantage_abs": fmean(steps),
        }


def step_advantages(group: Sequence[Episode], *, gamma: float, by_std: bool) -> list[list[float]]:
    """:math:`A^S` of every turn of the episodes of a task."""
    members: dict[str, list[tuple[int, int, float]]] = {}
    for index, episode in enumerate(group):
        returned = returns([turn.reward for turn in episode.turns], gamma)
        for turn, (anchor, value) in enumerate(zip(anchors(episode), returned, strict=True)):
            members.setdefault(anchor, []).append((index, turn, value))
    advantages = [[0.0] * len(episode.turns) for episode in group]
    for places in members.values():
        for (index, turn, _), advantage in zip(places, relative([member[2] for member in places], by_std), strict=True):
            advantages[index][turn] = advantage
    return advantages


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
