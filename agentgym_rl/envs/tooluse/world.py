"""The world of tools: calls change or read a state, ``finish`` ends the episode and is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic

from agentgym_rl.envs.actions import parse_rest
from agentgym_rl.envs.core import (
    EnvSpec,
    Observation,
    OracleUnavailable,
    ProtocolError,
    Step,
    Style,
    Task,
    TaskNotFound,
    TextEnv,
)
from agentgym_rl.envs.tools import to_command
from agentgym_rl.envs.tooluse import wording
from agentgym_rl.envs.tooluse.problem import Problem
from agentgym_rl.envs.tooluse.tasks import Catalogue
from agentgym_rl.envs.tooluse.tool import CHECK, FINISH, Function, Refused, S, read_command


class ToolWorld(TextEnv, Generic[S]):
    """Base of the worlds whose actions are calls ``<name> with Action Input: <arguments as JSON>``.

    A world gives its functions and tasks; ``finish`` and ``check_valid_actions`` come with the base. The reward is 1
    when at ``finish`` every subgoal is met, else 0; nothing but ``finish`` ends an episode. ``info`` holds ``invalid``
    and ``raw_reward``, the share of subgoals that are met.

    Args:
        style: wording of instruction and observations.
        functions: the world's own tools.
        tasks: its tasks.
        about, hint, example: see :func:`wording.instruction`.
        max_turns, licence: see :class:`EnvSpec`.
    """

    def __init__(
        self,
        style: Style,
        *,
        functions: Sequence[Function[S]],
        tasks: Catalogue[S],
        about: str,
        hint: str,
        example: str,
        max_turns: int,
        licence: str,
    ) -> None:
        super().__init__(style)
        self._tasks = tasks
        self._functions: Mapping[str, Function[S]] = {function.tool.name: function for function in functions}
        tools = (*(function.tool for function in functions), CHECK, FINISH)
        self._tools = {tool.name: tool for tool in tools}
        styles: tuple[Style, ...] = ("agentgym", "compact")
        self._spec = EnvSpec(
            name=self.name,
            instructions={each: wording.instruction(each, functions, about, hint, example) for each in styles},
            splits=tasks.splits,
            max_turns=max_turns,
            success_above=0.99,
            tools=tools,
            read=parse_rest,
            write=wording.write,
            licence=licence,
        )
        self._session: tuple[Problem[S], S] | None = None

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    async def _reset(self, task: Task) -> Observation:
        problem = self._find(task)
        self._session = problem, problem.start()
        return Observation(wording.first(problem.goal, self.style))

    async def _step(self, action: str) -> Step:
        if self._session is None:
            raise ProtocolError(f"{self.name} was stepped before a reset or after the end of the episode")
        problem, state = self._session
        answer: Any = None
        invalid = False
        try:
            name, arguments = read_command(self._tools, action)
            if name == FINISH.name:
                answer = arguments["answer"]
                text = wording.result(str(answer), self.style)
            elif name == CHECK.name:
                text = wording.names(self._spec.tools, self.style)
            else:
                text = self._call(self._functions[name], state, arguments)
        except Refused as error:
            invalid = True
            text = wording.refused(str(error), self.style)
        done = answer is not None
        progress = problem.progress(state, answer)
        if done:
            self._session = None
        info = {"invalid": invalid, "raw_reward": progress}
        return Step(Observation(text), float(done and progress >= 1), terminated=done, info=info)

    async def _close(self) -> None:
        self._session = None

    def goal(self, task: Task) -> str:
        return self._find(task).label

    def difficulty(self, task: Task) -> str:
        """The number of calls the oracle takes, ``finish`` among them, such as ``calls 4-5``."""
        return self._tasks.difficulty(self._index(task))

    def oracle(self, task: Task) -> list[str]:
        plan = self._find(task).plan
        if not plan:
            raise OracleUnavailable(f"no solution of {task} is known")
        return [to_command(self._spec.tools, name, arguments) for name, arguments in plan]

    def _call(self, function: Function[S], state: S, arguments: Mapping[str, Any]) -> str:
        found = function.run(state, **arguments)
        return wording.result(function.brief(found) if self.style == "compact" else str(found), self.style)

    def _find(self, task: Task) -> Problem[S]:
        return self._tasks.problem(self._index(task))

    def _index(self, task: Task) -> int:
        if task.env != self.name:
            raise TaskNotFound(f"{task} is not a task of {self.name}")
        return task.index
