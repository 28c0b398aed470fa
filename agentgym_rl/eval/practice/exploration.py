"""What is explored, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from agentgym_rl.envs.explorable import Found
from agentgym_rl.envs.splits import fingerprint
from agentgym_rl.eval.evaluation.rules import Rules
from agentgym_rl.eval.practice.giveaways import Giveaways


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What is explored, and how."""

    env: str
    rules: Rules
    """Their options name no file of tasks."""
    policy: str
    writer: str
    weights: Sequence[str] = ()
    """Of policy and writer."""
    given: Sequence[Found] = ()
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
        keys = ("env", "policy", "writer", "weights", "setup", "ideas", "test", "temperature", "seed")
        return {
            **{key: getattr(self, key) for key in keys},
            "rules": self.rules.to_dict(),
            "tasks that there are": fingerprint("\n".join(task.instruction for task in self.given), 12),
        }

    def split(self, rollout: int) -> str:
        """Of the tasks of an episode: all of one, so that two splits share no episode."""
        return "test" if int((rollout + 1) * self.test) > int(rollout * self.test) else "train"

    def begins(self, rollout: int, starts: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """How an episode and its tasks begin, as keys of a line: ``setup``, and ``start``, which no two splits share.

        Args:
            starts: see :attr:`agentgym_rl.envs.explorable.Explorable.starts`.
        """
        line: dict[str, Any] = {"setup": self.setup} if self.setup else {}
        if indices := starts.get(self.split(rollout)) or next(filter(None, starts.values()), ()):
            line["start"] = Random(f"{self.seed} {rollout}").choice(indices)
        return line


@dataclass(slots=True)
class Explored:
    """What came of it so far."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    """Of the file of tasks."""
    counts: Counter[str] = field(default_factory=Counter)
    """Episodes (``rollouts``), tasks that were written (``ideas``), and why others do not count."""
    tools: list[frozenset[str]] = field(default_factory=list)
    """Those that each line calls."""
    uses: Counter[str] = field(default_factory=Counter)
    """Calls that each tool has carried out."""
    flat: int = 0
    """Rounds in a row without a new task."""

    @property
    def refused(self) -> dict[str, int]:
        """Why tasks do not count, and how many."""
        return {name: number for name, number in self.counts.items() if number and name not in ("rollouts", "ideas")}
