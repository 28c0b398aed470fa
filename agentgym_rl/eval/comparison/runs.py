"""Finished runs, read back from their folders."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.data.files import read_jsonl
from agentgym_rl.envs.core import MissingExtra
from agentgym_rl.envs.tables import json_object
from agentgym_rl.eval.evaluation.rules import flat, read_config


@dataclass(frozen=True)
class Run:
    """A finished run, as its folder describes it."""

    folder: Path
    name: str
    algorithm: str
    seed: int
    stages: Mapping[str, dict[str, Any]]
    """By name, in order, as in ``summary.json``."""
    digests: Mapping[tuple[str, str], str]
    """Digest of each panel, by environment and panel."""
    config: Mapping[str, Any]
    """The whole configuration under dotted keys."""
    reference: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Scores of the random policy and the oracle, by policy, panel and environment."""

    def is_validation(self, env: str, panel: str) -> bool:
        """Whether the run was evaluated on a panel while it trained, and may have chosen weights by it."""
        return self.config.get(f"envs.{env}.panels.{panel}.role") == "validation"

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """Rows of ``metrics.jsonl``."""
        rows = read_jsonl(self.folder / "metrics.jsonl")
        return [{name.replace("/horizon", "/max_turns"): value for name, value in row.items()} for row in rows]

    @cached_property
    def tokens(self) -> dict[int, float] | None:
        """Prompt and response tokens of training episodes so far, by step; see :func:`tokens_by_step`."""
        return tokens_by_step(self.folder, self.metrics)


def find(places: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """Folders of finished runs, and of unfinished ones that were met on the way.

    Args:
        places: each the folder of a run, a folder of runs, or a glob of either.

    Raises:
        FileNotFoundError: a place does not exist, or is or holds no finished run.
    """
    finished: list[Path] = []
    unfinished: list[Path] = []
    for place in places:
        folders = [Path(place)] if Path(place).exists() else [Path(match) for match in sorted(glob.glob(place))]
        if not folders:
            raise FileNotFoundError(
                f"{place} does not exist; it is not the folder of a finished run, nor a glob of some"
            )
        for folder in folders:
            inside = [folder] if is_run(folder) else sorted(path for path in folder.glob("*") if is_run(path))
            done = [path for path in inside if (path / "summary.json").is_file()]
            if not done and len(folders) == 1:
                raise FileNotFoundError(
                    f"{folder} is not the folder of a finished run and holds none: no summary.json; "
                    "the command that started a run finishes it"
                )
            finished += done
            unfinished += [path for path in inside if path not in done]
    unique = {path.resolve(): path for path in finished}
    return list(unique.values()), unfinished


def is_run(folder: Path) -> bool:
    """Whether a run, finished or not, lives in a folder."""
    return (folder / "summary.json").is_file() or (folder / "config.yaml").is_file()


def read(folder: Path) -> Run:
    """Read a finished run.

    Raises:
        FileNotFoundError: the folder lacks ``summary.json`` or ``config.yaml``.
        ValueError: one of them is not what a run writes.
    """
    file = folder / "summary.json"
    if not file.is_file():
        raise FileNotFoundError(f"{file} does not exist; {folder} is not the folder of a finished run")
    config = read_config(folder)
    try:
        summary = json_object(file)
        return Run(
            folder=folder,
            name=summary["name"],
            algorithm=summary["algorithm"],
            seed=summary["seed"],
            stages={stage["name"]: stage for stage in summary["stages"]},
            digests={(env, label): digest for env, own in summary["panels"].items() for label, digest in own.items()},
            config=dict(flat(config)),
            reference=summary.get("reference", {}),
        )
    except KeyError as error:
        raise ValueError(f"{file} has no {error}; it was not written by this version") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{file} is not the summary of a run ({error})") from error


def tokens_by_step(folder: Path, rows: Sequence[Mapping[str, Any]]) -> dict[int, float] | None:
    """Tokens so far, by step: as logged, else counted from the stored episodes of each step.

    Args:
        rows: the run's metrics.

    Returns:
        None where they were not logged and cannot be counted: episodes are gone, carry no token counts, or pyarrow is
        not installed.
    """
    units = [row for row in rows if not any(name.startswith("val/") for name in row)]
    if any("run/tokens" in row for row in units):
        return {row["step"]: row["run/tokens"] for row in units if "run/tokens" in row}
    trained = [row["step"] for row in units if "curriculum/max_turns" in row]  # steps with training episodes
    stored = _stored(folder) if trained else {}
    spent = {step: stored.get(f"step{step:06d}", 0) for step in trained}
    if not trained or not all(spent.values()):
        return None
    steps = [row["step"] for row in units]
    return dict(zip(steps, accumulate(float(spent.get(step, 0)) for step in steps), strict=True))


def _stored(folder: Path) -> dict[str, int]:
    """Tokens of the episodes of each file; empty where there are none."""
    try:
        table = EpisodeStore(folder / "episodes").table
    except (FileNotFoundError, MissingExtra):
        return {}
    sums = table.group_by("file").aggregate([("prompt_tokens", "sum"), ("response_tokens", "sum")])
    return {row["file"]: row["prompt_tokens_sum"] + row["response_tokens_sum"] for row in sums.to_pylist()}
