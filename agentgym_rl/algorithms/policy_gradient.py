"""What all policy gradients share: draw, roll out, credit, update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from agentgym_rl.algorithms.base import (
    Algorithm,
    GroupFilter,
    Metrics,
    Needs,
    OnlineConfig,
    Policy,
    Rollout,
    Run,
    within,
)
from agentgym_rl.algorithms.checks import at_least
from agentgym_rl.algorithms.correction import CorrectionConfig
from agentgym_rl.algorithms.diagnostics import diagnostics
from agentgym_rl.algorithms.losses import loss_of, losses
from agentgym_rl.algorithms.losses.base import LossConfig
from agentgym_rl.algorithms.losses.vanilla import VanillaConfig
from agentgym_rl.algorithms.shaping import Shaping, ShapingConfig
from agentgym_rl.data.episode import Episode


@dataclass(kw_only=True)
class PolicyGradientConfig(OnlineConfig):
    """Keys of every policy gradient."""

    mini_batch_tasks: int = 32
    """Tasks of an update, each with all its episodes. A batch that does not divide by it, or lost tasks, makes the
    nearest number of updates, with more or fewer tasks each."""
    loss: LossConfig = field(default_factory=VanillaConfig, metadata={"kinds": losses})
    """The loss of a token, with its own keys; see :mod:`agentgym_rl.algorithms.losses`."""
    shaping: ShapingConfig = field(default_factory=ShapingConfig)
    """What learning takes for the rewards; see :mod:`agentgym_rl.algorithms.shaping`."""
    correction: CorrectionConfig = field(default_factory=CorrectionConfig)
    """What corrects for rollouts of another policy; see :mod:`agentgym_rl.algorithms.correction`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "mini_batch_tasks")

    @property
    def policy_gradient(self) -> PolicyGradientConfig:
        return self

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        return {
            **super().unused(off_policy=off_policy, environments=environments),
            **within("loss", self.loss.unused()),
            **within("shaping", self.shaping.unused()),
            **within("correction", self.correction.unused(off_policy=off_policy)),
        }


@dataclass(kw_only=True)
class GroupsConfig:
    """Keys of ``algorithm.groups``, for credit that compares the episodes of a task."""

    negative_weight: float = 1.0
    """Factor of negative advantages. Below 1, a policy that is seldom right is not driven from one wrong action to the
    next; 0 learns from the better episodes alone, as RAFT++ (arXiv 2504.11343) does without a baseline."""
    filter: bool = False
    """Leave out tasks whose episodes all have the same reward, and roll out others in their place (dynamic sampling,
    DAPO, arXiv 2503.14476, section 3.2). Rewards are the environment's own, before they are shaped."""
    refills: int | None = None
    """Most tasks that a step rolls out in place of those left out; null allows ``algorithm.tasks_per_step``."""
    min_reward_std: float = 0.0
    """Also leave out tasks whose rewards have a lower standard deviation than this (after the SNR filter of RAGEN-2,
    arXiv 2604.06268, which keeps the top part of a batch)."""

    def __post_init__(self) -> None:
        at_least(self, 0, "negative_weight", "min_reward_std", *(["refills"] if self.refills is not None else []))

    def unused(self) -> Mapping[str, str]:
        """Keys that have no effect beside the others, and why."""
        if self.filter:
            return {}
        return dict.fromkeys(("refills", "min_reward_std"), "algorithm.groups.filter=false keeps all groups")

    def group_filter(self, tasks_per_step: int) -> GroupFilter | None:
        """The filter, where there is one."""
        if not self.filter:
            return None
        refills = tasks_per_step if self.refills is None else self.refills
        return GroupFilter(refills=refills, min_reward_std=self.min_reward_std)


@dataclass(kw_only=True)
class GroupConfig(PolicyGradientConfig):
    """Keys of every algorithm that compares the episodes of a task."""

    groups: GroupsConfig = field(default_factory=GroupsConfig)
    """What is learned of the groups; see :class:`GroupsConfig`."""

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        found = super().unused(off_policy=off_policy, environments=environments)
        return {**found, **within("groups", self.groups.unused())}


Credit = Sequence[float | Sequence[float]]
"""One number an episode, or one a turn of each."""

P = TypeVar("P", bound=PolicyGradientConfig)


class PolicyGradient(Algorithm[P]):
    """A training step: the rollouts of its tasks, an advantage for each, one policy update.

    A subclass writes :meth:`credit`, or names one of verl's estimators in :meth:`needs`. Its episodes have shaped
    rewards (:mod:`agentgym_rl.algorithms.shaping`).
    """

    Config = PolicyGradientConfig
    fewest_samples: ClassVar[int] = 1
    """Fewest episodes of a task; 2 for credit that compares the episodes of a group."""

    def __init__(self, config: P) -> None:
        super().__init__(config)
        self.shaping, self.loss = Shaping(config.shaping), loss_of(config.loss)

    @classmethod
    def needs(cls, config: P) -> Needs:
        return Needs(
            reference=config.loss.reference,
            samples_per_task=cls.fewest_samples,
            group_filter=config.groups.group_filter(config.tasks_per_step) if isinstance(config, GroupConfig) else None,
            equal_updates={
                "algorithm.mini_batch_tasks x algorithm.samples_per_task": config.mini_batch_tasks
                * config.samples_per_task
            },
        )

    @property
    def units(self) -> int:
        return self.config.steps

    def unit(self, run: Run, number: int) -> Metrics:
        lr = self.config.optimizer.rate(self.config.lr, number, self.units)
        learnt: list[Rollout] = []
        for batch in run.batches(number):
            rollouts = self.shaped(batch, run.response_tokens)
            update = self.update(rollouts)
            if self.config.shaping.shapes:
                update = replace(update, rewards=[rollout.episode.reward for rollout in update.rollouts])
            run.update(update, lr=lr)
            learnt += rollouts
        metrics = self.metrics(learnt)
        metrics |= self.shaping.metrics([one.episode for one in learnt], run.response_tokens)
        return metrics | diagnostics([[one.episode for one in group] for group in groups(learnt)])

    def shaped(self, rollouts: Sequence[Rollout], response_tokens: int) -> list[Rollout]:
        """The rollouts with shaped rewards."""
        if not self.config.shaping.shapes:
            return list(rollouts)
        self.shaping.observe([one.episode for one in rollouts])
        return [replace(one, episode=self.shaping.shaped(one.episode, response_tokens)) for one in rollouts]

    def update(self, rollouts: Sequence[Rollout]) -> Policy:
        """The update of a batch."""
        if self.needs(self.config).estimator is not None:
            return Policy(rollouts=rollouts, loss=self.loss)
        return Policy(rollouts=rollouts, loss=self.loss, advantages=self.advantages(rollouts))

    def advantages(self, rollouts: Sequence[Rollout]) -> list[float | Sequence[float]]:
        """:meth:`credit` of each group with its negative numbers weighed, in the order of the rollouts."""
        weight = self.config.groups.negative_weight if isinstance(self.config, GroupConfig) else 1.0
        found = {
            id(rollout): weighed(advantage, weight)
            for group in groups(rollouts)
            for rollout, advantage in zip(group, self.credit([one.episode for one in group]), strict=True)
        }
        return [found[id(rollout)] for rollout in rollouts]

    def credit(self, group: Sequence[Episode]) -> Credit:
        """Advantages of the episodes of one task: a number each, or one for each turn.

        Args:
            group: the episodes that count; at least ``fewest_samples``.
        """
        raise NotImplementedError(f"{type(self).__name__} writes credit() or names an estimator of verl's")

    def metrics(self, rollouts: Sequence[Rollout]) -> Metrics:
        """Metrics of its own for the rollouts of a step."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        return self.shaping.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.shaping.load_state_dict(state)


def weighed(advantage: float | Sequence[float], weight: float) -> float | list[float]:
    """An episode's advantage, or those of its turns, with the negative ones multiplied by ``weight``."""
    if isinstance(advantage, Sequence):
        return [weight * one if one < 0 else one for one in advantage]
    return weight * advantage if advantage < 0 else advantage


def groups(rollouts: Sequence[Rollout]) -> list[list[Rollout]]:
    """The rollouts of each task, in the order of their first ones."""
    found: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        found.setdefault(rollout.group, []).append(rollout)
    return list(found.values())
