"""Classes of other packages: one that is broken does not break the others."""

import logging
import sys
from importlib.metadata import EntryPoint

import pytest

from agentgym_rl.algorithms.base import Algorithm
from agentgym_rl.algorithms.installed import read


@pytest.fixture
def points(monkeypatch, tmp_path):
    """Takes the place of what is installed in the group ``made``."""
    (tmp_path / "unfinished.py").write_text("def broken(:\n")
    (tmp_path / "angry.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    values = {"bc": "agentgym_rl.algorithms.bc:BC", "gone": "nowhere:Gone", "syntax": "unfinished:A",
              "angry": "angry:A", "number": "math:pi"}  # fmt: skip
    made = [EntryPoint(name, value, "made") for name, value in values.items()]
    monkeypatch.setattr(sys.modules[read.__module__], "entry_points", lambda group: made)
    read.cache_clear()
    yield made
    read.cache_clear()


def test_what_cannot_be_used_is_left_out_with_one_warning(points, caplog):
    with caplog.at_level(logging.WARNING):
        reads = [read("made", Algorithm) for _ in range(2)]
    assert set(reads[0].classes) == {"bc"} and reads[0] is reads[1]
    assert {name: why.partition(": ")[2] for name, why in reads[0].broken.items() if name != "number"} == {
        "gone": "ModuleNotFoundError: No module named 'nowhere'",
        "syntax": "SyntaxError: invalid syntax (unfinished.py, line 1)",
        "angry": "RuntimeError: no licence",
    }
    assert reads[0].broken["number"] == "its entry point math:pi is no subclass of Algorithm"
    assert len(caplog.records) == 4
    assert "made 'gone' is left out: its entry point nowhere:Gone cannot be loaded" in caplog.text


def test_two_of_one_name_are_refused(points):
    points.append(EntryPoint("bc", "theirs:BC", "made"))
    with pytest.raises(ValueError, match="entry point theirs:BC: made has 'bc' already; rename yours"):
        read("made", Algorithm)
