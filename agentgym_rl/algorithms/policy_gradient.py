"""What all policy gradients share: draw, roll out, credit, update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeVar

from agentgym_rl.algorithms.base import Algorithm, Metrics, Needs, OnlineConfig, Policy, Rollout, Run, above, at_least
from agentgym_rl.data.episode import Episode


class LossAggregation(StrEnum):
    """How the losses of tokens become the loss of an update."""

    TOKEN_MEAN = "token-mean"
    SEQ_MEAN_TOKEN_SUM = "seq-mean-token-sum"
    SEQ_MEAN_TOKEN_MEAN = "seq-mean-token-mean"
    SEQ_MEAN_TOKEN_SUM_NORM = "seq-mean-token-sum-norm"


@dataclass(kw_only=True)
class PolicyGradientConfig(OnlineConfig):
    """Keys of every policy gradient: the loss and the size of an update."""

    mini_batch_tasks: int = 32
    """Tasks of an update, each with all its episodes."""
    clip: float = 0.2
    """PPO's clip range of the probability ratio."""
    kl_loss: float = 0.0
    """Coefficient of the KL loss to the reference policy (k3, verl's ``low_var_kl``); 0 loads no reference."""
    entropy: float = 0.0
    """Coefficient of the entropy bonus."""
    loss_aggregation: LossAggregation = LossAggregation.TOKEN_MEAN
    importance_cap: float = 2.0
    """Asynchronous modes: greatest importance weight of a token, between the weights that sampled it and those that
    learn from it (truncated importance sampling); 0 uses no weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "mini_batch_tasks")
        at_least(self, 0, "kl_loss", "importance_cap")
        above(self, 0, "clip")

    def unused(self, *, asynchronous: bool) -> Mapping[str, str]:
        return {} if asynchronous else {"importance_cap": "engine.mode=sync learns with the weights that sampled"}


Credit = Sequence[float | Sequence[float]]
"""One number an episode, or one a turn of each."""

P = TypeVar("P", bound=PolicyGradientConfig)


class PolicyGradient(Algorithm[P]):
    """A training step: the rollouts of its tasks, an advantage for each, one policy update.

    A subclass writes :meth:`credit`, or names one of verl's estimators in :meth:`needs`.
    """

    Config = PolicyGradientConfig
    fewest_samples: ClassVar[int] = 1
    """Fewest episodes of a task; 2 for credit that compares the episodes of a group."""

    @classmethod
    def needs(cls, config: P) -> Needs:
        return Needs(
            reference=config.kl_loss > 0,
            samples_per_task=cls.fewest_samples,
            equal_updates={
                "algorithm.mini_batch_tasks x algorithm.samples_per_task": config.mini_batch_tasks
                * config.samples_per_task
            },
        )

    @property
    def units(self) -> int:
        return self.config.steps

    def unit(self, run: Run, number: int) -> Metrics:
        metrics: Metrics = {}
        for rollouts in run.batches(number):
            run.update(self.update(rollouts), lr=self.config.lr)
            metrics |= self.metrics(rollouts)
        return metrics

    def update(self, rollouts: Sequence[Rollout]) -> Policy:
        """The update of a batch."""
        if self.needs(self.config).estimator is not None:
            return Policy(rollouts=rollouts)
        return Policy(rollouts=rollouts, advantages=self.advantages(rollouts))

    def advantages(self, rollouts: Sequence[Rollout]) -> list[float | Sequence[float]]:
        """:meth:`credit` of each group, in the order of the rollouts."""
        found = {
            id(rollout): advantage
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
        """Metrics of its own for a batch."""
        return {}


def groups(rollouts: Sequence[Rollout]) -> list[list[Rollout]]:
    """The rollouts of each task, in the order of their first ones."""
    found: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        found.setdefault(rollout.group, []).append(rollout)
    return list(found.values())
