"""``agentgym-rl train`` with a fault at an exact place: ``python fault.py PHASE STEP VICTIM OVERRIDE...``.

When the run is in PHASE of the global step STEP or of a later one, VICTIM is killed: ``driver`` (this process), or
every process of the run with that word in its command line. ``SIGINT`` and ``SIGTERM`` are sent to the driver instead.
``<run.dir>/fault`` then holds the time (:func:`time.monotonic`).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from agentgym_rl.cli import main
from agentgym_rl.engine.run.run import EngineRun
from agentgym_rl.engine.verl.buffer import EpisodeBuffer
from agentgym_rl.engine.verl.learner import Learner
from agentgym_rl.engine.verl.trainer import AgentTrainer
from agentgym_rl.engine.verl.weights import Servers, Weights
from agentgym_rl.rollout.journal import Journal

present: dict[str, Any] = {"step": 0}


def before(owner: type, name: str, act: Callable[..., None]) -> None:
    """Have ``act`` called before a method, with its arguments."""
    method = getattr(owner, name)

    def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
        act(self, *arguments)
        return method(self, *arguments, **named)

    setattr(owner, name, wrapped)


def strike(victim: str) -> None:
    if present.get("struck"):
        return
    present["struck"] = True
    Path(present["folder"], "fault").write_text(str(time.monotonic()))
    if victim in ("SIGINT", "SIGTERM"):
        os.kill(os.getpid(), signal.Signals[victim])
    elif victim == "driver":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        processes = psutil.Process().children(recursive=True)
        victims = [process for process in processes if victim in " ".join(process.cmdline())]
        assert victims, f"no {victim} among {[' '.join(process.cmdline())[:80] for process in processes]}"
        for process in victims:
            process.kill()


def arm(phase: str, step: int, victim: str) -> None:
    def due() -> bool:
        return present["step"] >= step

    def now(*_: Any) -> None:
        if due():
            strike(victim)

    def soon(*_: Any) -> None:
        """In the middle of what begins now."""
        if due():
            threading.Timer(0.03, strike, [victim]).start()

    def half_played(buffer: EpisodeBuffer, partition: str, *_: Any) -> None:
        if due() and buffer.finished_keys[partition]:
            strike(victim)

    def half_explored(journal: Journal, *_: Any) -> None:
        if due() and len(journal.entries) >= 40:
            strike(victim)

    def half_written(weights: Weights, *_: Any) -> None:
        if not due():
            return
        directory = weights.settings.config.trainer.default_local_dir
        folder = Path(directory, f"global_step_{weights.verl.global_steps}")

        def watch() -> None:
            while not any(file.is_file() for file in folder.rglob("*")):
                time.sleep(0.001)
            strike(victim)

        threading.Thread(target=watch, daemon=True).start()

    owner, name, act = {
        "rollout": (EpisodeBuffer, "_wait_for_next_poll", half_played),
        "update": (AgentTrainer, "_update_actor", soon),
        "sync": (Servers, "send", soon),
        "before the sync": (Servers, "send", now),
        "checkpoint": (Weights, "save", half_written),
        "exploration": (Journal, "add", half_explored),
        "filter": (EngineRun, "save_demonstrations", now),
        "learning": (Learner, "_learn_tokens", soon),
    }[phase]
    before(owner, name, act)


def note_step(run: EngineRun, *_: Any) -> None:
    present.update(step=run.state.global_step + 1, folder=run.folder.path)


if __name__ == "__main__":
    phase, step, victim, *overrides = sys.argv[1:]
    before(EngineRun, "begin_unit", note_step)
    arm(phase, int(step), victim)
    logging.getLogger().handlers.clear()  # verl's, of its import above; a run imports it when its output goes to a file
    sys.argv = ["agentgym-rl", "train", *overrides]
    main()
