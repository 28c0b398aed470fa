"""The folder of a run: configuration, state, metrics, episodes, summary."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentgym_rl.algorithms.base import Weights
from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.files import shards, write_text
from agentgym_rl.rollout import recorder
from agentgym_rl.rollout.recorder import WriteShards


class RunFolderError(ValueError):
    """The folder cannot be used for this run; the message gives the reason and the fix."""


class Interrupted(Exception):
    """The user asked to stop; the state is saved."""


KEPT = ("stage", "global_step", "checkpoint", "origin", "updates", "algorithm")
"""What of a state is noted at the end of the algorithm's stage."""


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
    """The end of the algorithm's stage: what the control repeats, and where a run with more steps goes on."""
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
    parser_faults: int = 0
    """Responses that a parser failed on, in training and evaluation (:attr:`Turn.fault`)."""
    wall_s: float = 0.0
    stage_wall_s: float = 0.0
    stage_episodes: int = 0
    results: list[dict[str, Any]] = field(default_factory=list)
    """Finished stages, as in ``summary.json``."""

    def end_of_algorithm(self, units: int) -> None:
        """Note the end of the algorithm's stage."""
        self.learnt = {"units": units, **{name: getattr(self, name) for name in KEPT}}

    def extend(self, units: int) -> bool:
        """Go back to the end of the algorithm's stage if it has more units now; whether it does."""
        learnt = self.learnt
        if learnt is None or self.stage <= learnt["stage"] or units <= learnt["units"]:
            return False
        for name in KEPT:
            setattr(self, name, learnt[name])
        self.unit, self.saved, self.fresh_optimizer = learnt["units"], True, False
        self.results = self.results[: self.stage]
        return True

    def spent(self) -> dict[str, float]:
        """Episodes, tokens and time of training so far, as metrics."""
        return {"run/episodes": self.episodes, "run/tokens": self.tokens, "run/wall_s": self.wall_s}


def writable(folder: Path) -> Path:
    """The folder, made if it is not there.

    Raises:
        RunFolderError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write_{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RunFolderError(
            f"run folder {folder} cannot be written: {error.strerror}; choose another run.dir"
        ) from error
    return folder


class RunFolder:
    """Everything a run writes; every file appears whole."""

    def __init__(self, folder: Path, identity: str, resume: bool, config: str | None = None) -> None:
        """Open or create the folder.

        Args:
            identity: the keys that make the run what it is; a resumed run has the same.
            config: the whole configuration, for the record; None leaves what is there.

        Raises:
            RunFolderError: it cannot be written, or holds a run that is not to be resumed or has another configuration.
        """
        self.path = writable(folder).resolve()
        self.resumed = (self.path / "state.json").is_file()
        known = self.path / "identity.yaml"
        if self.resumed and not resume:
            raise RunFolderError(
                f"{folder} already holds a run; set run.resume=true to continue it or choose another run.dir"
            )
        if self.resumed and not known.is_file():
            raise RunFolderError(
                f"{folder} holds a run of an earlier version; finish it there or choose another run.dir"
            )
        if self.resumed and (before := known.read_text()) != identity:
            old, new = before.splitlines(), identity.splitlines()
            changed = [line.strip() for line in new if line not in old][:5]
            raise RunFolderError(
                f"{folder} holds a run of another configuration (now: {'; '.join(changed) or 'fewer keys'}); "
                "use its settings to resume it, or choose another run.dir"
            )
        write_text(known, identity)
        if config is not None:
            write_text(self.path / "config.yaml", config)

    @property
    def finished(self) -> bool:
        """Whether the run is complete."""
        return (self.path / "summary.json").is_file()

    def reopen(self, state: State) -> None:
        """Go on with a complete run from an earlier state."""
        self.save_state(state)
        (self.path / "summary.json").unlink(missing_ok=True)

    # state

    def load_state(self) -> State:
        """The state saved last, or a fresh one."""
        file = self.path / "state.json"
        if not file.is_file():
            return State()
        state = State(**json.loads(file.read_text()))
        state.updates = list(Weights.from_dict(vars(state)).updates)
        return state

    def save_state(self, state: State) -> None:
        write_text(self.path / "state.json", json.dumps(asdict(state), indent=1) + "\n")

    def save_algorithm(self, stage: str, step: int, state: Mapping[str, Any]) -> str:
        """Write the state of a stage's algorithm; the run's state names the file that belongs to it."""
        name = f"algorithm_{stage}_{step:06d}.json"
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
            if file.name not in (state.algorithm, (state.learnt or {}).get("algorithm")):
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

    def write_episodes(self, name: str, episodes: Sequence[Episode], write_shards: WriteShards | None) -> None:
        """Store the episodes of a step or an evaluation, ``episodes/<name>*.parquet``; see :func:`recorder.store`."""
        recorder.store(self.path / "episodes", name, episodes, write_shards)

    def read_episodes(self, name: str) -> list[Episode]:
        """The episodes of a step or an evaluation, which an earlier version wrote as ``<name>.jsonl.zst``."""
        file = self.path / "episodes" / f"{name}.parquet"
        return episode_store.read(file if shards(file) else file.with_suffix(".jsonl.zst"))

    def write_summary(self, summary: dict[str, Any]) -> None:
        write_text(self.path / "summary.json", json.dumps(summary, indent=1) + "\n")
