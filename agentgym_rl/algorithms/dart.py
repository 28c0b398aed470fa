r"""Curated groups, turns and turn limits (DART-GUI, arXiv 2509.23866).

Advantages are those of GRPO over groups that are filled up:

* A group whose episodes all failed gets a success of its task from a pool (``algorithm.pool``), in the place of its
  first failure. Its advantage is multiplied, token by token, by :math:`\min(\pi_{old} / \pi_{sampled}, C)`, where
  :math:`C` is ``algorithm.importance_cap``: older weights sampled it.
* The turn limit of a task with ``algorithm.limit.after`` successes or more is :math:`\lceil s L \rceil`, never above
  that of its environment and curriculum. :math:`L` is the turns of its longest success so far, and :math:`s`
  ``algorithm.limit.slack``. One of every ``algorithm.limit.probe`` groups of a task has the full limit, so that a task
  that takes more turns by now can show it.
* Turns count whose entropy is among the highest of their group (``algorithm.entropy.keep``). Others leave loss and
  normaliser.

The released script differs from the paper: its loss is GSPO, the selection of turns is commented out, and the newest
success takes the place of the oldest failure.

Departures: the paper samples solved tasks less, which here the mixture can do (``mixture.tasks=task`` with
``mixture.max_samples``); it weighs all episodes, and here those of the pool alone, as all others are of the present
weights. :math:`\pi_{sampled}` is what the training workers computed when the success was new. That of demonstrations is
not known; they weigh as if the present weights had sampled them. With a pool or a selection of turns, a step rolls out
all its tasks before it learns (``engine.mode=sync``), and updates take equal numbers of episodes, not whole groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import exp
from statistics import fmean
from typing import Any

from agentgym_rl.algorithms.base import Metrics, Needs, Rollout, Run, groups
from agentgym_rl.algorithms.checks import above
from agentgym_rl.algorithms.config import within
from agentgym_rl.algorithms.grpo import GRPOConfig, relative
from agentgym_rl.algorithms.losses.base import MAX_LOG_RATIO
from agentgym_rl.algorithms.policy_gradient import Credit, PolicyGradient
from agentgym_rl.algorithms.pool import POOLED, Pool, PoolConfig
from agentgym_rl.algorithms.rows import PerToken, Row
from agentgym_rl.algorithms.task_limits import LimitConfig, Limits
from agentgym_rl.algorithms.turn_selection import By, EntropyConfig, exact, sampled, selected
from agentgym_rl.data.episode import Episode

PRESENT = "present"
"""Stream of log-probabilities by the present weights."""


@dataclass(kw_only=True)
class DARTConfig(GRPOConfig):
    """Keys of ``algorithm=dart``."""

    pool: PoolConfig = field(default_factory=PoolConfig)
    """Successes for groups that have none; see :class:`~agentgym_rl.algorithms.pool.PoolConfig`."""
    limit: LimitConfig = field(default_factory=LimitConfig)
    """Turn limits of tasks; see :class:`~agentgym_rl.algorithms.task_limits.LimitConfig`."""
    entropy: EntropyConfig = field(default_factory=EntropyConfig)
    """Which turns are learned from; see :class:`~agentgym_rl.algorithms.turn_selection.EntropyConfig`."""
    importance_cap: float = 1.0
    """:math:`C`: greatest importance weight of a token of the pool's successes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above(self, 0, "importance_cap")
        if self.reads_tokens and self.loss.kl:
            raise ValueError(
                f"loss.kl={self.loss.kl} needs rows that stay with the engine: set pool.size=0 and entropy.keep=1, or "
                "loss.kl=0"
            )

    @property
    def reads_tokens(self) -> str | None:
        """The key that changes what tokens of a row count, for which it needs them."""
        if self.pool.size:
            return f"algorithm.pool.size={self.pool.size}"
        return f"algorithm.entropy.keep={self.entropy.keep}" if self.entropy.keep < 1 else None

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        reasons = {
            **super().unused(off_policy=off_policy, environments=environments),
            **within("pool", self.pool.unused()),
            **within("limit", self.limit.unused()),
            **within("entropy", self.entropy.unused()),
        }
        if not self.pool.size:
            reasons["importance_cap"] = "algorithm.pool.size=0 leaves all episodes to the present weights"
        if not (key := self.reads_tokens):
            return reasons
        reasons |= within("correction", {each.name: f"{key} learns from the present weights' own tokens"
                                       for each in fields(self.correction)})  # fmt: skip
        return {**reasons, "groups.refills": f"{key} rolls out no other tasks in place of those left out"}


class DART(PolicyGradient[DARTConfig]):
    """GRPO over curated groups."""

    Config = DARTConfig
    fewest_samples = 2

    def __init__(self, config: DARTConfig) -> None:
        super().__init__(config)
        self.pool, self.limits = Pool(config.pool), Limits(config.limit)
        self._logged: Metrics = {}
        """Of the present step."""

    @classmethod
    def needs(cls, config: DARTConfig) -> Needs:
        return replace(super().needs(config), demonstrations=config.pool.shows, whole_steps=config.reads_tokens)

    def unit(self, run: Run, number: int) -> Metrics:
        self._logged = {}
        if not self.config.reads_tokens:
            return super().unit(run, number)
        met = self._met(run, number)
        learnt = self.shaped(self._filled(run, met), run.response_tokens)
        rows = self._selected(run, learnt, self._weighed(run, self.rows(learnt)))
        self._take(run, [rollout for group in met for rollout in group if rollout.episode.success])
        return self.learn_whole(run, rows, learnt, number, self.loss, "dart")

    # groups

    def batches(self, run: Run, number: int) -> Iterator[list[Rollout]]:
        """Those of GRPO, with limits of their own."""
        if self.config.limit.slack is None:
            yield from super().batches(run, number)
            return
        met: dict[str, list[Rollout]] = {}
        yield from self.planned(run, number, lambda _, drawn: self.limits.plan(drawn), met)
        self._observe([*met.values()])

    def _met(self, run: Run, number: int) -> list[list[Rollout]]:
        """The groups of a step, of the episodes that count."""
        met = groups(self.rolled_out(run, self.limits.plan(run.requests(number))))
        self._observe(met)
        return met

    def _observe(self, met: Sequence[Sequence[Rollout]]) -> None:
        self.limits.observe(met)
        if limits := [rollout.episode.max_turns for group in met for rollout in group]:
            self._logged["dart/limit_mean"] = fmean(limits)

    def _filled(self, run: Run, met: Sequence[Sequence[Rollout]]) -> list[Rollout]:
        """Groups of two episodes or more, with successes of the pool."""
        if self.config.pool.shows:
            self.pool.demonstrate(run.demonstrations)
        filled = [self.pool.fill(group) for group in met if len(group) > 1]
        keep = self.filter().get("keep", bool)
        return [rollout for group in filled if keep(group) for rollout in group]

    def _take(self, run: Run, successes: Sequence[Rollout]) -> None:
        """Keep the successes of a step, with what their tokens' probabilities are now."""
        if self.config.pool.takes:
            rows = iter(run.score([row for each in successes for row in each.rows({})], name=PRESENT, read=True))
            for success in successes:
                self.pool.take(success, run.step, [next(rows).of_tokens(PRESENT) for _ in success.segments])
        ages = [float(run.step - kept.step) for of_task in self.pool.kept.values() for kept in of_task]
        self._logged["dart/pool"] = float(len(ages))
        if ages:
            self._logged["dart/pool_age"] = fmean(ages)

    # rows

    def _weighed(self, run: Run, rows: Sequence[Row]) -> list[Row]:
        """The rows, those of the pool's successes with advantages times importance weights."""
        pooled = {place: row for place, row in enumerate(rows) if row.episode and POOLED in row.episode.tags}
        weighed, cap, cut = [*rows], self.config.importance_cap, list[bool]()
        for (place, row), scored in zip(
            pooled.items(), run.score([*pooled.values()], name=PRESENT, read=True), strict=True
        ):
            weights = ratios(scored.of_tokens(PRESENT), self.pool.sampled(row))
            cut += [ratio > cap for ratio, learned in zip(weights, row.tokens.loss_weight, strict=True) if learned]
            weighed[place] = replace(
                row, streams={**row.streams, "advantage": times(row, [min(w, cap) for w in weights])}
            )
        self._logged["dart/injected"] = float(len({id(row.episode) for row in pooled.values()}))
        if cut:
            self._logged["dart/importance_cut"] = fmean(cut)
        return weighed

    def _selected(self, run: Run, rollouts: Sequence[Rollout], rows: Sequence[Row]) -> list[Row]:
        """The rows without the turns that do not count."""
        config = self.config.entropy
        if config.keep == 1:
            return [*rows]
        if config.by is By.EXACT:
            entropies = exact(run.score(rows, name=PRESENT, entropy=True, read=True), f"{PRESENT}_entropy")
        else:
            entropies = sampled(rows)
        chosen, self._logged["dart/turns_kept"] = selected(rollouts, rows, entropies, config.keep)
        return chosen

    def credit(self, group: Sequence[Episode]) -> Credit:
        return relative([episode.reward for episode in group], self.config.normalise_by_std)

    def metrics(self, rollouts: Sequence[Rollout]) -> Metrics:
        return self._logged

    def state_dict(self) -> dict[str, Any]:
        return {"shaping": super().state_dict(), "pool": self.pool.state(), "limits": self.limits.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state["shaping"])
        self.pool.load(state["pool"])
        self.limits.load(state["limits"])


def ratios(old: Sequence[float], sampled: Sequence[float] | None) -> list[float]:
    """:math:`\\pi_{old} / \\pi_{sampled}` of each token; 1 where it is not known who sampled them."""
    return [exp(min(now - then, MAX_LOG_RATIO)) for now, then in zip(old, sampled or old, strict=True)]


def times(row: Row, weights: Sequence[float]) -> PerToken:
    """The advantage of a row on each of its tokens, times their weights."""
    advantage = row.streams["advantage"]
    assert isinstance(advantage, float)
    return PerToken(advantage * weight for weight in weights)
