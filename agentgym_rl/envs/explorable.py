"""Environments in which tasks can be found where there are none."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from agentgym_rl.envs.core import TextEnv
from agentgym_rl.envs.tools import Tool

Call = tuple[str, Mapping[str, Any]]
"""Name of a tool and the arguments of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A task that was found: a question with its answer, or a change that a call shows."""

    instruction: str
    calls: Sequence[Call] = ()
    """What solves it, in order, without what ends an episode."""
    answer: Any = ""
    shown: Call | None = None
    """The call that shows a change; None for a question."""
    equals: Any = None
    """What it gives then, as JSON."""


class Explorable(TextEnv):
    """An environment with an option ``tasks``, a file of tasks that take the place of its own: it can be explored.

    ``agentgym-rl explore`` runs episodes of lines whose instruction is open, and writes a line for what came of them.
    Beside the keys of :meth:`line` it gives each ``instruction``, ``split`` and ``difficulty``, and ``start`` and
    ``setup`` where the environment has them; :mod:`agentgym_rl.envs.task_file` reads these.
    """

    by_one_call: ClassVar[bool] = False
    """Whether nothing can be changed, and each task is a question that the result of a single call answers. There is no
    ``setup`` then."""

    @property
    def lacks(self) -> str:
        """Which option it needs before it can be explored, and what for; empty where it needs none."""
        return ""

    @property
    def starts(self) -> Mapping[str, Sequence[int]]:
        """Its own tasks by split: a line begins as the one of its ``start`` does. Empty where all begin alike."""
        return {}

    @property
    @abstractmethod
    def probes(self) -> Sequence[Tool]:
        """The tools to explore: all but those that end an episode."""

    @abstractmethod
    def call(self, command: str) -> Call | None:
        """The call of a tool to explore in a command; None where it has none."""

    async def ask(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What a call gives in the present state of the session, as JSON; it is no step."""
        raise NotImplementedError(f"{self.spec.name} has no changes to look at")

    @abstractmethod
    def line(self, found: Found) -> dict[str, Any]:
        """The keys of a line of the file that are this environment's own: what gives the reward, and the oracle.

        A :class:`Found` that has only an instruction is the task of an explorer; any reward will do.
        """
