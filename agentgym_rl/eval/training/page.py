"""The training page: what runs are doing, and their metrics over each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.eval.evaluation.rules import flat, read_config
from agentgym_rl.eval.html import render, script
from agentgym_rl.eval.html.palette import ARMS, DASHES
from agentgym_rl.eval.training.curves import AXES, charts
from agentgym_rl.eval.training.settings import MOST, Played, played, rows, setting_charts
from agentgym_rl.eval.watching import Standing, begun, read


@dataclass(frozen=True, slots=True)
class Trained:
    """A run, as the page shows it."""

    folder: Path
    algorithm: str
    seed: str
    standing: Standing | None
    """None where it has logged nothing yet."""
    settings: Sequence[Played] = ()
    """Those that its mixture made."""
    error: str | None = None
    """Why it cannot be read; the others are shown all the same."""

    @classmethod
    def of(cls, folder: Path) -> Trained:
        """A run from its folder; what it does not say is left out."""
        try:
            config = read_config(folder) if (folder / "config.yaml").is_file() else {}
            standing, settings = read(folder) if begun(folder) else None, played(folder)
        except ValueError as error:
            return cls(folder, "", "", None, error=str(error))
        of = dict(flat(config))
        return cls(folder, of.get("algorithm.name", ""), str(of.get("seed", "")), standing, settings)

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        return self.standing.rows if self.standing else ()

    @property
    def state(self) -> str:
        """``finished``, ``grpo, 12 of 40``, ``no row yet``, or why the run cannot be read."""
        if self.error is not None:
            return self.error
        if self.standing is None or not self.rows:
            return "no row yet"
        if self.standing.finished:
            return "finished"
        unit = self.standing.to_dict()
        position = f", {unit['unit']:g} of {unit['units']:g}" if unit["units"] else ""
        return f"{unit['stage']}{position}"

    @property
    def findings(self) -> list[str]:
        """Why it learns nothing, where it does not."""
        return [str(finding) for finding in self.standing.findings] if self.standing else []

    @property
    def success(self) -> str:
        """The newest of each source."""
        newest = self.standing.curves() if self.standing else {}
        return " · ".join(f"{env} {source} {100 * values[-1]:.0f}%" for (env, source), values in newest.items())


def page(folders: Sequence[Path], addresses: Mapping[Path, str], back: str | None = None) -> str:
    """The page's HTML, as the runs are now.

    Args:
        addresses: of the pages with a run's episodes, by its folder; a run without episodes has none.
        back: address of the page that this one belongs to.
    """
    runs = named([Trained.of(folder) for folder in folders])
    looks = {label: look(number) for number, label in enumerate(runs)}
    drawn = charts({label: run.rows for label, run in runs.items()}, looks)
    axes = [axis for axis in AXES if any(axis in chart.axes for _, chart in drawn)]
    only = next(iter(runs)) if len(runs) == 1 else None
    settings = runs[only].settings if only else ()
    of_settings = [*setting_charts(settings, axes)]
    return render(
        "training/page.html",
        script("html/charts.js"),
        [chart for _, chart in (*drawn, *of_settings)],
        title=f"Training of {only}" if only else f"Training of {len(runs)} runs",
        runs=[(label, run, addresses.get(run.folder)) for label, run in runs.items()],
        looks=looks,
        borders={"-": "solid", "--": "dashed"},
        figures=[measure for measure, _ in drawn],
        axes=axes,
        settings=rows(settings),
        older=max(0, len(settings) - MOST),
        knobs=[measure for measure, _ in of_settings],
        back=back,
    )


def look(number: int) -> tuple[str, str, int]:
    """Colour, line style and key of the lines of a run."""
    return ARMS[number % len(ARMS)], DASHES[number // len(ARMS) % len(DASHES)], number


def named(runs: Sequence[Trained]) -> dict[str, Trained]:
    """Runs by the name of their folder; by the whole path where several have it."""
    names = [run.folder.resolve().name for run in runs]
    return {
        str(run.folder) if names.count(name) > 1 else name: run for run, name in zip(runs, names, strict=True)
    }  # fmt: skip
