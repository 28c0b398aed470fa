"""What runs share in ``run.cache``, begun by two at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym_rl.data.files import write_text
from agentgym_rl.engine.recipe.config import TinyModelConfig
from agentgym_rl.engine.run import tiny
from agentgym_rl.engine.run.cache import ClonedCache

SHAPE = TinyModelConfig(vocabulary=300, width=16, layers=1, heads=1, kv_heads=1, mlp=16)


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Calls something in two threads that stand for processes: each has an id of its own."""

    def call(function: Any) -> list[Any]:
        with ThreadPoolExecutor(2) as pool:
            return [future.result() for future in [pool.submit(function) for _ in range(2)]]

    monkeypatch.setattr(os, "getpid", threading.get_ident)
    return call


def test_two_runs_build_the_same_tiny_model(tmp_path: Path, together: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    both, writing = threading.Barrier(2), tiny.writing

    @contextmanager
    def written_by_both(folder: Path) -> Iterator[None]:
        both.wait(60)
        with writing(folder):
            yield
        both.wait(60)

    monkeypatch.setattr(tiny, "writing", written_by_both)
    home = tmp_path / "cache" / "model-0123"
    built = together(lambda: tiny.build(home, SHAPE, ["go left", "go right"] * 50, seed=0))
    assert built == [home, home]
    assert [path.name for path in home.parent.iterdir()] == [home.name], "no copy is left beside it"


def test_two_runs_keep_the_same_cloned_weights(tmp_path: Path, together: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path / "run" / "checkpoints" / "global_step_1" / "weights", "w")
    write_text(tmp_path / "run" / "metrics.jsonl", '{"step": 1, "stage/bc": 1}\n')
    state = SimpleNamespace(checkpoint="global_step_1", global_step=1, best=None, results=[{"wall_s": 1.0}])
    run: Any = SimpleNamespace(
        state=state, config=SimpleNamespace(name="a"), log=SimpleNamespace(path=tmp_path / "run" / "metrics.jsonl"),
        folder=SimpleNamespace(checkpoints=tmp_path / "run" / "checkpoints"),
    )  # fmt: skip
    both, is_dir = threading.Barrier(2), Path.is_dir

    def seen_by_both(path: Path) -> bool:
        there = is_dir(path)
        if path.name == "cloned-0123" and not there:
            both.wait(60)
        return there

    monkeypatch.setattr(Path, "is_dir", seen_by_both)
    together(lambda: ClonedCache(tmp_path / "cache", "0123").keep(run))
    (kept,) = (tmp_path / "cache").iterdir()
    assert (kept / "checkpoint" / "weights").read_text() == "w" and (kept / "facts.json").is_file()


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        tiny.build(tmp_path / "model", SHAPE, ["go left", "go right"] * 50, seed=0)
