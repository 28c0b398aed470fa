"""A run while it runs, read from its folder: how far it is, what it learns, what fails."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_rl.envs.tables import numbered_jsonl
from agentgym_rl.eval.diagnosis import Finding, diagnose
from agentgym_rl.eval.step_line import duration
from agentgym_rl.eval.units import COUNTERS, UNITS, Row, by_stage, finite, is_finite, left_s, number, stage_of

if TYPE_CHECKING:
    from rich.console import RenderableType

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 24
"""Values of a sparkline."""
METRICS = "metrics.jsonl"
_ENV, _PANEL, _SUCCESS, _ERRORS = "env/", "val/", "/success", "errors/"


@dataclass(frozen=True)
class Standing:
    """What ``metrics.jsonl`` says of a run."""

    name: str
    logged: Sequence[Row]
    written: float
    """When the last row was written, or the run began where there is none, in seconds since the epoch."""
    finished: bool

    @cached_property
    def rows(self) -> list[Row]:
        """The finite values of what was logged."""
        return [*map(finite, self.logged)]

    @property
    def stage(self) -> str | None:
        """The stage of the newest row."""
        return next(filter(None, map(stage_of, reversed(self.rows))), None)

    @property
    def units(self) -> list[Row]:
        """The rows of the present stage's units."""
        return [] if self.stage is None else by_stage(self.rows).get(self.stage, [])

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest of the stage takes at the pace of its units so far; None before the second one."""
        return None if self.stage is None else left_s(self.units, self.stage)

    @property
    def findings(self) -> list[Finding]:
        """Stages that learned nothing, and why."""
        return diagnose(self.logged)

    def curves(self) -> dict[tuple[str, str], list[float]]:
        """Success by environment and source: ``training``, or a panel."""
        by_panel: dict[tuple[str, str], list[float]] = {}
        for row in self.rows:
            for key, value in row.items():
                if key.startswith(_ENV) and key.endswith(_SUCCESS):
                    by_panel.setdefault((key[len(_ENV) : -len(_SUCCESS)], "training"), []).append(value)
                elif key.startswith(_PANEL) and key.endswith(_SUCCESS):
                    panel, env = key[len(_PANEL) : -len(_SUCCESS)].rsplit("/", 1)
                    by_panel.setdefault((env, panel), []).append(value)
        return dict(sorted(by_panel.items()))

    def failures(self) -> dict[str, float]:
        """What went wrong: shares of episodes and faults of parsers in the newest row that has them, and the run's
        episodes that a fault ended, by kind."""
        newest: dict[str, float] = {}
        kinds: Counter[str] = Counter()
        for row in self.rows:
            newest |= {key: value for key, value in row.items() if key.endswith(("/error_rate", "/parser_faults"))}
            kinds.update({key: value for key, value in row.items() if key.startswith(_ERRORS)})
        return {key: value for key, value in {**newest, **kinds}.items() if value}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: name, stage, units done and planned, seconds left, newest success, failures, findings."""
        unit = self.units[-1] if self.units else {}
        return {
            "name": self.name,
            "finished": self.finished,
            "stage": self.stage,
            "unit": unit.get(f"stage/{self.stage}"),
            "units": unit.get(UNITS),
            "left_s": self.left_s,
            "success": [
                {"environment": env, "episodes_of": source, "values": values}
                for (env, source), values in self.curves().items()
            ],
            "failures": self.failures(),
            "findings": [asdict(finding) for finding in self.findings],
        }


def read_rows(folder: Path, *, torn_end: bool) -> list[Row]:
    """The rows of ``metrics.jsonl``.

    Args:
        torn_end: see :func:`agentgym_rl.envs.tables.read_jsonl`.

    Raises:
        ValueError: a line is not the metrics of a step; names file and line.
    """
    file = folder / METRICS
    rows: list[Row] = []
    for line, row in numbered_jsonl(file, torn_end):
        if not isinstance(row, dict) or not isinstance(row.get("step"), int):
            raise ValueError(f"{file}, line {line}: not the metrics of a step")
        if wrong := [key for key in row if key.startswith(COUNTERS) and not is_finite(row[key])]:
            raise ValueError(f"{file}, line {line}: {wrong[0]} is {row[wrong[0]]!r}, not a finite number")
        rows.append({key: value for key, value in row.items() if value is not None})
    return rows


def begun(folder: Path) -> bool:
    """Whether a run has come as far as its metrics."""
    return (folder / METRICS).is_file()


def read(folder: Path, process: str | None = None) -> Standing:
    """The standing of a run.

    Args:
        process: that runs it, if any, so that a folder without metrics is that of a run which is starting.

    Raises:
        FileNotFoundError: no run has written into the folder.
        ValueError: see :func:`read_rows`.
    """
    file = folder / METRICS
    if not begun(folder) and process is None:
        raise FileNotFoundError(f"{file} does not exist; {folder} is not the folder of a run, or it has only begun")
    rows = read_rows(folder, torn_end=True) if begun(folder) else []
    written = next(
        file_or_folder
        for file_or_folder in (*([file] if rows else []), folder / "identity.yaml", folder)
        if file_or_folder.exists()
    )
    return Standing(folder.resolve().name, rows, written.stat().st_mtime, (folder / "summary.json").is_file())


def sparkline(values: Sequence[float]) -> str:
    """The last values between 0 and 1 as a row of bars."""
    return "".join(BARS[min(int(value * len(BARS)), len(BARS) - 1)] for value in values[-WIDTH:])


def picture(standing: Standing, process: str, now: float | None = None) -> RenderableType:
    """A run on a terminal.

    Args:
        process: says whether the run is under way.
        now: seconds since the epoch; None takes the clock's.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    ago = duration((time.time() if now is None else now) - standing.written)
    status = "finished" if standing.finished else process
    since = f"last row {ago} ago" if standing.rows else f"no row yet, for {ago}"
    head = Text.assemble((standing.name, "bold"), f"  {status}, {since}")
    progress = Text(_progress(standing))
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("environment", "episodes of", "success", ""):
        table.add_column(title, justify="right" if title == "success" else "left", overflow="fold")
    for (env, source), values in standing.curves().items():
        table.add_row(env, source, f"{100 * values[-1]:.1f} %", sparkline(values))
    failures = [Text(f"{key}: {value:.3g}", style="yellow") for key, value in standing.failures().items()]
    findings = [Text(str(finding), style="bold red") for finding in standing.findings]
    return Group(head, *findings, progress, table, *failures)


def _progress(standing: Standing) -> str:
    """Stage, units, what was spent and what is left."""
    stage = standing.stage
    if stage is None:
        return ""
    parts = [stage]
    if units := standing.units:
        parts[0] += f" {number(units[-1], stage)} of {units[-1][UNITS]:g}"
    if spent := [row for row in standing.rows if "run/episodes" in row]:
        parts += [f"{spent[-1]['run/episodes']:,} training episodes", f"{duration(spent[-1]['run/wall_s'])} of work"]
    if speeds := [row["rollout/episodes_per_s"] for row in standing.rows if "rollout/episodes_per_s" in row]:
        parts.append(f"{speeds[-1]:.2g} episodes/s")
    if not standing.finished and (seconds := standing.left_s):
        parts.append(f"about {duration(seconds)} of this stage left, without the evaluation at its end")
    return "  ".join(parts)
