"""Experiments and algorithms in pairs, two steps each on the real engine. Selected with ``-m pairs``.

All runs share a tiny model and, but for PPO's critic, an engine. Three algorithms of an experiment are tried, and other
ones of the next, so that every algorithm is tried in several.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import fields
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("verl")

from agentgym_rl.algorithms.config import OnlineConfig
from agentgym_rl.engine.recipe import preflight
from agentgym_rl.engine.recipe.compose import RecipeError, load, options
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run import tiny
from agentgym_rl.engine.run.session import Session
from agentgym_rl.engine.run.train import train

pytestmark = [pytest.mark.pairs, pytest.mark.timeout(3600)]

ELSEWHERE = {
    "agentevol_7b": "demonstrations of the hub and a server of WebShop",
    "verl_agent_webshop": "WebShop's own products",
    "webarena_scaling_inter": "Chromium",
    "sciworld_scaling_inter": "Java",
    "textcraft_one_gpu": "a GPU's memory",
}
"""Experiments that need something beside this machine."""
TINY = {
    "verl_agent_alfworld": [
        "envs.alfworld.options={data: null, splits: agentgym, size: small}", "envs.alfworld.panels.test.split=test",
        "envs.alfworld.panels.valid_seen.split=test",
    ]
}  # fmt: skip
"""Generated tasks in place of files."""
ALGORITHMS = [name for name in options("algorithm") if name != "ppo"] + ["ppo"]
EXPERIMENTS = [name for name in options("experiment") if name not in ELSEWHERE]


def pairs() -> Iterator[tuple[str, str]]:
    """An algorithm after the other, so that one engine serves all but the last."""
    for place, algorithm in enumerate(ALGORITHMS):
        for number, experiment in enumerate(EXPERIMENTS):
            if (place - number) % len(ALGORITHMS) < 3:
                yield experiment, algorithm


def small(experiment: str, algorithm: str, folder: Path) -> list[str]:
    """Overrides that make a pair small: two steps of two tasks, two turns an episode."""
    words = [f"experiment={experiment}", f"algorithm={algorithm}", *TINY.get(experiment, [])]
    config = load(words)
    for env, own in config.envs.items():
        words += [f"envs.{env}.max_turns=2", f"envs.{env}.pool=4"]
        words += [f"envs.{env}.panels.{label}.n=1" for label in own.panels]
        words += [f"envs.{env}.demonstrations=2"] if own.demonstrations else []
    sizes = [one.name for one in fields(config.algorithm) if one.name.startswith("mini_batch")]
    words += [f"algorithm.{name}=2" for name in sizes]
    if isinstance(config.algorithm, OnlineConfig):
        words += ["algorithm.steps=2", "algorithm.tasks_per_step=2", "algorithm.samples_per_task=2"]
        words += ["curriculum=fixed", "run.control=false"]
        words += [f"envs.{env}.curriculum={{}}" for env, own in config.envs.items() if own.curriculum]
    if config.cloning.epochs:
        words += ["cloning.epochs=1", "cloning.mini_batch_trajectories=2", f"run.cache={folder}/cache"]
    return [
        *words, "model.prompt_tokens=3072", "model.response_tokens=96", "rollout.max_new_tokens=24",
        "engine=cpu", "engine.workers=1", "run.eval_every=0", "run.evaluate_untrained=false",
        "logger.wandb=disabled", f"run.dir={folder}/{experiment}-{algorithm}",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that reads every environment's text byte by byte, if need be."""
    run, home = Resolved(load(["experiment=smoke", "name=words"])), tmp_path_factory.mktemp("model") / "tiny"
    texts = asyncio.run(tiny.corpus(run, lambda *_: None))
    tiny.build(home, run.config.model, texts, 0)
    config = json.loads((home / "config.json").read_text()) | {"max_position_embeddings": 4096}
    (home / "config.json").write_text(json.dumps(config))
    return home


def test_a_covering_set_of_pairs_takes_two_steps(tmp_path: Path, model: Path) -> None:
    refused, out = {}, StringIO()
    with Session(several=True) as session:
        for experiment, algorithm in pairs():
            run = Resolved(load([*small(experiment, algorithm, tmp_path), f"model={model}"]))
            try:
                preflight.check_config(run)
            except RecipeError as error:
                refused[experiment, algorithm] = str(error)
                continue
            folder = train(run, Console(file=out, width=200), session)
            rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            steps = {row["run/episodes"] for row in rows if f"stage/{algorithm}" in row and row.get("run/episodes")}
            assert algorithm == "bc" or max(steps) == 8, (experiment, algorithm)
    assert all(algorithm in ("bc", "dpo") for _, algorithm in refused), refused
    assert out.getvalue().count("engine ready") <= 4, out.getvalue()
