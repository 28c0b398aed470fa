"""What all policy gradients share: draw, roll out, credit, update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from agentgym_rl.algorithms.base import (
    START,
    Algorithm,
    GroupFilter,
    Metrics,
    Needs,
    Policy,
    Rollout,
    Run,
    above,
    at_least,
)
from agentgym_rl.algorithms.correction import BOUNDS, Correction
from agentgym_rl.algorithms.diagnostics import diagnostics
from agentgym_rl.algorithms.shaping import Shaping, ShapingConfig
from agentgym_rl.data.episode import Episode


class LossAggregation(StrEnum):
    """What makes one loss of the tokens of an update.

    ``seq`` stands for the episode, whatever its number of segments. ``token-mean``: mean over tokens. The others: mean
    over episodes of the sum of their tokens, of the mean of their tokens, or of the sum divided by the greatest length
    of a response (Dr. GRPO).
    """

    TOKEN_MEAN = "token-mean"
    SEQ_MEAN_TOKEN_SUM = "seq-mean-token-sum"
    SEQ_MEAN_TOKEN_MEAN = "seq-mean-token-mean"
    SEQ_MEAN_TOKEN_SUM_NORM = "seq-mean-token-sum-norm"


class PolicyLoss(StrEnum):
    """Which loss; see :mod:`agentgym_rl.algorithms.losses`."""

    VANILLA = "vanilla"
    GSPO = "gspo"
    TURN = "turn"
    CISPO = "cispo"
    SAPO = "sapo"


@dataclass(kw_only=True)
class PolicyGradientConfig(ShapingConfig):
    """Keys of every policy gradient: the rewards, the loss and the size of an update."""

    mini_batch_tasks: int = 32
    """Tasks of an update, each with all its episodes. A batch that does not divide by it, or lost tasks, makes the
    nearest number of updates, with more or fewer tasks each."""
    policy_loss: PolicyLoss = PolicyLoss.VANILLA
    """The loss of a token: vanilla (PPO), gspo, turn, cispo or sapo; see :mod:`agentgym_rl.algorithms.losses`."""
    clip: float = 0.2
    """How far the probability ratio may fall below 1, and rise above it."""
    clip_high: float | None = None
    """How far it may rise above 1 (clip-higher, DAPO, arXiv 2503.14476); null takes ``clip``."""
    dual_clip: float = 3.0
    """Greatest ratio that counts where the advantage is negative."""
    kl_loss: float = 0.0
    """Coefficient of the KL loss to the reference policy (k3, http://joschu.net/blog/kl-approx.html); 0 has none."""
    kl_reference: str = START
    """The reference policy: ``start`` (the policy as the stage began), ``loaded`` (the weights as loaded, before
    cloning), or the folder of a checkpoint, ``runs/<name>/checkpoints/global_step_<n>``."""
    entropy: float = 0.0
    """Coefficient of the entropy bonus."""
    loss_aggregation: LossAggregation = LossAggregation.TOKEN_MEAN
    correction: Correction | None = None
    """Correction for rollouts of another policy: none, tis, icepop, mis, geo_rs or bypass; see
    :mod:`agentgym_rl.algorithms.correction`. null takes none where rollouts have the probabilities that learn
    (``engine.mode=sync`` on a CPU), else tis."""
    importance_cap: float = 2.0
    """tis: greatest importance weight of a token."""
    correction_bounds: list[float] | None = None
    """icepop, mis, geo_rs: least and greatest ratio that is kept; null takes the bounds of the source."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "mini_batch_tasks")
        at_least(self, 0, "kl_loss")
        above(self, 0, "clip", *(["clip_high"] if self.clip_high is not None else []))
        above(self, 1, "dual_clip")
        if self.importance_cap <= 0:
            raise ValueError(
                f"algorithm.importance_cap must be greater than 0, got {self.importance_cap}; "
                "algorithm.correction=none uses no weights"
            )
        if (bounds := self.correction_bounds) is not None and not (len(bounds) == 2 and 0 < bounds[0] < 1 < bounds[1]):
            raise ValueError(
                f"algorithm.correction_bounds must be two ratios, one between 0 and 1 and one above 1, got {bounds}"
            )

    def corrected_by(self, *, off_policy: bool) -> Correction:
        """The correction of a run."""
        if self.correction is not None:
            return self.correction
        return Correction.TIS if off_policy else Correction.NONE

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        found = dict(super().unused(off_policy=off_policy, environments=environments))
        correction = self.corrected_by(off_policy=off_policy)
        if correction is not Correction.TIS:
            found["importance_cap"] = f"algorithm.correction={correction} cuts no weights"
        if correction not in BOUNDS:
            found["correction_bounds"] = f"algorithm.correction={correction} has no bounds"
        if not self.kl_loss:
            found["kl_reference"] = "algorithm.kl_loss=0 has no reference policy"
        if self.policy_loss is not PolicyLoss.VANILLA:
            found["dual_clip"] = f"algorithm.policy_loss={self.policy_loss} has no dual clip"
        if self.policy_loss is PolicyLoss.SAPO:
            found |= dict.fromkeys(("clip", "clip_high"), "algorithm.policy_loss=sapo does not clip")
        return found


@dataclass(kw_only=True)
class GroupConfig(PolicyGradientConfig):
    """Keys of every algorithm that compares the episodes of a task."""

    negative_weight: float = 1.0
    """Factor of negative advantages. Below 1, a policy that is seldom right is not driven from one wrong action to the
    next; 0 learns from the better episodes alone, as RAFT++ (arXiv 2504.11343) does without a baseline."""
    filter_groups: bool = False
    """Leave out tasks whose episodes all have the same reward, and roll out others in their place (dynamic sampling,
    DAPO, arXiv 2503.14476, section 3.2). Rewards are the environment's own, before they are shaped."""
    refills: int | None = None
    """Most tasks that a step rolls out in place of those left out; null allows ``tasks_per_step``."""
    min_reward_std: float = 0.0
    """Also leave out tasks whose rewards have a lower standard deviation than this (after the SNR filter of RAGEN-2,
    arXiv 2604.06268, which keeps the top part of a batch)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "negative_weight", "min_reward_std", *(["refills"] if self.refills is not None else []))

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        found = dict(super().unused(off_policy=off_policy, environments=environments))
        if not self.filter_groups:
            found |= dict.fromkeys(("refills", "min_reward_std"), "algorithm.filter_groups=false keeps all groups")
        return found

    @property
    def group_filter(self) -> GroupFilter | None:
        if not self.filter_groups:
            return None
        refills = self.tasks_per_step if self.refills is None else self.refills
        return GroupFilter(refills=refills, min_reward_std=self.min_reward_std)


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
        self.shaping = Shaping(config)

    @classmethod
    def needs(cls, config: P) -> Needs:
        return Needs(
            reference=config.kl_reference if config.kl_loss > 0 else None,
            samples_per_task=cls.fewest_samples,
            group_filter=config.group_filter if isinstance(config, GroupConfig) else None,
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
            if self.config.shapes:
                update = replace(update, rewards=[rollout.episode.reward for rollout in update.rollouts])
            run.update(update, lr=lr)
            learnt += rollouts
        metrics = self.metrics(learnt)
        metrics |= self.shaping.metrics([one.episode for one in learnt], run.response_tokens)
        return metrics | diagnostics([[one.episode for one in group] for group in groups(learnt)])

    def shaped(self, rollouts: Sequence[Rollout], response_tokens: int) -> list[Rollout]:
        """The rollouts with shaped rewards."""
        if not self.config.shapes:
            return list(rollouts)
        self.shaping.observe([one.episode for one in rollouts])
        return [replace(one, episode=self.shaping.shaped(one.episode, response_tokens)) for one in rollouts]

    def update(self, rollouts: Sequence[Rollout]) -> Policy:
        """The update of a batch."""
        if self.needs(self.config).estimator is not None:
            return Policy(rollouts=rollouts)
        return Policy(rollouts=rollouts, advantages=self.advantages(rollouts))

    def advantages(self, rollouts: Sequence[Rollout]) -> list[float | Sequence[float]]:
        """:meth:`credit` of each group with its negative numbers weighed, in the order of the rollouts."""
        weight = self.config.negative_weight if isinstance(self.config, GroupConfig) else 1.0
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
