"""Settings of environments that a mixture makes (``mixture=frontier``): success with each, over the knobs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_rl.envs.knobs import Setting
from agentgym_rl.envs.tables import json_object
from agentgym_rl.eval.html.chart import Chart, Line
from agentgym_rl.eval.training.curves import Measure

MOST = 60
"""Rows of the table."""


@dataclass(frozen=True, slots=True)
class Played:
    """A setting that a run plays or played."""

    name: str
    """Of the part of the environment, as in its episodes."""
    env: str
    knobs: Mapping[str, Setting]
    born: int
    """Steps before its birth."""
    died: int | None
    """Steps before it left; None while it lives."""
    parents: Sequence[str]
    episodes: int
    success: float
    """Estimated, in percent."""

    @property
    def label(self) -> str:
        return " · ".join(f"{knob} {value}" for knob, value in self.knobs.items())

    @property
    def life(self) -> str:
        return f"from {self.born}" if self.died is None else f"{self.born} to {self.died}"


def played(folder: Path) -> list[Played]:
    """The settings of a run by birth; none where its mixture makes none.

    Raises:
        ValueError: ``state.json`` cannot be read.
    """
    file = folder / "state.json"
    state = json_object(file) if file.is_file() else {}
    try:
        shares = (state.get("mixture") or {}).get("shares") or {}
        return [
            Played(each["name"], each["env"], each["settings"], each["born"], each["died"], each["parents"],
                   each["episodes"], 100 * each["estimate"])
            for each in shares.get("individuals", ())
        ]  # fmt: skip
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is not what this version writes ({type(error).__name__}: {error})") from error


def rows(settings: Sequence[Played]) -> list[Played]:
    """The newest :data:`MOST`; those that live first, and the most successful first; those without episodes last."""
    newest = sorted(settings, key=lambda each: (each.died is None, each.born), reverse=True)[:MOST]
    return sorted(newest, key=lambda each: (each.died is not None, not each.episodes, -each.success))


def setting_charts(settings: Sequence[Played], axes: Sequence[str]) -> Iterator[tuple[Measure, Chart]]:
    """A chart for each knob that moves of each environment, the same against every axis of the page."""
    for env in dict.fromkeys(each.env for each in settings):
        of_env = [each for each in settings if each.env == env and each.episodes]
        for knob in dict.fromkeys(knob for each in of_env for knob in each.knobs):
            values = sorted({each.knobs[knob] for each in of_env}, key=lambda value: (isinstance(value, str), value))
            if len(values) < 2:
                continue
            placed = [*zip(_places([values.index(each.knobs[knob]) for each in of_env]), of_env, strict=True)]
            lines = [
                Line(
                    label, colour, {axis: [x for x, _ in shown] for axis in axes},
                    [each.success for _, each in shown], [_says(each) for _, each in shown], hollow=gone, loose=True,
                )
                for label, colour, gone in (("left", "grey", True), ("lives", "blue", False))
                if (shown := [(x, each) for x, each in placed if (each.died is not None) == gone])
            ]  # fmt: skip
            title = f"{env}: success by {knob}"
            yield (
                Measure(title, (), "of each setting, estimated; filled: it lives, hollow: it left"),
                Chart(title, dict.fromkeys(axes, knob), lines, 100.0, width=560, height=260, y_label="%",
                      names=[str(value) for value in values], references={"half": 50.0}),
            )  # fmt: skip


def _places(places: Sequence[int]) -> list[float]:
    """Those at the same place, side by side."""
    number, placed = Counter(places), Counter[int]()
    spread = []
    for place in places:
        placed[place] += 1
        spread.append(round(place + 0.7 * (placed[place] / (number[place] + 1) - 0.5), 3))
    return spread


def _says(each: Played) -> str:
    return f"{each.label}: {each.success:.0f}% of {each.episodes} episodes, steps {each.life}"
