"""The same seed draws the same tasks, with the same shares of environments and the same turn limits.

Mixture and curriculum of a recipe run for some steps on made-up outcomes, without an engine. Shares and turn limits are
compared as numbers, drawn tasks with their numbers of samples as a digest. To renew the committed values after a change
that is meant to change them::

    python tests/engine/test_same_draws.py                # shows what differs, writes nothing
    python tests/engine/test_same_draws.py --overwrite    # writes recorded/draws.json
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("VERL_PLATFORM", "cpu")
pytest.importorskip("verl")

from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.resolved import Resolved

VALUES = Path(__file__).parent / "recorded" / "draws.json"

# What is drawn from, in the words of a recipe. Renamed keys are renamed here and nowhere else.

COMMON = ("experiment=smoke", "+env=maze", "envs.textcraft.split=train", "seed=3")
"""Two environments, with 480 mazes and more recipes."""

UNEQUAL = ("envs.maze.share=2",)
"""Shares, for what reads them."""

MIXTURES: dict[str, tuple[str, ...]] = {
    "uniform": ("mixture=uniform",),
    "fixed": ("mixture=fixed", *UNEQUAL),
    "proportional": ("mixture=proportional",),
    "dynamic": ("mixture=dynamic", *UNEQUAL),
    "dynamic_by_failure": ("mixture=dynamic", "mixture.value=failure", "mixture.temperature=0.5",
                           "mixture.smoothing=0.5", *UNEQUAL),
    "dynamic_by_progress": ("mixture=dynamic", "mixture.value=progress", "mixture.smoothing=0", *UNEQUAL),
    "fixed_by_task": ("mixture=fixed", "mixture.tasks=task", "mixture.max_samples=8", "envs.maze.pool=20",
                      "envs.textcraft.pool=20", *UNEQUAL),
    "dynamic_by_difficulty": ("mixture=dynamic", "mixture.tasks=difficulty", *UNEQUAL),
}  # fmt: skip

CURRICULA: dict[str, tuple[str, ...]] = {
    "fixed": ("curriculum=fixed", "curriculum.rounds=[7]"),
    "own_limits": ("curriculum=fixed",),
    "stepwise": ("curriculum=stepwise", "curriculum.rounds=[4,8,12]", "curriculum.steps=3"),
    "linear": ("curriculum=linear", "curriculum.rounds=[4,11,30]", "curriculum.steps=4"),
    "success_gated": ("curriculum=success_gated", "curriculum.rounds=[4,8,12]", "curriculum.threshold=0.6",
                      "curriculum.patience=3"),
    "success_gated_by_patience": ("curriculum=success_gated", "curriculum.rounds=[4,8,12]", "curriculum.threshold=1.0",
                                  "curriculum.patience=2"),
    "of_one_environment": ("curriculum=stepwise", "curriculum.steps=2", "envs.maze.curriculum.rounds=[2,3,4]"),
}  # fmt: skip

STEPS, TASKS, SAMPLES = 12, 13, 4


def run(overrides: Sequence[str]) -> list[dict[str, Any]]:
    """What a run with these overrides draws at each of its steps."""
    config = recipes.load([*COMMON, *overrides])
    run = Resolved(config)
    mixture, curriculum = run.mixture, run.curriculum
    steps = []
    for step in range(1, STEPS + 1):
        drawn = [(str(draw.task), draw.samples) for draw in mixture.draw(step, TASKS, SAMPLES)]
        limits = {env: curriculum.max_turns(env, step) for env in config.envs}
        shares = {name: value for name, value in mixture.metrics().items() if name.endswith("/share")}
        steps.append({"tasks": digest(drawn), "first": drawn[0][0], "turn_limits": limits, "shares": shares})
        episodes = list(outcomes(drawn, step))
        mixture.observe(episodes)
        curriculum.observe(episodes)
    return steps


def outcomes(drawn: Sequence[tuple[str, int]], step: int) -> Iterator[Episode]:
    """Made-up episodes: more of them succeed as steps go by, some fail outside the agent."""
    for item, samples in drawn:
        for sample in range(samples):
            chance = int(digest([item, step, sample]), 16) / 16**12
            env = item.partition("_")[0]
            ending = Ending.ENV_ERROR if chance > 0.95 else Ending.TERMINATED
            solved = ending is Ending.TERMINATED and chance < step / STEPS * {"maze": 0.9, "textcraft": 0.6}[env]
            yield Episode(env=env, item_id=item, ending=ending, reward=float(solved), success=solved, max_turns=8)


def digest(content: Any) -> str:
    """First 12 hex digits over some JSON."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


def differences(name: str, old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[str]:
    """What differs between two results, one line each."""
    lines = []
    for number, (before, after) in enumerate(zip(old, new, strict=True), start=1):
        place = f"{name}, step {number}"
        for env, limit in before["turn_limits"].items():
            if after["turn_limits"].get(env) != limit:
                lines.append(f"{place}, turn limit of {env}: was {limit}, is {after['turn_limits'].get(env)}")
        for key, share in before["shares"].items():
            if not math.isclose(share, after["shares"].get(key, math.nan), rel_tol=1e-9):
                lines.append(f"{place}, {key}: was {share}, is {after['shares'].get(key)}")
        if before["tasks"] != after["tasks"]:
            lines.append(f"{place}, drawn tasks: others (the first was {before['first']}, is {after['first']})")
    return lines


def check(name: str, overrides: Sequence[str]) -> None:
    lines = differences(name, json.loads(VALUES.read_text())[name], run(overrides))
    assert not lines, "\n".join([f"{len(lines)} values differ", *lines])


@pytest.mark.parametrize("name", MIXTURES)
def test_a_mixture_draws_the_same_tasks(name: str) -> None:
    check(f"mixture {name}", MIXTURES[name])


@pytest.mark.parametrize("name", CURRICULA)
def test_a_curriculum_sets_the_same_turn_limits(name: str) -> None:
    check(f"curriculum {name}", (*UNEQUAL, *CURRICULA[name]))


def renew(overwrite: bool) -> int:
    """Print what differs from the committed values, and write them if asked to; returns the exit status."""
    old = json.loads(VALUES.read_text()) if VALUES.is_file() else {}
    new = {f"mixture {name}": run(overrides) for name, overrides in MIXTURES.items()}
    new |= {f"curriculum {name}": run((*UNEQUAL, *overrides)) for name, overrides in CURRICULA.items()}
    lines = [
        line for name in new for line in (differences(name, old[name], new[name]) if name in old else [f"{name}: new"])
    ]
    print("\n".join(lines) or "nothing differs")
    if not lines:
        return 0
    if not overwrite:
        print(f"\n{VALUES} is as it was; --overwrite writes these values")
        return 1
    VALUES.write_text(json.dumps(new, indent=1, sort_keys=True) + "\n")
    print(f"\n{VALUES} written")
    return 0


if __name__ == "__main__":
    sys.exit(renew("--overwrite" in sys.argv[1:]))
