"""Experiments and algorithms in pairs, two steps each on the real engine. Selected with ``-m pairs``.

All take a tiny model. Three algorithms of an experiment share an engine, but for PPO's critic, and the next experiment
has others, so that every algorithm is tried in several.
"""

from __future__ import annotations

import asyncio
import json
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
    "early_experience_7b": "demonstrations of the hub and a server of WebShop",
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
    ],
    "frontier_maze": ["mixture=uniform"],
    "frontier_textcraft": ["mixture=uniform"],
}  # fmt: skip
"""Generated tasks in place of files; no mixture whose settings an oracle solves, which two turns are too few for."""
ALGORITHMS = [name for name in options("algorithm") if name != "ppo"] + ["ppo"]
EXPERIMENTS = [name for name in options("experiment") if name not in ELSEWHERE]


def tried(experiment: str) -> list[str]:
    """Three algorithms, others than the experiment before tries; PPO last, whose critic needs an engine of its own."""
    first = 3 * EXPERIMENTS.index(experiment)
    return sorted((ALGORITHMS[(first + place) % len(ALGORITHMS)] for place in range(3)), key=ALGORITHMS.index)


def small(experiment: str, algorithm: str, folder: Path) -> list[str]:
    """Overrides that make a pair small: two steps of two tasks, two turns an episode."""
    words = [f"experiment={experiment}", f"algorithm={algorithm}", *TINY.get(experiment, [])]
    config = load(words)
    words += ["model.train_layers=null"] if config.model.train_layers else []
    for env, own in config.envs.items():
        words += [f"envs.{env}.pool=4"]
        words += [f"envs.{env}.panels.{label}.n=1" for label in own.panels]
        # the oracle needs its turns where it demonstrates
        words += [f"envs.{env}.demonstrations=2" if own.demonstrations else f"envs.{env}.max_turns=2"]
    sizes = [key.name for key in fields(config.algorithm) if key.name.startswith("mini_batch")]
    words += [f"algorithm.{name}=2" for name in sizes]
    if isinstance(config.algorithm, OnlineConfig):
        words += ["algorithm.steps=2", "algorithm.tasks_per_step=2", "algorithm.samples_per_task=2"]
        words += ["curriculum=fixed", "run.control=false"]
        words += [f"envs.{env}.curriculum={{}}" for env, own in config.envs.items() if own.curriculum]
    if config.cloning.epochs:
        words += ["cloning.epochs=1", "cloning.mini_batch_trajectories=2", f"run.cache={folder}/cache"]
    return [
        *words, "model.prompt_tokens=2560", "model.response_tokens=1536", "rollout.max_new_tokens=24",
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


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_algorithms_of_an_experiment_take_two_steps_on_one_engine(experiment: str, tmp_path: Path, model: Path) -> None:
    out = StringIO()
    trained = []
    with Session(several=True) as session:
        for algorithm in tried(experiment):
            run = Resolved(load([*small(experiment, algorithm, tmp_path), f"model={model}"]))
            try:
                preflight.check_config(run)
            except RecipeError as error:
                assert algorithm in ("bc", "distill", "dpo", "early_experience", "istar"), error
                continue
            trained.append(algorithm)
            folder = train(run, Console(file=out, width=200), session)
            rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            played = [row["run/episodes"] for row in rows if f"stage/{algorithm}" in row]
            assert run.config.algorithm.online is None or max(played) == 8
    assert out.getvalue().count("engine ready") == 1 + ("ppo" in trained)
