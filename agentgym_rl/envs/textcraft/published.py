"""Tasks as a file of AgentTraj has them: goal and recipes of an id are those of its conversation."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.quoted import conversations
from agentgym_rl.envs.textcraft.catalogue import Catalogue, variants
from agentgym_rl.envs.textcraft.official import official_book

_START = re.compile(r"Crafting commands:\n(.*)\n\nGoal: craft (.*)\.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Start:
    text: str
    """The first observation."""
    goal: str
    lines: tuple[str, ...]
    """The recipes on show."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Published(Catalogue):
    """Below ``stride`` an index is an id of the file; variants are as without it."""

    starts: Mapping[int, Start]

    def locate(self, index: int) -> tuple[str, int]:
        if index >= self.stride:
            return Catalogue.locate(self, index)
        if index not in self.starts:
            raise TaskNotFound(f"textcraft_{index} is not in the file of the option tasks_of")
        return self.starts[index].goal, 0

    def versions(self, goal: str, versions: range) -> list[int]:
        quoted = [index for index, start in self.starts.items() if start.goal == goal] if 0 in versions else []
        return quoted + Catalogue.versions(self, goal, range(max(1, versions.start), versions.stop))

    def quoted(self, index: int) -> tuple[str, ...] | None:
        return self.starts[index].lines if index in self.starts else None


@cache
def published(recipes: str | Path, tasks_of: str | Path) -> Published:
    """The tasks of a file of AgentTraj, played with an official recipe folder. Its ids are the split ``train``.

    Of several conversations of a task the first counts.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the folder cannot be read, see :func:`official_book`; the file has no conversation with TextCraft,
            or one that does not begin with recipes of the folder and a goal that they make.
    """
    starts: dict[int, Start] = {}
    for task, _, text in conversations(tasks_of, "textcraft"):
        starts.setdefault(task.index, _start(tasks_of, str(task), text))
    book = official_book(recipes, {line for start in starts.values() for line in start.lines})
    known = {str(recipe) for ways in book.recipes.values() for recipe in ways}
    for index, start in starts.items():
        if unknown := [*({*start.lines} - known), *({start.goal} - book.recipes.keys())]:
            raise ValueError(
                f"{tasks_of}: textcraft_{index} has {unknown[0]!r}, which {recipes} has no recipe for; "
                "give AgentGym's recipes, or a file without this conversation"
            )
    goals, stride = tuple(book.goals()), 1000
    splits = {"train": tuple(sorted(starts)), **variants(range(len(goals)), stride)}
    return Published(book, goals, splits, stride, starts=starts)


def _start(path: str | Path, item_id: str, text: str) -> Start:
    match = _START.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{path}: {item_id} does not begin with crafting commands and a goal")
    return Start(match[0], match[2], tuple(match[1].split("\n")))
