"""Runs beside each other, for notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_rl.api.frames import frame
from agentgym_rl.envs.extras import needs

if TYPE_CHECKING:
    from pandas import DataFrame

    from agentgym_rl.eval.comparison.compare import Comparison


@dataclass(frozen=True, repr=False)
class RunComparison:
    """What ``agentgym-rl compare`` prints; a notebook shows its tables."""

    comparison: Comparison
    """All of it, as dataclasses."""
    begun: tuple[Path, ...] = ()
    """Runs that are left out, as they have learnt nothing yet."""
    damaged: tuple[str, ...] = ()
    """What is wrong with runs that are left out because they cannot be read."""

    @property
    def table(self) -> DataFrame:
        """A row for each arm and panel (``success``), difference and reference policy: success in percent, differences
        in points; needs pandas (extra ``data``)."""
        from agentgym_rl.eval.comparison.rows import FIELDS, rows

        return frame(rows(self.comparison), FIELDS)

    @property
    def latex(self) -> str:
        """The tables, each a ``tabular`` for the package booktabs."""
        from agentgym_rl.eval.comparison.forms import latex
        from agentgym_rl.eval.comparison.tables import tables

        return latex(tables(self.comparison), self._remarks)

    @property
    def markdown(self) -> str:
        """The tables as Markdown."""
        from agentgym_rl.eval.comparison.forms import markdown
        from agentgym_rl.eval.comparison.tables import tables

        return markdown(tables(self.comparison), self._remarks)

    def write_page(self, path: str | Path) -> Path:
        """Write one HTML page with the tables and the curves."""
        from agentgym_rl.eval.comparison.page import write_page

        return write_page(self.comparison, Path(path))

    @property
    def _remarks(self) -> list[str]:
        from agentgym_rl.eval.comparison.tables import remarks, training

        return [*remarks(self.comparison), *training(self.comparison, self.begun, self.damaged)]

    def __repr__(self) -> str:
        from rich.console import Console

        from agentgym_rl.eval.comparison.forms import Screen
        from agentgym_rl.eval.comparison.tables import tables

        screen = Console(width=100, file=StringIO(), emoji=False)
        shown = *map(Screen, tables(self.comparison)), *self._remarks
        screen.print(*shown, sep="\n", highlight=False, markup=False)
        text: str = screen.file.getvalue()  # type: ignore[attr-defined]
        return text.rstrip()

    def _repr_markdown_(self) -> str:
        return self.markdown


def compare(
    *runs: str | Path, baseline: str | None = None, decoding: str = "sampled", arms: str = "short"
) -> RunComparison:
    """Compare runs, as ``agentgym-rl compare`` does.

        compare("runs/demo-*").table
        compare("runs/a", "runs/b", arms="run", baseline="a")

    Args:
        runs: folders of runs, finished or not, folders of runs, or globs of them.
        baseline: the arm that every arm is compared with; None takes cloning, by the same runs.
        decoding: ``sampled`` or ``greedy``.
        arms: ``short``, ``keys`` or ``run``, see :data:`agentgym_rl.eval.comparison.arms.NAMINGS`.

    Raises:
        FileNotFoundError: a place is or holds no run that can be compared.
        ValueError: the runs cannot be compared, or there is no such arm, decoding or naming.
        MissingExtra: a package is not installed.
    """
    with needs("comparing", "train"):
        from agentgym_rl.eval.comparison.compare import compare as compared
        from agentgym_rl.eval.comparison.runs import read_all
    whole, begun, damaged = read_all([str(run) for run in runs])
    return RunComparison(compared(whole, decoding, baseline, arms), tuple(begun), tuple(damaged))
