"""What every stage of a run works with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_rl.algorithms.mixture import Mixture
from agentgym_rl.algorithms.scaling_inter import Curriculum
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.panels import Panel
from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.run.folder import RunFolder, State
from agentgym_rl.engine.run.metrics_log import MetricsLog
from agentgym_rl.engine.verl.dataset import row
from agentgym_rl.engine.verl.trainer import AgentTrainer
from agentgym_rl.envs import Task
from agentgym_rl.rollout.supervised import Example

OTHER_DRAWS = 1_000_000
"""Apart from each other, in steps, are the draws of the same step."""

Bar = Callable[[str, int, int], None]
"""Shows progress: what, how many done, of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One run in progress."""

    config: Config
    trainer: AgentTrainer
    folder: RunFolder
    state: State
    log: MetricsLog
    mixture: Mixture
    curriculum: Curriculum
    panels: dict[str, dict[str, Panel]]
    """By world and label."""
    experts: Sequence[Example]
    """Expert data D_s as tokens."""
    bar: Bar
    say: Callable[[str], None]
    stop: Callable[[], bool]
    """Whether the user asked to stop."""

    def training_rows(self, number: int, ahead: int = 0, other: int = 0) -> list[dict[str, Any]]:
        """The tasks of the algorithm's step (from 0), each with its number of episodes.

        Args:
            ahead: how many steps the present one is before it.
            other: asks for the n-th other draw.
        """
        algorithm = self.config.algorithm
        step = self.state.global_step + ahead + OTHER_DRAWS * other
        draws = self.mixture.draw(step, algorithm.tasks, algorithm.samples)
        return [
            self.training_row(index, number, draw.task, __rollout_n__=draw.samples) for index, draw in enumerate(draws)
        ]

    def training_row(self, index: int, number: int, task: Task, **fields: Any) -> dict[str, Any]:
        """One training episode of the algorithm's step (from 0); its tags say which row it was."""
        horizon = self.curriculum.horizon(task.env, number + 1) or self.config.worlds[task.env].max_turns
        tags = {"split": "train", "index": index, **fields.pop("tags", {})}
        return row(index, task, horizon=horizon, seed=self.config.seed, tags=tags, **fields)

    def learn(self, episodes: Sequence[Episode]) -> None:
        """Let mixture and curriculum take in a step's episodes."""
        self.mixture.learn(episodes)
        self.curriculum.learn(episodes)

    def panel_row(self, index: int, task: Task, **fields: Any) -> dict[str, Any]:
        """One evaluation episode."""
        horizon = self.config.worlds[task.env].max_turns
        return row(index, task, horizon=horizon, seed=self.config.seed, __rollout_n__=1, **fields)
