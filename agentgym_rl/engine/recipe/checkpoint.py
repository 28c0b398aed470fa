"""Checkpoints of runs, by the places that stand for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.algorithms.bc import Cloning
from agentgym_rl.algorithms.control import Control
from agentgym_rl.algorithms.model import POLICY
from agentgym_rl.data.files import read_jsonl
from agentgym_rl.envs.tables import json_object
from agentgym_rl.eval.evaluation.rules import read_config

ACTOR = "actor"
PROMPTS = "prompts.json"
"""In a checkpoint whose policy reads something before the first observation: the texts, by environment."""
_STEP = re.compile(r"global_step_(\d+)")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights of a run at a step."""

    run: Path
    folder: Path
    """``global_step_N``, in the run or in the cache of cloned weights."""
    step: int
    now: Mapping[str, str] | None = None
    """The prompts that go with it in the run's state, which may have other ones since."""

    @property
    def prompts(self) -> Mapping[str, str]:
        """What the policy reads before the first observation, by environment."""
        file = self.folder / PROMPTS
        return self.now if self.now is not None else json_object(file) if file.is_file() else {}

    def __str__(self) -> str:
        return f"{self.run} at step {self.step}"


def place_of(checkpoint: Path, model: str) -> Path:
    """Where a checkpoint of a run has a model that learns."""
    return checkpoint / (ACTOR if model == POLICY else f"models/{model}")


def numbered(run: Path) -> list[Path]:
    """The checkpoints of a run by their steps, without copies that somebody made, such as ``global_step_3.bak``."""
    found = ((_STEP.fullmatch(folder.name), folder) for folder in (run / "checkpoints").glob("global_step_*"))
    return [folder for _, folder in sorted((int(match[1]), folder) for match, folder in found if match)]


def find(place: str, step: int | None = None) -> Checkpoint:
    """The checkpoint that a place stands for.

    Args:
        place: the folder of a run, for the weights its algorithm led to; ``<run>:<stage>`` for those at the end of a
            stage (bc, control, ...); or ``<run>/checkpoints/global_step_N``.
        step: of a run, the weights of this global step.

    Raises:
        FileNotFoundError: there is no such run or checkpoint; names those there are.
        ValueError: the run has no such stage, or the place names a step, too.
    """
    folder = Path(place)
    match, of_stage = _STEP.fullmatch(folder.name), not folder.exists() and ":" in place
    if step is not None and (match or of_stage):
        raise ValueError(f"{place} names its step; leave out the step {step}, or give the folder of the run")
    if match is not None:
        return _checked(Checkpoint(folder.parent.parent, folder, int(match[1])))
    if of_stage:
        name, _, stage = place.rpartition(":")
        return _of_stage(Path(name), stage)
    read_config(folder)
    if step is not None:
        return _checked(Checkpoint(folder, folder / "checkpoints" / f"global_step_{step}", step))
    state = _state(folder)
    if Control.stage in _stages(folder):  # trained on after the algorithm, from where cloning ended
        state = state["learnt"]
    weights, prompts = folder / "checkpoints" / state["checkpoint"], state.get("prompts")
    return _checked(Checkpoint(folder, weights, int(state["global_step"]), prompts))


def is_run(place: str) -> bool:
    """True if a place is that of a run, of a stage of one, or of a checkpoint."""
    folder = Path(place)
    run = Path(place.rpartition(":")[0]) if not folder.exists() and ":" in place else folder
    return (run / "config.yaml").is_file() or (folder / ACTOR / "fsdp_config.json").is_file()


def _checked(checkpoint: Checkpoint) -> Checkpoint:
    if not (checkpoint.folder / ACTOR / "fsdp_config.json").is_file():
        there = [folder.name for folder in numbered(checkpoint.run)]
        raise FileNotFoundError(
            f"{checkpoint.folder} holds no checkpoint; {checkpoint.run} has {', '.join(there) or 'none'}"
        )
    return checkpoint


def _state(run: Path) -> Mapping[str, Any]:
    file = run / "state.json"
    state: dict[str, Any] = json_object(file) if file.is_file() else {}
    if not state.get("checkpoint"):
        raise FileNotFoundError(f"{run} has no checkpoint yet; a run saves one at the end of each stage")
    return state


def _stages(run: Path) -> dict[str, int]:
    """The last global step of each stage of a run."""
    last_steps: dict[str, int] = {}
    for row in read_jsonl(run / "metrics.jsonl", torn_end=True):
        last_steps |= {key.removeprefix("stage/"): int(row["step"]) for key in row if key.startswith("stage/")}
    return last_steps


def _of_stage(run: Path, stage: str) -> Checkpoint:
    read_config(run)
    stages = _stages(run)
    if stage not in stages:
        raise ValueError(f"{run} has no stage {stage!r}; it has {', '.join(stages) or 'none'}")
    state = json_object(file) if (file := run / "state.json").is_file() else {}
    ended = {result["name"]: result.get("checkpoint") for result in state.get("results", ())}
    folder = run / "checkpoints" / (ended.get(stage) or f"global_step_{stages[stage]}")  # that of a cache is absolute
    if stage == Cloning.stage and not folder.is_dir():  # of an earlier version, which did not note it
        origin = (state.get("learnt") or _state(run))["origin"]
        folder = run / "checkpoints" / (origin or folder.name)
    return _checked(Checkpoint(run, folder, stages[stage]))
