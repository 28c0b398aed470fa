"""Figures of a set of outcomes, each with its number of tasks and a 95% interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import comb, sqrt
from statistics import fmean

from agentgym_rl.data.episode import Episode
from agentgym_rl.eval.intervals import Interval, bootstrap, share_interval


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one task."""

    item_id: str
    difficulty: str
    success: tuple[bool | None, ...]
    """By sample; None where the infrastructure failed."""
    reward: tuple[float | None, ...]
    turns: tuple[int | None, ...]

    @property
    def env(self) -> str:
        return env_of(self.item_id)

    @property
    def counted(self) -> list[bool]:
        """Success of the samples that count."""
        return [success for success in self.success if success is not None]

    @property
    def mean(self) -> float:
        """Share of successes among the samples that count, of which there must be one."""
        return fmean(self.counted)

    @classmethod
    def of(cls, item_id: str, difficulty: str, episodes: Sequence[Episode]) -> Outcome:
        """The outcome of a task from its episodes, in the order of samples."""
        counted = [episode if episode.ending.counts else None for episode in episodes]
        return cls(
            item_id=item_id,
            difficulty=difficulty,
            success=tuple(None if episode is None else episode.success for episode in counted),
            reward=tuple(None if episode is None else episode.reward for episode in counted),
            turns=tuple(None if episode is None else len(episode.turns) for episode in counted),
        )


def env_of(item_id: str) -> str:
    """The environment of a task."""
    return item_id.rpartition("_")[0]


@dataclass(frozen=True, slots=True)
class Measure:
    """A mean over tasks."""

    value: float
    ci95: tuple[float, float]
    n: int
    """Tasks it is over; of a mean over environments, these."""


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of a set of tasks. A task weighs the same however many of its samples count."""

    success: Measure | None
    """None where no episode counts."""
    reward: Measure | None
    turns: Measure | None
    error_rate: Measure
    """Episodes that failed outside the agent, as a share of all."""
    tasks: int
    episodes: int
    """Episodes that count."""


def score(outcomes: Sequence[Outcome], seed: str) -> Score:
    """The figures of some tasks.

    Intervals of success, reward and error rate: :func:`agentgym_rl.eval.intervals.share_interval`; of turns: the
    bootstrap.
    """

    def mean_of(
        by_task: Iterable[Sequence[float | None]], interval: Callable[[Sequence[float], str], Interval] = share_interval
    ) -> Measure | None:
        values = [fmean(counted) for scores in by_task if (counted := [value for value in scores if value is not None])]
        return Measure(fmean(values), interval(values, seed), len(values)) if values else None

    errors = mean_of([success is None for success in outcome.success] for outcome in outcomes)
    assert errors is not None, "a score needs outcomes"
    return Score(
        success=mean_of(outcome.success for outcome in outcomes),
        reward=mean_of(outcome.reward for outcome in outcomes),
        turns=mean_of((outcome.turns for outcome in outcomes), bootstrap),
        error_rate=errors,
        tasks=len(outcomes),
        episodes=sum(len(outcome.counted) for outcome in outcomes),
    )


def macro(scores: Sequence[Score]) -> Score:
    """The mean over environments, each weighing the same, as AgentGym reports it.

    Its interval is put together from the environments' own (MOVER, Zou and Donner 2008): distances of the bounds from
    the means add up as squares. ``n`` counts environments. A mean is None where one of them has no episode that counts:
    that of the others is no mean over all.
    """

    def mean_of(measures: Sequence[Measure | None]) -> Measure | None:
        present = [measure for measure in measures if measure is not None]
        if len(present) < len(scores):
            return None
        value = fmean(measure_of_env.value for measure_of_env in present)
        low, high = (
            sqrt(sum((measure_of_env.value - measure_of_env.ci95[side]) ** 2 for measure_of_env in present))
            / len(present)
            for side in (0, 1)
        )
        return Measure(value, (value - low, value + high), len(present))

    errors = mean_of([score.error_rate for score in scores])
    assert errors is not None, "a mean needs environments"
    return Score(
        success=mean_of([score.success for score in scores]),
        reward=mean_of([score.reward for score in scores]),
        turns=mean_of([score.turns for score in scores]),
        error_rate=errors,
        tasks=sum(score.tasks for score in scores),
        episodes=sum(score.episodes for score in scores),
    )


def pass_at_k(n: int, successes: int, k: int) -> float:
    """Probability that at least one of ``k`` episodes succeeds, unbiased from ``n >= k`` (Chen et al. 2021, eq. 1)."""
    return 1.0 - comb(n - successes, k) / comb(n, k)


def pass_hat_k(n: int, successes: int, k: int) -> float:
    """Probability that all of ``k`` episodes succeed, unbiased from ``n >= k`` (tau-bench, Yao et al. 2024)."""
    return comb(successes, k) / comb(n, k)


def ks(samples: int) -> list[int]:
    """1, 2, 4, ... and the number of samples."""
    return [*(2**power for power in range(samples.bit_length()) if 2**power < samples), samples]


def passes(outcomes: Sequence[Outcome], samples: int, seed: str) -> dict[str, dict[int, Measure]]:
    """``pass@k`` and ``pass^k`` by ``k``, over the tasks of which at least ``k`` episodes count."""
    by_name: dict[str, dict[int, Measure]] = {"pass@k": {}, "pass^k": {}}
    for k in ks(samples):
        counts = [(len(outcome.counted), sum(outcome.counted)) for outcome in outcomes if len(outcome.counted) >= k]
        for name, estimate in (("pass@k", pass_at_k), ("pass^k", pass_hat_k)):
            values = [estimate(n, successes, k) for n, successes in counts]
            if values:
                by_name[name][k] = Measure(fmean(values), share_interval(values, seed), len(values))
    return by_name
