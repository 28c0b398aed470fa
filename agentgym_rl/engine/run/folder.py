"""The folder of a run: configuration, state, metrics, episodes, summary."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from agentgym_rl.algorithms.control import Control
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.files import write_text
from agentgym_rl.engine.recipe.checkpoint import numbered
from agentgym_rl.engine.recipe.config import BudgetConfig
from agentgym_rl.engine.run import manifest
from agentgym_rl.envs.tables import json_object, read_utf8
from agentgym_rl.eval.evaluation.rules import flat
from agentgym_rl.eval.score import errors
from agentgym_rl.rollout import recorder
from agentgym_rl.rollout.recorder import WriteShards


class RunFolderError(ValueError):
    """The folder cannot be used for this run; the message gives the reason and the fix."""


class Interrupted(Exception):
    """The user asked to stop; the state is saved."""


KEPT = (
    "stage", "global_step", "checkpoint", "origin", "updates", "stage_updates", "algorithm", "prompts",
    "stage_episodes", "stage_wall_s", "stage_training_s",
)  # fmt: skip
"""Fields of a state that are noted at the end of the algorithm's stage."""


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
    """True if ``checkpoint`` has the present weights; None as checkpoint stands for the weights as loaded."""
    origin: str | None = None
    """Checkpoint that ``updates`` started from."""
    starts: dict[str, str] = field(default_factory=dict)
    """Where models that begin in a folder began, relative to the run: a run there may have other weights since."""
    updates: list[tuple[int, float, int]] = field(default_factory=list)
    """Number, learning rate and mini-batch of the updates that led from ``origin`` to the present weights."""
    fresh_optimizer: bool = True
    """True if the optimizer has no moments: no update since the stage began."""
    learnt: dict[str, Any] | None = None
    """The end of the algorithm's stage: what the control repeats, and where a run with more steps goes on."""
    algorithm: str | None = None
    """File with the state of the algorithm."""
    prompts: dict[str, str] = field(default_factory=dict)
    """What the algorithm puts before the first observation, by environment."""
    best: float | None = None
    """Success on the validation panels of the weights kept last."""
    mixture: dict[str, Any] | None = None
    """State of the mixture."""
    curriculum: dict[str, Any] | None = None
    """State of the curriculum."""
    left_out: list[str] | None = None
    """Training tasks that do not fit into the prompt and are not drawn; None where they are not known yet."""
    episodes: int = 0
    """Training episodes so far."""
    tokens: int = 0
    """Tokens of those episodes, prompts and responses."""
    stage_updates: int = 0
    """Updates that the stage has made."""
    parser_faults: int = 0
    """Responses that a parser failed on, in training and evaluation (:attr:`Turn.fault`)."""
    logged: int | None = None
    """Rows of ``metrics.jsonl``; those after them, left by a killed run, are written again."""
    errors: dict[str, int] = field(default_factory=dict)
    """Failures outside the agent, by kind (:func:`agentgym_rl.eval.score.errors`), in training and evaluation."""
    written: dict[str, int] = field(default_factory=dict)
    """Calls and tokens of the writer."""
    wall_s: float = 0.0
    stage_wall_s: float = 0.0
    stage_training_s: float = 0.0
    """Of the stage's seconds, those of its units, without evaluations."""
    stage_episodes: int = 0
    stage_ends: list[str] = field(default_factory=list)
    """Checkpoints at the ends of stages; they are kept."""
    results: list[dict[str, Any]] = field(default_factory=list)
    """Finished stages, as in ``summary.json``."""

    def end_of_algorithm(self, units: int) -> None:
        """Note the end of the algorithm's stage."""
        self.learnt = {"units": units, **{name: getattr(self, name) for name in KEPT}}

    def extend(self, units: int, budget: BudgetConfig) -> bool:
        """Go back to the end of the algorithm's stage if it has more units and budget now; whether it does."""
        learnt = self.learnt
        if learnt is None or self.stage <= learnt["stage"] or units <= learnt["units"]:
            return False
        if budget.spent(self.tokens, learnt["stage_updates"]):
            return False
        for name in learnt.keys() & KEPT:  # an earlier version noted fewer
            setattr(self, name, learnt[name])
        self.unit, self.saved, self.fresh_optimizer = learnt["units"], True, not self.updates
        self.results = self.results[: self.stage]
        return True

    def count(self, episodes: Sequence[Episode]) -> None:
        """Add up what went wrong in episodes."""
        self.parser_faults += sum(episode.parser_faults for episode in episodes)
        self.errors = dict(Counter(self.errors) + Counter(errors(episodes)))

    def spent(self) -> dict[str, float]:
        """Episodes, tokens and time of training so far, as metrics."""
        return {
            "run/episodes": self.episodes,
            "run/tokens": self.tokens,
            "run/stage_updates": self.stage_updates,
            "run/stage_training_s": self.stage_training_s,
            "run/wall_s": self.wall_s,
        }


def read_state(file: Path) -> State:
    """The state in a file.

    Raises:
        RunFolderError: the file is no state of this version; names it and the fault.
    """
    try:
        content = json_object(file)
        if unknown := sorted(content.keys() - {known.name for known in fields(State)}):
            raise ValueError(f"{file}: the key {unknown[0]!r} is unknown, so another version wrote it")
        state: State = TypeAdapter(State).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = " > ".join(str(part) for part in first["loc"])
        raise RunFolderError(f"{file}: {where}: {first['msg']}, found {first['input']!r}; {_RESTORE}") from error
    except ValueError as error:
        raise RunFolderError(f"{error}; {_RESTORE}") from error
    return state


MADE_FIRST = ("model", "demonstrations")
"""What a run makes by its recipe before it is launched."""
STATE, PREVIOUS = "state.json", "state.previous.json"
"""The state of the newest checkpoint, and that of the one before."""
_RESTORE = "copy state.previous.json over state.json to go on from the checkpoint before, or choose another run.dir"


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


def _changes(before: str, now: str) -> list[str]:
    """The keys whose values differ between two identities, with both values."""
    old, new = (dict(flat(yaml.safe_load(text))) for text in (before, now))
    keys = [key for key in {**new, **old} if old.get(key) != new.get(key)]
    return [f"{key}={old.get(key, 'unset')} there, {new.get(key, 'unset')} here" for key in keys]


class RunFolder:
    """Everything a run writes; every file appears whole."""

    def __init__(self, folder: Path, identity: str, resume: bool, config: str | None = None) -> None:
        """Open or create the folder.

        Args:
            identity: the keys that make the run what it is; a resumed run has the same.
            config: the whole configuration, for the record; None leaves what is there.

        Raises:
            RunFolderError: it cannot be written, holds a run that is not to be resumed or has another configuration, or
                holds checkpoints without the state that goes with them.
        """
        self.path = writable(folder).resolve()
        self.resumed = (self.path / STATE).is_file()
        known = self.path / "identity.yaml"
        if not self.resumed and (checkpoints := sorted(path.name for path in self.checkpoints.glob("global_step_*"))):
            raise RunFolderError(
                f"{self.path / STATE} is missing, but checkpoints/ holds {', '.join(checkpoints)}; copy {PREVIOUS} to "
                "it to go on from the checkpoint before, or choose another run.dir"
            )
        if self.resumed and not resume:
            raise RunFolderError(
                f"{folder} already holds a run; set run.resume=true to continue it or choose another run.dir"
            )
        if self.resumed and not known.is_file():
            raise RunFolderError(
                f"{folder} holds a run of an earlier version; finish it there or choose another run.dir"
            )
        if self.resumed and (before := read_utf8(known)) != identity:
            raise RunFolderError(
                f"{folder} holds a run of another configuration ({'; '.join(_changes(before, identity)[:5])}); "
                "use its settings to resume it, or choose another run.dir"
            )
        if not self.resumed and known.is_file() and read_utf8(known) != identity:  # refused, and its recipe mended
            for made in MADE_FIRST:
                shutil.rmtree(self.path / made, ignore_errors=True)
        write_text(known, identity)
        if config is not None:
            write_text(self.path / "config.yaml", config)

    @property
    def finished(self) -> bool:
        """True if the run is complete."""
        return (self.path / "summary.json").is_file()

    def reopen(self, state: State) -> None:
        """Go on with a complete run from an earlier state; its control runs again."""
        self.save_state(state)
        (self.path / "summary.json").unlink(missing_ok=True)
        for file in (self.path / "episodes").glob(f"val_{Control.stage}_step*.parquet"):
            file.unlink()

    # state

    def load_state(self) -> State:
        """The state saved last, or a fresh one.

        Raises:
            RunFolderError: its file is damaged.
        """
        file = self.path / STATE
        return read_state(file) if file.is_file() else State()

    def save_state(self, state: State) -> None:
        """Write the state; that of another checkpoint, which it replaces, is kept as the previous one."""
        file = self.path / STATE
        if file.is_file() and json_object(file)["checkpoint"] != state.checkpoint:
            write_text(self.path / PREVIOUS, file.read_text(encoding="utf-8"))
        write_text(file, json.dumps(asdict(state), indent=1) + "\n")

    def whole(self, state: State) -> tuple[State, str | None]:
        """The state, or the one before where its checkpoint is damaged; and a remark on that.

        Raises:
            RunFolderError: the checkpoint is gone or damaged, and so is the one before, or there is none.
        """
        try:
            self._check(state)
        except RunFolderError as damage:
            before = self._previous()
            if before is None or before.global_step >= state.global_step:
                raise
            self._check(before)
            write_text(self.path / STATE, json.dumps(asdict(before), indent=1) + "\n")
            return before, f"{damage}. Going on from the checkpoint before, at step {before.global_step}."
        return state, None

    def _check(self, state: State) -> None:
        """Raises RunFolderError: the checkpoint or the algorithm's state of a state is gone or damaged."""
        folder = self.checkpoint(state.checkpoint)
        if folder is not None and manifest.sealed(folder) and (fault := manifest.fault(folder)):
            raise RunFolderError(f"checkpoint {folder} is damaged: {fault}; restore it, or choose another run.dir")
        if state.algorithm is not None:
            self.load_algorithm(state.algorithm)

    def _previous(self) -> State | None:
        file = self.path / PREVIOUS
        return read_state(file) if file.is_file() else None

    def save_algorithm(self, stage: str, step: int, state: Mapping[str, Any]) -> str:
        """Write the state of a stage's algorithm; the run's state names the file that belongs to it."""
        name = f"algorithm_{stage}_{step:06d}.json"
        write_text(self.path / name, json.dumps(state) + "\n")
        return name

    def load_algorithm(self, name: str) -> dict[str, Any]:
        """The state of an algorithm.

        Raises:
            RunFolderError: its file is gone or damaged.
        """
        try:
            return json_object(self.path / name)
        except (FileNotFoundError, ValueError) as error:
            raise RunFolderError(f"the algorithm's state cannot be read: {error}; {_RESTORE}") from error

    def journal(self, step: int) -> Path:
        """Where the finished rollouts of a resumable unit are kept until the state counts them."""
        return self.path / "exploring" / f"step{step:06d}.jsonl"

    def texts(self, step: int) -> Path:
        """The same for texts that were asked for."""
        return self.journal(step).with_suffix(".texts.jsonl")

    def drop_leftovers(self, state: State, keep: int | None = None) -> None:
        """Remove files that neither the state nor the one before needs, and journals of finished units.

        Args:
            keep: checkpoints that stay beside those needed, the newest ones; None keeps all.
        """
        states = [each for each in (state, self._previous()) if each is not None]
        needed = {name for each in states for name in (each.algorithm, (each.learnt or {}).get("algorithm"))}
        for file in self.path.glob("algorithm_*.json"):
            if file.name not in needed:
                file.unlink()
        for file in self.path.glob("exploring/step*.jsonl"):
            if file.name.partition(".")[0] <= self.journal(state.global_step).stem:
                file.unlink()
        if keep is not None:
            self._prune(keep)

    def _prune(self, keep: int) -> None:
        """Remove all but the newest checkpoints and those that the states of the run or its algorithm name."""
        for leftover in self.checkpoints.glob(".global_step_*"):  # of a removal that was cut short
            shutil.rmtree(leftover)
        if not (old := numbered(self.path)[:-keep]):
            return
        naming = [self.path / STATE, self.path / PREVIOUS, *self.path.glob("algorithm_*.json")]
        named = "".join(file.read_text(encoding="utf-8") for file in naming if file.is_file())
        for folder in old:
            if f'"{folder.name}"' not in named:
                shutil.rmtree(folder.rename(folder.with_name(f".{folder.name}")))

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

    def write_summary(self, summary: dict[str, Any]) -> None:
        write_text(self.path / "summary.json", json.dumps(summary, indent=1) + "\n")
