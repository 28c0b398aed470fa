"""Metrics of a run: ``metrics.jsonl`` always, Weights & Biases and TensorBoard beside it."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.data.files import append_jsonl, read_jsonl, write_jsonl
from agentgym_rl.eval.diagnosis import Finding
from agentgym_rl.eval.episode_rows import COLUMNS, episode_rows

RECENT = 200
"""Rows that are kept in memory."""


class MetricsLog:
    """One line a step; the same numbers go to W&B under the same names (docs/wandb.md lists them)."""

    def __init__(self, folder: Path, config: Mapping[str, Any], last_step: int, logged: int | None = None) -> None:
        """
        Args:
            config: the whole configuration of the run, in plain types.
            last_step: rows after this step, left by a killed run, are dropped.
            logged: so are rows after this many; None keeps them.
        """
        self.path = folder / "metrics.jsonl"
        rows = list(read_jsonl(self.path, torn_end=True)) if self.path.is_file() else []
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, dict) or not isinstance(row.get("step"), int):
                raise ValueError(f"{self.path}, row {number}: not the metrics of a step; delete this line to go on")
        rows = [row for row in rows[:logged] if row["step"] <= last_step]
        write_jsonl(self.path, rows)
        self.rows = len(rows)
        self.recent = deque(rows, maxlen=RECENT)
        """The newest rows."""
        self.file = self.path.open("a", encoding="utf-8")
        self.wandb = self._start_wandb(folder, config)
        self.tensorboard = None
        if config["logger"]["tensorboard"]:
            from torch.utils.tensorboard import SummaryWriter

            self.tensorboard = SummaryWriter(folder / "tensorboard", purge_step=last_step + 1)

    @staticmethod
    def _start_wandb(folder: Path, config: Mapping[str, Any]) -> Any:
        logger, name, seed = config["logger"], config["name"], config["seed"]
        mode: str = logger["wandb"]
        if mode == "disabled":
            return None
        if mode == "auto":
            mode = "online" if os.environ.get("WANDB_API_KEY") else "offline"
        import wandb

        run = wandb.init(
            project=logger["project"],
            name=name,
            group=logger["group"] or without_seed(name, seed),
            job_type=config["algorithm"]["name"],
            tags=tags(config),
            id=f"{name}-{seed}".replace("/", "-"),
            resume="allow",
            dir=folder,
            mode=mode,  # type: ignore[arg-type]
            config=dict(config),
            settings=wandb.Settings(silent=True, console="off"),
        )
        for family in ("env/*", "val/*"):  # so that runs of any algorithm lie over each other
            run.define_metric(family, step_metric="run/episodes")
        return run

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Write the metrics of a step."""
        row = {"step": step, **metrics}
        append_jsonl(self.file, row)
        self.rows += 1
        self.recent.append(row)
        if self.wandb is not None:
            self.wandb.log(metrics, step=step)
        if self.tensorboard is not None:
            for name, value in metrics.items():
                self.tensorboard.add_scalar(name, value, step)
            self.tensorboard.flush()

    def log_episodes(self, step: int, episodes: Sequence[Episode]) -> None:
        """Show the episodes of an evaluation in W&B, in tables ``val/<panel>/<env>/episodes``."""
        if self.wandb is None:
            return
        import wandb

        shown: dict[str, list[Episode]] = {}
        for episode in episodes:
            shown.setdefault(f"val/{episode.tags['panel']}/{episode.env}/episodes", []).append(episode)
        tables = {
            name: wandb.Table(columns=list(COLUMNS), data=[list(row) for row in episode_rows(panel_episodes)])
            for name, panel_episodes in shown.items()
        }
        self.wandb.log(tables, step=step)

    def alert(self, finding: Finding) -> None:
        """Tell W&B, which tells its user, why a stage learns nothing."""
        if self.wandb is not None:
            self.wandb.alert(title=f"{finding.stage} is not learning: {finding.rule}", text=str(finding), level="WARN")

    def close(self) -> None:
        self.file.close()
        if self.wandb is not None:
            self.wandb.finish()
        if self.tensorboard is not None:
            self.tensorboard.close()


def tags(config: Mapping[str, Any]) -> list[str]:
    """W&B's tags of a run, ``kind:value`` each."""
    return [
        f"algorithm:{config['algorithm']['name']}",
        *(f"env:{env}" for env in sorted(config["envs"])),
        f"mixture:{config['mixture']['type']}",
        f"curriculum:{config['curriculum']['type']}",
        f"seed:{config['seed']}",
    ]


def without_seed(name: str, seed: int) -> str:
    """A run's name without its seed, which runs that differ in nothing else share."""
    return re.sub(rf"[-_/.]?seed[-_=]?{seed}(?!\d)", "", name).strip("-_/.") or name


def read(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run, one mapping a step."""
    return list(read_jsonl(folder / "metrics.jsonl"))
