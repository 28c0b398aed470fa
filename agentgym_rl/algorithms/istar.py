r"""Implicit step rewards (iStar, first published as OPRL, arXiv 2509.19199): a second model says what a step is worth.

The reward model :math:`\pi_\phi` learns preferences (DPO) between a success and a failure of a task,

.. math:: L = -\log \sigma(Q^+ - Q^-), \quad Q = \sum_t r_t, \quad r_t = \beta \log \frac{\pi_\phi(a_t)}{\pi_{old}(a_t)}

where :math:`\pi_{old}` is the policy as the update begins, and :math:`a_t` turn :math:`t`. Its advantage is RLOO's of
its episode plus ``algorithm.step_weight`` times :math:`r_t - \mathrm{mean}(r \text{ of all other steps of the task})`.

Departures from the authors' release (Tongyi-Character at dfee104): as read, it takes the loss of detached numbers, so
that no gradient reaches the reward model; here it learns. The release takes the mean over the first step of each
episode as the baseline, with RLOO's factor n/(n-1) (``baseline=first``), and the mean over steps as :math:`Q`. It takes
all pairs of a task (``prm.pairs_per_task``), divides rewards by the largest of the batch (``scale_by_batch=true``), and
makes each turn a sequence. Here an episode is one sequence, and a turn's log-ratio counts at most 5 nats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from statistics import fmean, pstdev

from agentgym_rl.algorithms.base import Metrics, Needs, Rollout, Run
from agentgym_rl.algorithms.checks import above, at_least
from agentgym_rl.algorithms.config import GroupConfig
from agentgym_rl.algorithms.policy_gradient import Credit, PolicyGradient
from agentgym_rl.algorithms.reward_model import CLIP, PRM, RewardModel, RewardModelConfig, clipped
from agentgym_rl.algorithms.rloo import leave_one_out
from agentgym_rl.algorithms.step_worth import auc, shortens
from agentgym_rl.data.episode import Episode


class Baseline(StrEnum):
    """What a step is compared with."""

    ALL = "all"
    FIRST = "first"


@dataclass(kw_only=True)
class IstarConfig(GroupConfig):
    """Keys of ``algorithm=istar``."""

    step_weight: float = 1.0
    """Weight of the advantage of steps; 0 is RLOO, without a reward model."""
    beta: float = 0.05
    """Scale of the step rewards, and how strongly the reward model is tied to the policy."""
    baseline: Baseline = Baseline.ALL
    """What a step is compared with: ``all`` other steps of its task, or the ``first`` of each episode."""
    scale_by_batch: bool = False
    """Divide step rewards by the largest of the batch."""
    prm: RewardModelConfig = field(default_factory=RewardModelConfig)
    """The reward model; see :class:`~agentgym_rl.algorithms.reward_model.RewardModelConfig`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "step_weight")
        above(self, 0, "beta")

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        reasons = super().unused(off_policy=off_policy, environments=environments)
        if self.step_weight:
            return reasons
        keys = ("beta", "baseline", "scale_by_batch", *(f"prm.{key.name}" for key in fields(self.prm)))
        return {**reasons, **dict.fromkeys(keys, "algorithm.step_weight=0 has no reward model")}


class Istar(PolicyGradient[IstarConfig]):
    """Rewards less those of the same task, and step rewards less those of its other steps."""

    Config = IstarConfig
    fewest_samples = 2

    def __init__(self, config: IstarConfig) -> None:
        super().__init__(config)
        self.model = RewardModel(config.prm, config.optimizer, config.beta)
        self.ratios = dict[int, list[float]]()
        self.rewards = dict[int, list[float]]()
        self.judged = list[tuple[float, bool]]()
        """Step rewards, and whether the step shortened the way."""
        self.taught = list[Metrics]()

    @classmethod
    def needs(cls, config: IstarConfig) -> Needs:
        needs = super().needs(config)
        if not config.step_weight:
            return needs
        models = {**needs.models, PRM: config.prm.model}
        return replace(needs, models=models, full_context="algorithm=istar", rows_together=2)

    def unit(self, run: Run, number: int) -> Metrics:
        for of_step in (self.ratios, self.rewards, self.judged, self.taught):
            of_step.clear()  # two go by id(episode), which a later episode may have, too
        return super().unit(run, number)

    def learn(self, run: Run, rollouts: Sequence[Rollout], number: int) -> None:
        if self.config.step_weight:
            rollouts = sorted(rollouts, key=lambda rollout: rollout.key)  # as they were asked for, not as they ended
            rows = self.model.referenced(run, rollouts)
            if self.config.prm.learns_first:
                self.taught.append(self.model.learn(run, rollouts, rows, number, self.units))
            self._reward(rollouts, self.model.ratios(run, rows))
            for episode in (rollout.episode for rollout in rollouts):
                if (steps_left := run.steps_left(episode)) is not None:
                    self.judged += zip(self.rewards[id(episode)], shortens(steps_left), strict=True)
            if not self.config.prm.learns_first:
                self.taught.append(self.model.learn(run, rollouts, rows, number, self.units))
        super().learn(run, rollouts, number)

    def _reward(self, rollouts: Sequence[Rollout], ratios: Sequence[list[float]]) -> None:
        rewards = [[self.config.beta * clipped(ratio) for ratio in of_turns] for of_turns in ratios]
        if self.config.scale_by_batch:
            largest = max((abs(reward) for of_turns in rewards for reward in of_turns), default=0.0) or 1.0
            rewards = [[reward / largest for reward in of_turns] for of_turns in rewards]
        episodes = [id(rollout.episode) for rollout in rollouts]
        self.ratios |= zip(episodes, ratios, strict=True)
        self.rewards |= zip(episodes, rewards, strict=True)

    def credit(self, group: Sequence[Episode]) -> Credit:
        of_episodes = leave_one_out([episode.reward for episode in group])
        if not self.config.step_weight:
            return of_episodes
        of_steps = step_advantages([self.rewards[id(episode)] for episode in group], self.config.baseline)
        weight = self.config.step_weight
        return [[a + weight * step for step in steps] for a, steps in zip(of_episodes, of_steps, strict=True)]

    def metrics(self, rollouts: Sequence[Rollout]) -> Metrics:
        rewards = [reward for of_turns in self.rewards.values() for reward in of_turns]
        if not rewards:
            return {}
        ratios = [ratio for of_turns in self.ratios.values() for ratio in of_turns]
        metrics = {key: fmean(each[key] for each in self.taught if key in each) for key in set().union(*self.taught)}
        if (area := auc(self.judged)) is not None:
            metrics["prm/step_auc"] = area
        return metrics | {
            "prm/reward_std": pstdev(rewards),
            "prm/clipped_turns_frac": fmean(abs(ratio) > CLIP for ratio in ratios),
        }


def step_advantages(rewards: Sequence[Sequence[float]], baseline: Baseline) -> list[list[float]]:
    """Step rewards of the episodes of a task, less their baseline; 0 for a single step."""
    if baseline is Baseline.ALL:
        pooled = [reward for of_turns in rewards for reward in of_turns]
        advantages = iter(leave_one_out(pooled) if len(pooled) > 1 else [0.0] * len(pooled))
        return [[next(advantages) for _ in of_turns] for of_turns in rewards]
    first = [of_turns[0] for of_turns in rewards if of_turns]
    scale = len(first) / (len(first) - 1) if len(first) > 1 else 0.0
    return [[(reward - fmean(first)) * scale for reward in of_turns] for of_turns in rewards]
