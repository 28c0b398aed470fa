"""Writing a run while it goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ray.exceptions import RayTaskError

from agentgym_rl.algorithms.curriculum.turn_limit import Curriculum
from agentgym_rl.algorithms.mixture import Mixture
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.files import write_text
from agentgym_rl.engine.recipe.checkpoint import PROMPTS
from agentgym_rl.engine.run import manifest
from agentgym_rl.engine.run.folder import RunFolder, State
from agentgym_rl.engine.run.metrics_log import MetricsLog
from agentgym_rl.engine.verl.liveness import root
from agentgym_rl.engine.verl.trainer import AgentTrainer


class NotSaved(RuntimeError):
    """A step could not be saved; the one before it stands."""

    def __init__(self, folder: Path, step: int, error: Exception) -> None:
        free = shutil.disk_usage(folder).free / 2**20
        super().__init__(
            f"step {step} could not be saved in {folder}, where {free:.0f} MiB are free: {root(error)}; mend it, and "
            "the same command resumes"
        )


@dataclass(kw_only=True)
class Saver:
    """Writes weights, state and episodes of a run.

    Raises:
        NotSaved: something cannot be written.
    """

    trainer: AgentTrainer
    folder: RunFolder
    state: State
    log: MetricsLog
    mixture: Mixture[Any]
    curriculum: Curriculum
    keep: int | None
    """How many of the newest checkpoints stay."""
    writer: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 1, "episodes"))
    """Writes episodes while the run goes on."""
    _writing: Future[None] | None = None

    def save(self, stage: str, algorithm_state: Mapping[str, Any]) -> None:
        """Write the run as it is now."""
        self.save_files(stage, algorithm_state)
        self.save_state()

    def save_files(self, stage: str, algorithm_state: Mapping[str, Any]) -> None:
        """Write what the state names: weights where they changed, and the state of the algorithm."""
        state = self.state
        with self._saving():
            if not state.saved:
                state.checkpoint, state.saved = self.trainer.weights.save(), True
                place = self.folder.checkpoints / state.checkpoint
                if state.prompts:
                    write_text(place / PROMPTS, json.dumps(state.prompts, indent=1) + "\n")
                manifest.seal(place)
            state.algorithm = self.folder.save_algorithm(stage, state.global_step, algorithm_state)

    def save_state(self) -> None:
        """Write the state, to which the metrics logged so far belong; then files that no state needs any more go."""
        state = self.state
        self._stored()
        state.mixture, state.curriculum = self.mixture.state_dict(), self.curriculum.state_dict()
        state.logged = self.log.rows
        with self._saving():
            self.folder.save_state(state)
            self.folder.drop_leftovers(state, self.keep)

    def store_episodes(self, name: str, episodes: Sequence[Episode]) -> None:
        """Begin to store the episodes of a step or an evaluation; they are there when the state is next saved."""
        self._stored()
        write = self.trainer.sampler.write_episodes
        self._writing = self.writer.submit(self.folder.write_episodes, name, episodes, write)

    def _stored(self) -> None:
        """Wait until the episodes given last are stored."""
        writing, self._writing = self._writing, None
        if writing is not None:
            with self._saving():
                writing.result()

    @contextmanager
    def _saving(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RayTaskError) as error:
            raise NotSaved(self.folder.path, self.state.global_step, error) from error
