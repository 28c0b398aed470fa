"""Tasks that are solved with the tools of an MCP server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_rl.envs.actions import parse_rest
from agentgym_rl.envs.core import (
    EnvFault,
    EnvSpec,
    EnvUnavailable,
    Observation,
    OracleUnavailable,
    Step,
    Style,
    Task,
)
from agentgym_rl.envs.explorable import Call
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.task_file import read_tasks, splits_of, task_at
from agentgym_rl.envs.tools import Tool, to_command
from agentgym_rl.envs.tooluse import wording
from agentgym_rl.envs.tooluse.calls import instructions, read_call
from agentgym_rl.envs.tooluse.tool import FINISH, Refused
from agentgym_rl.envs.tooluse.written import ExplorableTools, Outcome, ToolTask, task_of

if TYPE_CHECKING:
    from agentgym_rl.envs.mcp.connection import Connection, Server

ABOUT = "You solve a task with tools."
MISSING = "without a server: set the options server (a command or URL) and tasks (a file)"
NO_TASKS = "without tasks: set the option tasks (a file); agentgym-rl explore writes one"


class MCP(ExplorableTools):
    """The tools of an MCP server and ``finish``, which ends an episode; a check of the task then gives the reward.

    The server is asked once in a process for its tools. With a command every episode has a process of its own, which
    starts at the reset and ends with the session. What a tool says of its own failure is an observation; a server that
    ends, hangs or breaks the protocol is a failure of the infrastructure.

    Args:
        style: wording of the instruction's frame.
        server: command line of a server that talks on standard input and output, or URL of one (streamable HTTP).
        tasks: file of tasks, :mod:`agentgym_rl.envs.tooluse.written`; without it only the tools are known.
        instruction: precedes the list of tools.
        variables: environment variables of the server's process, beside ``PATH``, ``HOME`` and the like.
        folder: working folder of the server's process.
        timeout: most seconds for a call of a tool.
        start_timeout: most seconds until the server has started.
        max_turns: default turn limit.
        success_above: an episode is a success when its reward is greater than this.

    Raises:
        ValueError: an argument is out of range, a file is malformed, or a tool's name is taken.
        MissingExtra: the package ``mcp`` is not installed.
        EnvUnavailable, EnvTimeout: the server does not start.
    """

    name = "mcp"

    def __init__(
        self,
        style: Style = "agentgym",
        server: str | None = None,
        tasks: str | None = None,
        instruction: str = ABOUT,
        variables: Mapping[str, str] | None = None,
        folder: str | None = None,
        timeout: float = 30.0,
        start_timeout: float = 60.0,
        max_turns: int = 15,
        success_above: float = 0.99,
    ) -> None:
        super().__init__(style)
        if server is None:
            for option, value in (("tasks", tasks), ("variables", variables), ("folder", folder)):
                if value is not None:
                    raise ValueError(f"mcp's option {option} needs the option server: give both")
        self._tasks: Sequence[ToolTask] = ()
        self._missing = MISSING if server is None else NO_TASKS
        tools: tuple[Tool, ...] = (FINISH,)
        if server is not None:
            with needs("environment 'mcp'", "mcp"):
                from agentgym_rl.envs.mcp.connection import Server, offered
            pairs = tuple(sorted((variables or {}).items()))
            self._server = Server(server, pairs, folder, timeout, start_timeout)
            tools = _with_finish(offered(self._server), server)
            if tasks is not None:
                self._tasks = read_tasks(tasks, _reader(self._server))
        splits = splits_of(self._tasks)
        self._spec = EnvSpec(
            name=self.name,
            instructions=instructions(f"{instruction} Call finish with the answer to end.", tools),
            splits=splits,
            max_turns=max_turns,
            success_above=success_above,
            tools=tools,
            read=parse_rest,
            write=wording.write,
            deterministic=False,
            replayable=False,
            extra="mcp",
            licence="the server's",
            unavailable={} if self._tasks else dict.fromkeys(splits, self._missing),
        )
        self._connection: Connection | None = None
        self._task: ToolTask
        self._calls: list[Call] = []

    async def _reset(self, task: Task) -> Observation:
        self._task = self._find(task)
        from agentgym_rl.envs.mcp.connection import Connection

        await self._close()
        self._calls = []
        self._connection = await Connection.open(self._server)
        for name, arguments in self._task.setup:
            result = await self._connection.call(name, arguments)
            if result.failed:
                raise EnvFault(f"{task}: its setup, {name}, failed: {result.text[:200]}")
        return Observation(wording.first(self._task.instruction, self.style))

    async def _step(self, action: str) -> Step:
        try:
            name, arguments = read_call(self._spec.tools, action)
        except Refused as error:
            return Step(Observation(wording.refused(str(error), self.style)), 0.0, False, info={"invalid": True})
        if name == FINISH.name:
            reward = await self._task.reward(Outcome(arguments["answer"], tuple(self._calls), self.ask))
            text = wording.result(str(arguments["answer"]), self.style)
            return Step(Observation(text), reward, terminated=True, info={"invalid": False, "raw_reward": reward})
        self._in_episode = False  # until the server has answered: a step is never repeated
        assert self._connection is not None
        self._calls.append((name, arguments))
        result = await self._connection.call(name, arguments)
        self._in_episode = True
        said = wording.refused if result.failed else wording.result
        return Step(Observation(said(result.text, self.style)), 0.0, False, info={"invalid": result.failed})

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    @property
    def lacks(self) -> str:
        asked = f"options.{self.name}.server= is missing: the command or URL of the server to explore"
        return asked if self._missing == MISSING else ""

    def goal(self, task: Task) -> str:
        return self._find(task).instruction

    def difficulty(self, task: Task) -> str:
        return self._find(task).difficulty

    def oracle(self, task: Task) -> list[str]:
        plan = self._find(task).plan
        if not plan:
            raise OracleUnavailable(f"{task} has no plan")
        return [to_command(self._spec.tools, name, arguments) for name, arguments in plan]

    async def ask(self, name: str, arguments: Mapping[str, Any]) -> Any:
        assert self._connection is not None
        return (await self._connection.call(name, arguments)).value

    def _find(self, task: Task) -> ToolTask:
        index = self._index(task)
        if not self._tasks:
            raise EnvUnavailable(f"mcp has no tasks {self._missing}")
        return task_at(self.name, self._tasks, index)


@cache
def _reader(server: Server) -> Callable[[Mapping[str, Any], Path], ToolTask]:
    """What reads a line as :func:`task_of` does, and refuses a call that does not fit the tools of a server."""
    from agentgym_rl.envs.mcp.connection import offered

    tools = offered(server)

    def read(line: Mapping[str, Any], folder: Path) -> ToolTask:
        task = task_of(line, folder)
        task.check_calls(tools, FINISH)
        return task

    return read


def _with_finish(tools: tuple[Tool, ...], server: str) -> tuple[Tool, ...]:
    """A server's tools, and ``finish``. Raises ValueError: the server has no tools, or one of that name."""
    if not tools:
        raise ValueError(f"the MCP server {server!r} has no tools")
    if any(tool.name == FINISH.name for tool in tools):
        raise ValueError(f"the MCP server {server!r} has a tool {FINISH.name!r}, the name of what ends an episode")
    return (*tools, FINISH)
