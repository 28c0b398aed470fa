"""What panels share with the tasks that a model learns from: by id, and by content, where one game has several ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from agentgym_rl.data import agenttraj
from agentgym_rl.envs import Task, TextEnv, item_ids
from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.numbering import Panel
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
        rest = [index for index in panel if index not in ids]
        known: set[str] = set()
        if rest and self.compared:
            places = Random(0).sample(range(len(others)), min(self.compared, len(others)))
            known = {await self._content(others[place]) for place in places}
        return len(panel) - len(rest) + sum([await self._content(index) in known for index in rest if known])

    async def _content(self, index: int) -> str:
        if index not in self._contents:
            self._contents[index] = fingerprint(await self.env.content(Task(self.env.spec.name, index)), 16)
        return self._contents[index]


async def overlaps_of(
    games: Games, panels: Mapping[str, Panel], training: Sequence[int], cloned: Sequence[int]
) -> dict[str, Overlap]:
    """The overlap of each panel of an environment with training tasks and with tasks that have demonstrations.

    Raises:
        EnvError: see :meth:`Games.shared`.
    """
    overlaps = {}
    for label, panel in panels.items():
        indices = [Task.parse(item_id).index for item_id in panel.item_ids]
        shared = [await games.shared(indices, others) for others in (training, cloned)]
        overlaps[label] = Overlap(len(indices), *shared)
    await games.env.close()
    return overlaps


def report(overlaps: Mapping[str, Mapping[str, Overlap]]) -> str:
    """The overlaps, by environment and panel, in one line; empty where there are no panels."""
    counts = {f"{env}/{panel}": overlap for env, by_panel in overlaps.items() for panel, overlap in by_panel.items()}
    shared = [f"{panel}: {overlap}" for panel, overlap in counts.items() if overlap]
    if not counts:
        return ""
    return f"overlap: {'; '.join(shared)}" if shared else "overlap: no panel has a task that is trained on"


def demonstrated(env: TextEnv, file: Path) -> list[int]:
    """Indices of the tasks in a file of trajectories, as far as the environment has them."""
    name = env.spec.name
    listed = (item_ids.read(trajectory.item_id) for trajectory in agenttraj.of_env(file, name))
    return [index for _, index in filter(None, listed) if _has(env, Task(name, index))]


def _has(env: TextEnv, task: Task) -> bool:
    try:
        env.difficulty(task)
    except TaskNotFound:
        return False
    return True
