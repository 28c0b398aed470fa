"""Runs, finished or not, read back from their folders."""

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.envs.core import MissingExtra
from agentgym_rl.envs.tables import json_object
from agentgym_rl.eval.evaluation.rules import flat, read_config
from agentgym_rl.eval.units import Row, evaluates, finite, is_finite
from agentgym_rl.eval.watching import Standing, begun, read_rows
from agentgym_rl.eval.watching import read as standing


@dataclass(frozen=True)
class Run:
    """A run, as its folder describes it."""

    folder: Path
    name: str
    algorithm: str
    seed: int
    stages: Mapping[str, dict[str, Any]]
    """By name, in order, as in ``summary.json``; the one that an unfinished run is in has no panels yet."""
    digests: Mapping[tuple[str, str], str]
    """Digest of each panel, by environment and panel; empty where an unfinished run does not say."""
    config: Mapping[str, Any]
    """The whole configuration under dotted keys."""
    reference: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Scores of the random policy and the oracle, by policy, panel and environment."""
    stage: str | None = None
    """What an unfinished run is doing; None if it is finished."""

    def is_validation(self, env: str, panel: str) -> bool:
        """Whether the run was evaluated on a panel while it trained, and may have chosen weights by it."""
        return self.config.get(f"envs.{env}.panels.{panel}.role") == "validation"

    @cached_property
    def metrics(self) -> list[Row]:
        """Finite values of ``metrics.jsonl``, by row; none where a finished run no longer has it."""
        return [*map(finite, read_rows(self.folder, torn_end=self.stage is not None))] if self.has_metrics else []

    @cached_property
    def units(self) -> list[Row]:
        """Those rows that are no evaluations."""
        return [row for row in self.metrics if not evaluates(row)]

    @property
    def has_metrics(self) -> bool:
        """Whether there is anything to draw curves of."""
        return begun(self.folder)

    @cached_property
    def tokens(self) -> dict[int, float] | None:
        """Prompt and response tokens of training episodes so far, by step; see :func:`tokens_by_step`."""
        return tokens_by_step(self.folder, self.metrics)


def trained(config: Mapping[str, Any]) -> list[str]:
    """Environments of a configuration that have a share of the training episodes."""
    envs = sorted({key.split(".")[1] for key in config if key.startswith("envs.")})
    return [env for env in envs if config.get(f"envs.{env}.share") != 0]


def read_all(places: Sequence[str]) -> tuple[list[Run], list[Path], list[str]]:
    """Runs with their metrics, folders of runs that have only begun, and what is wrong with those that are damaged.

    Args:
        places: each the folder of a run, a folder of runs, or a glob of either.

    Raises:
        FileNotFoundError: a place does not exist, or is or holds no run that can be compared.
        ValueError: a run that is a place of its own is damaged, or no run of a place is whole.
    """
    runs: dict[Path, Run] = {}
    only_begun: dict[Path, None] = {}
    damaged: dict[str, None] = {}
    for place in places:
        folders, inside = folders_of(place)
        whole: list[Run] = []
        faults: list[ValueError] = []
        for path in inside:
            try:
                run = read(path)
                _ = run.metrics  # they may be damaged
                whole.append(run)
            except FileNotFoundError:
                only_begun[path] = None
            except ValueError as error:
                faults.append(error)
        if not whole and (faults or len(folders) == 1):
            raise next(iter(faults), None) or FileNotFoundError(
                f"{folders[0]} is not the folder of a run that can be compared and holds none: no summary.json, and no "
                "metrics.jsonl and state.json; a run writes them with its first unit"
            )
        runs |= {run.folder.resolve(): run for run in whole}
        damaged |= dict.fromkeys(map(str, faults))
    return list(runs.values()), list(only_begun), list(damaged)


def folders_of(place: str) -> tuple[list[Path], list[Path]]:
    """The folders that a place means, and the runs among and in them.

    Args:
        place: the folder of a run, a folder of runs, or a glob of either.

    Raises:
        FileNotFoundError: it does not exist.
    """
    folders = [Path(place)] if Path(place).exists() else [Path(match) for match in sorted(glob.glob(place))]
    if not folders:
        raise FileNotFoundError(f"{place} does not exist; it is not the folder of a run, nor a glob of some")
    inside = [[folder] if is_run(folder) else sorted(filter(is_run, folder.glob("*"))) for folder in folders]
    return folders, [path for runs in inside for path in runs]


def is_run(folder: Path) -> bool:
    """Whether a run, finished or not, lives in a folder."""
    return (folder / "summary.json").is_file() or (folder / "config.yaml").is_file()


def read(folder: Path) -> Run:
    """Read a run; of one that is not finished, what it has written so far.

    Raises:
        FileNotFoundError: the folder lacks ``config.yaml``, or both ``summary.json`` and what stands in for it.
        ValueError: one of them is not what a run writes.
    """
    finished, going = (folder / "summary.json").is_file(), _going(folder)
    if not finished and going is None:
        raise FileNotFoundError(f"{folder / 'summary.json'} does not exist; {folder} has only begun, or is no run")
    config = read_config(folder)
    file = folder / ("summary.json" if finished else "state.json")
    content = json_object(file)
    try:
        summary = content if finished or going is None else _so_far(config, content, going)
        run = Run(
            folder=folder,
            name=summary["name"],
            algorithm=summary["algorithm"],
            seed=summary["seed"],
            stages={stage["name"]: stage for stage in summary["stages"]},
            digests={
                (env, label): digest for env, panels in summary["panels"].items() for label, digest in panels.items()
            },
            config=dict(flat(config)),
            reference=summary.get("reference", {}),
            stage=None if finished or going is None else going.stage,
        )
        _check_success(run, file)
    except KeyError as error:
        raise ValueError(f"{file} has no {error}; it was not written by this version") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{file} is not the summary of a run ({error})") from error
    return run


def _check_success(run: Run, file: Path) -> None:
    """Raises ValueError: the success of episodes that count is no finite number."""
    scores = (
        (f"{name} on {env} {label}", score)
        for name, stage in run.stages.items()
        for label, by_env in stage["panels"].items()
        for env, decodings in by_env.items()
        for score in decodings.values()
    )
    for of, score in scores:
        if score["n"] and not is_finite(score["success"]):
            raise ValueError(f"{file}: success of {of} is {score['success']}, not a finite number")


def _going(folder: Path) -> Standing | None:
    """Where a run stands by its newest metrics; None before its first unit."""
    if not (folder / "state.json").is_file() or not (folder / "metrics.jsonl").is_file():
        return None
    going = standing(folder)
    return None if going.stage is None else going


def _so_far(config: Mapping[str, Any], state: Mapping[str, Any], going: Standing) -> dict[str, Any]:
    """What the summary of an unfinished run would say now. The state is that of its newest checkpoint, and the units
    after that are counted by their metrics.
    """
    stage, ended = going.stage, [result["name"] for result in state["results"]]
    unit = going.units[-1] if going.units else {}
    spent = {
        name: state[f"stage_{name}"] + max(0, unit.get(f"run/{name}", 0) - state[name])
        for name in ("episodes", "wall_s")
    }
    return {
        "name": config["name"],
        "algorithm": config["algorithm"]["name"],
        "seed": config["seed"],
        "stages": [*state["results"], *([{"name": stage, "panels": {}, **spent}] if stage not in ended else [])],
        "panels": {env: dict.fromkeys(settings["panels"], "") for env, settings in config["envs"].items()},
    }


def tokens_by_step(folder: Path, rows: Sequence[Mapping[str, Any]]) -> dict[int, float] | None:
    """Tokens so far, by step: as logged, else counted from the stored episodes of each step.

    Args:
        rows: the run's metrics.

    Returns:
        None where they were not logged and cannot be counted: episodes are gone or damaged, carry no token counts, or
        pyarrow is not installed.
    """
    units = [row for row in rows if not evaluates(row)]
    if any("run/tokens" in row for row in units):
        return {row["step"]: row["run/tokens"] for row in units if "run/tokens" in row}
    training = [row["step"] for row in units if "curriculum/max_turns" in row]
    stored = _stored(folder) if training else {}
    spent = {step: stored.get(f"step{step:06d}", 0) for step in training}
    if not training or not all(spent.values()):
        return None
    steps = [row["step"] for row in units]
    return dict(zip(steps, accumulate(float(spent.get(step, 0)) for step in steps), strict=True))


def _stored(folder: Path) -> dict[str, int]:
    """Tokens of the episodes of each file; empty where there are none, or some cannot be read."""
    try:
        table = EpisodeStore(folder / "episodes").table
    except (FileNotFoundError, MissingExtra, ValueError):
        return {}
    sums = table.group_by("file").aggregate([("prompt_tokens", "sum"), ("response_tokens", "sum")])
    return {row["file"]: row["prompt_tokens_sum"] + row["response_tokens_sum"] for row in sums.to_pylist()}
