"""Cloned weights kept for other runs of the same configuration: ``run.cache``."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from agentgym_rl.algorithms.bc import Cloning
from agentgym_rl.data.files import put_whole, read_jsonl, write_jsonl, write_text
from agentgym_rl.engine.run import manifest
from agentgym_rl.engine.run.folder import RunFolderError
from agentgym_rl.engine.run.run import EngineRun
from agentgym_rl.envs.tables import json_object

FACTS = {"run", "global_step", "best", "result"}


class ClonedCache:
    """The end of the cloning stage of runs with the same digest."""

    def __init__(self, folder: Path, digest: str) -> None:
        self.folder = folder.resolve() / f"cloned-{digest}"

    def recall(self, run: EngineRun) -> bool:
        """Take over weights, result and metrics of an earlier run's cloning; false when there is none.

        Raises:
            RunFolderError: it is damaged.
        """
        file = self.folder / "facts.json"
        if not file.is_file():
            return False
        weights = self.folder / "checkpoint"
        try:
            facts = json_object(file)
            if missing := FACTS - facts.keys():
                raise ValueError(f"{file} lacks {', '.join(sorted(missing))}")
            if manifest.sealed(weights) and (fault := manifest.fault(weights)):
                raise ValueError(f"{weights}: {fault}")
        except ValueError as error:
            raise RunFolderError(f"the cache is damaged: {error}; delete {self.folder}, and it is made anew") from error
        state = run.state
        state.global_step = run.trainer.global_steps = facts["global_step"]
        run.trainer.weights.restore(weights)
        for row in read_jsonl(self.folder / "metrics.jsonl"):
            run.log.log(row.pop("step"), row)
        state.wall_s += facts["result"]["wall_s"]
        state.best = facts["best"]
        state.results.append(facts["result"] | {"checkpoint": str(weights)})
        state.checkpoint, state.saved = str(weights), True
        state.stage += 1
        run.saver.save_state()
        run.say(f"cloned weights of {facts['run']} taken from {self.folder}")
        return True

    def keep(self, run: EngineRun) -> None:
        """Keep the end of this run's cloning stage, unless another run has done so."""
        if self.folder.is_dir():
            return
        state = run.state
        part = self.folder.with_name(f".{self.folder.name}.{os.getpid()}")
        shutil.rmtree(part, ignore_errors=True)  # of a process that was killed, with the same number in its container
        shutil.copytree(run.folder.checkpoints / str(state.checkpoint), part / "checkpoint")
        rows = [row for row in read_jsonl(run.log.path) if f"stage/{Cloning.stage}" in row]
        write_jsonl(part / "metrics.jsonl", rows)
        facts = {
            "run": run.config.name,
            "global_step": state.global_step,
            "best": state.best,
            "result": state.results[-1],
        }
        write_text(part / "facts.json", json.dumps(facts, indent=1) + "\n")
        put_whole(part, self.folder)
