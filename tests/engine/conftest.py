"""Recipes with toy worlds, and an environment that a run cannot change for good."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("verl")

from agentgym_rl.engine.recipe import compose as recipes

EXPERIMENT = """# @package _global_
defaults:
  - override /env: none
name: {name}
rollout: {{style: compact, turn_tokens: 24}}
worlds: {{{world}: {{experts: 3, panels: {{test: {{split: test, n: 4}}}}}}}}
model: {{vocabulary: 300, width: 16, layers: 1, heads: 1, kv_heads: 1, mlp: 16}}
bc: {{epochs: 1, batch: 4}}
algorithm: {{steps: 2, tasks: 4, samples: 2, minibatch: 4}}
logger: {{wandb: disabled}}
run: {{dir: {folder}}}
"""


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """A run sets variables for its workers in its own process."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def toy_recipes(toys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Experiments ``counter``, ``needy`` and ``countre`` (no such world); returns the folder their runs go to."""
    tree, folder = tmp_path / "recipes", tmp_path / "run"
    shutil.copytree(recipes.recipes_dir(), tree)
    for world in ("counter", "needy", "countre"):
        text = EXPERIMENT.format(name=world, world=world, folder=folder)
        tree.joinpath("experiment", f"{world}.yaml").write_text(text)
    monkeypatch.setattr(recipes, "recipes_dir", lambda: tree)
    return folder


@pytest.fixture(autouse=True)
def no_ray(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fast tests look for is found before Ray starts."""
    if request.node.get_closest_marker("e2e"):
        return
    import ray

    def started(*_: object, **__: object) -> None:
        pytest.fail("Ray was started")

    monkeypatch.setattr(ray, "init", started)
