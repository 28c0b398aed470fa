"""How far a session has come: changes made, nothing else changed, the right answer given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentgym_rl.envs.tooluse.answers import matches
from agentgym_rl.envs.tooluse.todo.account import Account, Item, Project
from agentgym_rl.envs.tooluse.todo.tools import Session


def judge(start: Account, after: Account, expected: object) -> Callable[[Session, Any], float]:
    """The ``progress`` of a task: the share of its subgoals that are met, 0 once anything else was changed.

    Subgoals are the projects and tasks that must change, and the answer unless ``expected`` is None.
    """
    before, wanted = _parts(start), _parts(after)
    due = {key for key in before if before[key] != wanted.get(key)}
    subgoals = len(due) + (expected is not None)

    def progress(session: Session, answer: Any) -> float:
        found = _parts(session.account)
        if any(found.get(key) != part for key, part in before.items() if key not in due):
            return 0.0
        met = sum(found.get(key) == wanted.get(key) for key in due)
        if expected is not None and answer is not None:
            met += matches(expected, answer)
        return met / subgoals

    return progress


def _parts(account: Account) -> dict[str, Project | Item]:
    """Projects and tasks by id; no id stands for both."""
    parts: tuple[Project | Item, ...] = (*account.projects, *account.items)
    return {part.id: part for part in parts}
