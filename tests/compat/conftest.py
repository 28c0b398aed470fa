"""An environment of Gymnasium, installed as one of ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym_rl.envs import registry


@pytest.fixture
def guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The environment that ``gym_guess.py`` takes from Gymnasium, installed for this process and its children."""
    info = tmp_path / "site" / "gym_guess-1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: gym-guess\nVersion: 1.0\n")
    info.joinpath("entry_points.txt").write_text("[agentgym_rl.envs]\ngymguess = gym_guess:Guess\n")
    paths = [str(tmp_path / "site"), str(Path(__file__).parent)]
    for path in paths:
        monkeypatch.syspath_prepend(path)
    inherited = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [*paths, inherited])))
    registry.read_points.cache_clear()
    yield "gymguess"
    registry.read_points.cache_clear()
