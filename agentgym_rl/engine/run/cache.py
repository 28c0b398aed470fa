"""Tiny models and cloned weights kept for other runs that would make the same: ``run.cache``."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from agentgym_rl.data.files import read_jsonl, write_jsonl, write_text
from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.recipe.digest import digest
from agentgym_rl.engine.run.work import Work


class ClonedCache:
    """The end of the cloning stage of runs with the same digest."""

    def __init__(self, folder: Path, config: Config) -> None:
        self.folder = folder.resolve() / f"cloned-{digest(config, cloned=True)}"

    def recall(self, work: Work) -> bool:
        """Take over what an earlier run cloned: weights, result and metrics; false when none has."""
        facts = self.folder / "facts.json"
        if not facts.is_file():
            return False
        kept = json.loads(facts.read_text())
        state = work.state
        weights = self.folder / "checkpoint"
        state.global_step = work.trainer.global_steps = kept["global_step"]
        work.trainer.restore(weights)
        for row in read_jsonl(self.folder / "metrics.jsonl"):
            work.log.log(row.pop("step"), row)
        state.wall_s += kept["result"]["wall_s"]
        state.best = kept["best"]
        state.results.append(kept["result"])
        state.checkpoint = state.cloned = str(weights)
        state.stage += 1
        work.folder.save_state(state)
        work.say(f"cloned weights of {kept['run']} taken from {self.folder}")
        return True

    def keep(self, work: Work) -> None:
        """Keep the end of this run's cloning stage, unless another run has in the meantime."""
        if self.folder.is_dir():
            return
        state = work.state
        part = self.folder.with_name(f".{self.folder.name}.{os.getpid()}")
        shutil.copytree(work.folder.checkpoints / str(state.cloned), part / "checkpoint")
        rows = [row for row in read_jsonl(work.log.path) if "stage/bc" in row]
        write_jsonl(part / "metrics.jsonl", rows)
        facts = {
            "run": work.config.name,
            "global_step": state.global_step,
            "best": state.best,
            "result": state.results[-1],
        }
        write_text(part / "facts.json", json.dumps(facts, indent=1) + "\n")
        os.replace(part, self.folder)
