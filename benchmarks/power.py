"""The power of claims, by simulation from rows of older seeds.

A seed solves a task by chance, with a probability that depends on the task. Success of the worse side on each panel,
and by how much seeds differ beside chance, are those of the older rows; they do not say how tasks differ, which is
:data:`SPREAD` and :data:`ALIKE`. The better side has the smallest effect worth showing on every panel. A claim is shown
if its p value survives the first step of Holm's correction, the hardest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean, variance

import numpy as np
from claims import DESIGNS, Claim, Design, on_page
from evidence_page import Rows, seeds_of
from numpy.typing import NDArray
from scipy.stats import norm
from studies import STUDIES, Study

from agentgym_rl.eval.by_seed import Panel, difference, of_tasks, value
from agentgym_rl.eval.crossed import crossed_p

DRAWS = 400
SPREAD = 1.0
"""Standard deviation of tasks on the scale of a standard normal chance."""
ALIKE = 0.8
"""Correlation of a task's difficulty for both sides."""
SEEDS = (3, 5, 8, 10, 15, 20)


def table(name: str, rows: Mapping[str, Rows]) -> Iterator[str]:
    """Power of each claim of a study by seeds, on its panels."""
    study, design = STUDIES[name], DESIGNS[name]
    older = DESIGNS[design.rows].older(rows[design.rows])
    counts = sorted({*SEEDS, len(design.seeds)})
    yield f"claim | column | effect | {' | '.join(f'{count} seeds' for count in counts)}"
    for claim in design.claims:
        powers = [f"{power(study, design, claim, older, count):.2f}" for count in counts]
        yield f"{claim.ordering.claim} | {claim.column} | {claim.effect:g} | {' | '.join(powers)}"


def power(study: Study, design: Design, claim: Claim, rows: Rows, seeds: int, draws: int = DRAWS) -> float:
    """Share of simulated studies that show a claim.

    Args:
        rows: of older seeds.
    """
    rng = np.random.default_rng(0)
    columns = claim.columns(study)
    worse, better = (seeds_of(study, rows, side, columns) for side in (claim.like.worse, claim.like.better))
    known = [difference(better[seed], worse[seed]) for seed in sorted(better.keys() & worse.keys())]
    base = [fmean(panels[number].mean for panels in worse.values()) for number in range(len(columns))]
    episodes = [row["success"][column][1] for column in columns for row in rows[:1]]
    chance = sum(2 * _within(rate) / count for rate, count in zip(base, episodes, strict=True)) / len(columns) ** 2
    of_seeds = max(0.0, variance([value(panels) for panels in known]) - chance) ** 0.5
    sizes = [design.size(study, column, count) for column, count in zip(columns, episodes, strict=True)]
    level, shown = 0.05 / len(on_page(study)), 0
    for _ in range(draws):
        noise = rng.normal(0, of_seeds, (seeds, 1))
        tables = [
            _differences(rate, claim.effect / 100, seeds, *size, rng) + noise
            for rate, size in zip(base, sizes, strict=True)
        ]
        simulated = [
            tuple(Panel(float(rows.mean()), 0.0, tuple(rows.tolist()), 1 / len(columns)) for rows in by_seed)
            for by_seed in zip(*tables, strict=True)
        ]
        by_seed = [value(panels) for panels in simulated]
        shown += fmean(by_seed) > 0 and crossed_p(by_seed, of_tasks(simulated)) < level
    return shown / draws


def _within(rate: float) -> float:
    """Variance of one episode of a task, on average over tasks: all seeds face the same ones."""
    tasks = norm.cdf(_middle(rate) + SPREAD * norm.ppf((np.arange(2000) + 0.5) / 2000))
    return float((tasks * (1 - tasks)).mean())


def _middle(rate: float) -> float:
    """Where on the scale of a standard normal chance the middle task stands."""
    return norm.ppf(min(0.999, max(0.001, rate))) * (1 + SPREAD**2) ** 0.5


def _differences(
    base: float, effect: float, seeds: int, tasks: int, samples: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Simulated differences of two sides by seed and task."""
    common = rng.normal(size=tasks)

    def side(success: float) -> NDArray[np.float64]:
        easiness = ALIKE**0.5 * common + (1 - ALIKE) ** 0.5 * rng.normal(size=tasks)
        return rng.binomial(samples, norm.cdf(_middle(success) + SPREAD * easiness), (seeds, tasks)) / samples

    return side(base + effect) - side(base)
