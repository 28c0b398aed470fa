"""Recipes with toy environments, and an environment that a run cannot change for good."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("verl")

from agentgym_rl.algorithms import algorithms
from agentgym_rl.algorithms.config import AlgorithmConfig, OnlineConfig
from agentgym_rl.engine.recipe import compose as recipes

EXPERIMENT = """# @package _global_
defaults:
  - override /env: none
  - override /model: toy
name: {name}
rollout: {{style: compact, max_new_tokens: 24}}
envs: {{{env}: {{demonstrations: 3, panels: {{test: {{split: test, n: 4}}}}}}}}
cloning: {{epochs: 1, mini_batch_trajectories: 4}}
logger: {{wandb: disabled}}
run: {{dir: '${{oc.env:TOY_RUN}}'}}
"""
MODEL = """
defaults: [tiny]
vocabulary: 300
width: 16
layers: 1
heads: 1
kv_heads: 1
mlp: 16
"""


def tuned(algorithm: type[AlgorithmConfig]) -> str:
    """Settings of an algorithm in an experiment with a toy environment."""
    keys = {"steps": 2, "tasks_per_step": 4, "samples_per_task": 2}
    keys |= {key.name: 4 for key in fields(algorithm) if key.name.startswith("mini_batch")}
    return "\n".join(["# @package algorithm", *(f"{key}: {value}" for key, value in keys.items())])


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """A run sets variables for its workers in its own process."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def toy_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our recipes, with experiments with toys and with ``countre``, which is no environment."""
    tree = tmp_path_factory.mktemp("toys") / "recipes"
    shutil.copytree(recipes.recipes_dir(), tree)
    tree.joinpath("model", "toy.yaml").write_text(MODEL)
    for env in ("counter", "repeating", "needy", "countre"):
        text = EXPERIMENT.format(name=env, env=env)
        tree.joinpath("experiment", f"{env}.yaml").write_text(text)
        for name, algorithm in algorithms().items():
            if issubclass(algorithm.Config, OnlineConfig):
                tree.joinpath("tuned", f"{env}_{name}.yaml").write_text(tuned(algorithm.Config))
    return tree


@pytest.fixture
def toy_recipes(toy_tree: Path, toys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Recipes with toys; returns the folder their runs go to."""
    monkeypatch.setattr(recipes, "recipes_dir", lambda: toy_tree)
    monkeypatch.setenv("TOY_RUN", str(tmp_path / "run"))
    return tmp_path / "run"


@pytest.fixture(autouse=True)
def no_ray(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fast tests look for is found before Ray starts."""
    if any(map(request.node.get_closest_marker, ("e2e", "pairs"))):
        return
    import ray

    def started(*_: object, **__: object) -> None:
        pytest.fail("Ray was started")

    monkeypatch.setattr(ray, "init", started)
