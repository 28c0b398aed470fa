"""What panels share with the tasks that a model learns from: by id, and by content, where one game has several ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from agentgym_rl.envs import Task, TextEnv
from agentgym_rl.envs.splits import fingerprint

COMPARED = 200
"""Most training tasks whose contents are compared, drawn at random; ids are all compared."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many tasks of a panel are also learned from, under the same id or another one with the same content."""

    tasks: int
    """Of the panel."""
    training: int
    demonstrations: int

    def __str__(self) -> str:
        return f"{self.training} of {self.tasks} tasks are training tasks, {self.demonstrations} have demonstrations"

    def __bool__(self) -> bool:
        return bool(self.training or self.demonstrations)


class Games:
    """Contents (:meth:`~agentgym_rl.envs.core.TextEnv.content`) of the tasks of an environment, each asked for once.

    Args:
        env: the session that is asked, which nothing else uses.
        compared: most tasks that :meth:`shared` asks for; 0 compares ids alone.
    """

    def __init__(self, env: TextEnv, compared: int = COMPARED) -> None:
        self.env = env
        self.compared = compared
        self._contents: dict[int, str] = {}

    async def shared(self, panel: Sequence[int], others: Sequence[int]) -> int:
        """How many tasks of a panel are among others, or are the same game as one of those that are compared.

        Raises:
            EnvError: the environment cannot tell what a task shows.
        """
        ids = frozenset(others)
        left = [index for index in panel if index not in ids]
        known: set[str] = set()
        if left and self.compared:
            places = Random(0).sample(range(len(others)), min(self.compared, len(others)))
            known = {await self._content(others[place]) for place in places}
        return len(panel) - len(left) + sum([await self._content(index) in known for index in left if known])

    async def _content(self, index: int) -> str:
        if index not in self._contents:
            self._contents[index] = fingerprint(await self.env.content(Task(self.env.spec.name, index)), 16)
        return self._contents[index]
