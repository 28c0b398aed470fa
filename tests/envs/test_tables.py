"""Tables of environments: what a file may hold, and the errors that name file and entry."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from agentgym_rl.envs.tables import load


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0
    label: str | None = None

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(f"x is {self.x}; it is 0 or more")


@dataclass(frozen=True, slots=True)
class Chart:
    points: tuple[Point, ...]
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sides: dict[Literal["left", "right"], int] = field(default_factory=dict)


def chart(folder: Path, text: str) -> Chart:
    path = folder / "chart.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, Chart)


def test_a_file_becomes_dataclasses(tmp_path: Path) -> None:
    text = 'points = [{x = 1}, {x = 2, y = 3, label = "b"}]\nwords.a = ["b", "c"]'
    assert chart(tmp_path, text) == Chart((Point(1), Point(2, 3, "b")), {"a": ("b", "c")})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("points = [", "chart.toml: not TOML ("),
        ("", "chart.toml: key 'points' is missing"),
        ("points = []\npiont = 1", "chart.toml: unknown key 'piont'; the keys are points, words, sides"),
        ("points = [{x = 1}, {y = 1}]", "chart.toml > points > 1: key 'x' is missing"),
        ("points = [{x = '1'}]", "chart.toml > points > 0 > x: expected int, found '1'"),
        ("points = [{x = true}]", "chart.toml > points > 0 > x: expected int, found True"),
        ("points = [{x = 1, label = 2}]", "chart.toml > points > 0 > label: expected str, found 2"),
        ("points = [3]", "chart.toml > points > 0: expected Point, found 3"),
        ("points = {}", "chart.toml > points: expected tuple["),
        ("points = []\nwords.a = [1]", "chart.toml > words > a > 0: expected str, found 1"),
        ("points = []\nsides.left = 1", "chart.toml > sides: expected the keys left, right, found left"),
        ("points = [{x = -1}]", "chart.toml > points > 0: x is -1; it is 0 or more"),
    ],
)
def test_a_fault_is_named_with_file_and_entry(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fault)):
        chart(tmp_path, text)
