"""What is explored, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym_rl.envs.mcp.tasks import McpTask
from agentgym_rl.envs.splits import fingerprint
from agentgym_rl.envs.tools import Tool
from agentgym_rl.eval.evaluation.rules import Rules
from agentgym_rl.eval.practice.giveaways import Giveaways


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What is explored, and how."""

    rules: Rules
    """Their options name the server, and no tasks."""
    tools: Sequence[Tool]
    policy: str
    writer: str
    given: Sequence[McpTask] = ()
    """Tasks that there are, such as those of a panel. Nobody is told of them, and none is written again."""
    giveaways: Giveaways = field(default_factory=Giveaways)
    """Theirs."""
    setup: Sequence[Sequence[Any]] = ()
    """Calls before every episode and in every task, in the form of a file of tasks."""
    tasks: int = 50
    """Tasks to write."""
    rollouts: int = 200
    """Most episodes."""
    ideas: int = 3
    """Most tasks of an episode."""
    test: float = 0.2
    """Share of the episodes whose tasks are of the split ``test``."""
    temperature: float = 1.0
    seed: int = 0
    min_counted: float = 0.5
    """Share of a round's episodes that must count: curiosity finds what breaks a server."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types of what decides which tasks are found; more of them are found by going on."""
        keys = ("policy", "writer", "setup", "ideas", "test", "temperature", "seed")
        return {
            **{key: getattr(self, key) for key in keys},
            "rules": self.rules.to_dict(),
            "tasks that there are": fingerprint("\n".join(task.instruction for task in self.given), 12),
        }

    def split(self, rollout: int) -> str:
        """Of the tasks of an episode: all of one, so that two splits share no episode."""
        return "test" if int((rollout + 1) * self.test) > int(rollout * self.test) else "train"


@dataclass(slots=True)
class Explored:
    """What came of it so far."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    """Of the file of tasks."""
    counts: Counter[str] = field(default_factory=Counter)
    """Episodes (``rollouts``), tasks that were written (``ideas``), and why others do not count."""
    uses: Counter[str] = field(default_factory=Counter)
    """Calls that each tool has carried out."""
    flat: int = 0
    """Rounds in a row without a new task."""

    @property
    def refused(self) -> dict[str, int]:
        """Why tasks do not count, and how many."""
        return {name: number for name, number in self.counts.items() if number and name not in ("rollouts", "ideas")}
