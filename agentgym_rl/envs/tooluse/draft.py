"""A task in the making: calls are carried out as they are planned, so answers come from what the agent will read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic

from agentgym_rl.envs.tooluse.problem import Call, Problem, question
from agentgym_rl.envs.tooluse.tool import Function, S


class Draft(Generic[S]):
    """Records the calls of a plan and gives their results."""

    def __init__(self, functions: Mapping[str, Function[S]], start: Callable[[], S]) -> None:
        self._functions = functions
        self._start = start
        self._state = start()
        self.calls: list[Call] = []

    def call(self, name: str, /, **arguments: Any) -> Any:
        """The result of a call, which becomes the plan's next.

        Raises:
            Refused: the call cannot be carried out.
        """
        self.calls.append((name, arguments))
        return self._functions[name].run(self._state, **arguments)

    def ask(self, goal: str, answer: Any, tolerance: float = 0.0, context: str = "") -> Problem[S]:
        """The question that the calls answer."""
        return question(goal, self._start, answer, *self.calls, tolerance=tolerance, context=context)
