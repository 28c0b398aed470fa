"""One task of an environment of tools, and its draft."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

from agentgym_rl.envs.explorable import Call
from agentgym_rl.envs.tools import Tool
from agentgym_rl.envs.tooluse.answers import matches
from agentgym_rl.envs.tooluse.tool import FINISH, Function, S, ToolEnvTexts

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(Generic[S]):
    """The goal, the start of the session, and the condition for success."""

    goal: str
    """What the agent is asked, in one line."""
    start: Callable[[], S]
    """Makes the state a session starts in, a fresh one each time."""
    progress: Callable[[S, Any], float]
    """Share of the task's subgoals that state and answer meet, in [0, 1]; the answer is None before ``finish``."""
    plan: tuple[Call, ...]
    """Calls that solve the task, ``finish`` last; empty where none are known."""
    context: str = ""
    """What tells the task from others with the same goal, such as the date; in one line."""

    @property
    def label(self) -> str:
        """Goal and context in one line."""
        return f"{self.goal} ({self.context})" if self.context else self.goal


def answered(expected: Any, tolerance: float = 0.0) -> Callable[[object, Any], float]:
    """The ``progress`` of a question: 1 for the right answer, else 0. ``tolerance`` is absolute, for numbers."""
    return lambda state, answer: float(answer is not None and matches(expected, answer, tolerance))


class NoTask(Exception):
    """The random choices of a draft give no task, for instance no unique answer."""


class Draft(ABC, Generic[S]):
    """A task that is being made: random choices, and a plan of calls.

    Calls are carried out as they are planned, so answers and final states are those that the agent gets.
    """

    texts: ClassVar[ToolEnvTexts]
    functions: ClassVar[Mapping[str, Function]]
    finish: ClassVar[Tool] = FINISH
    """Ends the task."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.calls: list[Call] = []

    @abstractmethod
    def start(self) -> S:
        """A fresh state, the one a session starts in."""

    @cached_property
    def state(self) -> S:
        """The state after the calls so far."""
        return self.start()

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """The result of a call, which becomes the plan's next. Raises Refused: the call cannot be carried out."""
        self.calls.append((tool, arguments))
        return self.functions[tool].run(self.state, **arguments)

    def require(self, value: T | None) -> T:
        """The value. Raises NoTask: it is false, empty or None."""
        if not value:
            raise NoTask
        return value

    def only(self, items: Sequence[T], values: Sequence[Any], pick: Callable[..., Any] = max) -> T:
        """The item with the greatest of the values, or with the one that ``pick`` gives.

        Raises:
            NoTask: several items have it, or there are no items.
        """
        best = pick(values, default=None)
        self.require(values.count(best) == 1)
        return items[values.index(best)]

    def goal(self, template: str, /, **words: Any) -> str:
        """The text of a goal of ``env.toml``."""
        return self.texts.goals[template].format(draft=self, **words)

    def problem(
        self, goal: str, progress: Callable[[S, Any], float], answer: Any = "done", context: str = ""
    ) -> Problem[S]:
        """The task that the calls and ``finish`` with the answer solve."""
        plan = (*self.calls, ("finish", {"answer": answer}))
        return Problem(goal=goal, start=self.start, progress=progress, plan=plan, context=context)

    def ask(self, template: str, answer: Any, tolerance: float = 0.0, /, **words: Any) -> Problem[S]:
        """The question that the calls answer; the goal is a template of ``env.toml``, filled with the words."""
        return self.problem(self.goal(template, **words), answered(answer, tolerance), answer)


def yes(answer: bool) -> str:
    """The answer to a question that takes Yes or No."""
    return "Yes" if answer else "No"
