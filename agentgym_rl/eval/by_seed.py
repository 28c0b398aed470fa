"""Success of several seeds on the same panels, and differences of it: mean, interval and p value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import fsum
from statistics import fmean

from agentgym_rl.eval.crossed import TaskVariance, most_shared, task_variance

Tasks = tuple[float | None, ...]
"""A value for each task of a panel, always in the same order; None where no episode counts."""


@dataclass(frozen=True, slots=True)
class Panel:
    """What a seed has on a panel, or a difference of two such."""

    mean: float
    most: float
    """The most that the tasks can add to the variance: of a difference as if no task were easier for both sides."""
    by_task: Tasks | None
    """None where that is not known."""
    weight: float = 1.0
    """In the mean over panels."""

    @classmethod
    def of(cls, mean: float, tasks: int, by_task: Sequence[float | None] | None, weight: float = 1.0) -> Panel:
        """
        Args:
            tasks: that have a value.
        """
        return cls(mean, most_shared(mean, tasks), None if by_task is None else tuple(by_task), weight)

    def __sub__(self, other: Panel) -> Panel:
        by_task = _by_task([self, other], lambda values: values[0] - values[1])
        return replace(self, mean=self.mean - other.mean, most=self.most + other.most, by_task=by_task)


Panels = tuple[Panel, ...]
"""Of a seed."""


def value(panels: Panels) -> float:
    """The weighted mean over panels."""
    return fsum(panel.weight * panel.mean for panel in panels)


def difference(mine: Panels, theirs: Panels) -> Panels:
    return tuple(panel - other for panel, other in zip(mine, theirs, strict=True))


def mean_of(runs: Sequence[Panels]) -> Panels:
    """Of several runs of a seed."""
    return tuple(
        replace(
            panels[0],
            mean=fmean(panel.mean for panel in panels),
            most=fmean(panel.most for panel in panels),
            by_task=_by_task(panels, fmean),
        )
        for panels in zip(*runs, strict=True)
    )


def of_tasks(seeds: Sequence[Panels]) -> TaskVariance:
    """Variance that tasks and chance add to the mean over seeds and panels: estimated where at least two tasks are
    known of every seed, else the most that tasks can add.
    """
    by_panel = [(panels[0].weight ** 2, _of_tasks(panels)) for panels in zip(*seeds, strict=True)]
    return TaskVariance(
        fsum(weight * tasks.shared for weight, tasks in by_panel),
        fsum(weight * tasks.chance for weight, tasks in by_panel),
    )


def _of_tasks(seeds: Sequence[Panel]) -> TaskVariance:
    table = [panel.by_task for panel in seeds if panel.by_task is not None]
    if len(table) == len(seeds) > 1 and sum(None not in task for task in zip(*table, strict=True)) > 1:
        return task_variance(table)
    return TaskVariance(fmean(panel.most for panel in seeds))


def _by_task(panels: Sequence[Panel], combine: Callable[[Sequence[float]], float]) -> Tasks | None:
    """Task by task; None where a panel does not know its tasks."""
    known = [panel.by_task for panel in panels if panel.by_task is not None]
    if len(known) < len(panels):
        return None
    return tuple(None if None in values else combine(values) for values in zip(*known, strict=True))
