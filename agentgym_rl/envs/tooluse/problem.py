"""One task of a world of tools, and how its outcome is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from agentgym_rl.envs.tooluse.answers import matches
from agentgym_rl.envs.tooluse.tool import S

Call = tuple[str, Mapping[str, Any]]
"""Name of a tool and the arguments it is called with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(Generic[S]):
    """What is asked, where the session starts and what counts as done."""

    goal: str
    """What the agent is asked, in one line."""
    start: Callable[[], S]
    """Makes the state a session starts in, a fresh one each time."""
    progress: Callable[[S, Any], float]
    """Share of the task's subgoals that state and answer meet, in [0, 1]; the answer is None before ``finish``."""
    plan: tuple[Call, ...]
    """Calls that solve the task, ``finish`` last; empty where none are known."""
    context: str = ""
    """What makes the task another one than the same goal elsewhere, such as the date; in one line."""

    @property
    def label(self) -> str:
        """Goal and context in one line."""
        return f"{self.goal} ({self.context})" if self.context else self.goal


def answered(expected: Any, tolerance: float = 0.0) -> Callable[[object, Any], float]:
    """The ``progress`` of a question: 1 for the right answer, else 0. ``tolerance`` is absolute, for numbers."""
    return lambda state, answer: float(answer is not None and matches(expected, answer, tolerance))


def question(
    goal: str,
    start: Callable[[], S],
    answer: Any,
    *calls: Call,
    tolerance: float = 0.0,
    context: str = "",
) -> Problem[S]:
    """A task that is solved by ``finish`` with the right answer, found by the calls."""
    return Problem(
        goal=goal,
        start=start,
        progress=answered(answer, tolerance),
        plan=(*calls, ("finish", {"answer": answer})),
        context=context,
    )
