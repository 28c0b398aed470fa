"""An environment's tools as an MCP server on standard input and output: a process is a session."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent
from mcp.types import Tool as McpTool

from agentgym_rl.envs.core import EnvError, Step, Task, TextEnv
from agentgym_rl.envs.registry import make
from agentgym_rl.envs.tools import BadCall, Tool, to_command

START = "start_task"


class ToolServer:
    """A session of an environment, as tools.

    ``start_task`` comes first; its result is the first observation. Every result has text for the agent and, as
    structured content, ``reward``, ``terminated``, ``truncated`` and the item id.

    Raises:
        ValueError: the environment has no tools.
    """

    def __init__(self, env: TextEnv) -> None:
        self.env, self._task = env, ""
        self._turn = asyncio.Lock()  # a client may send several calls at once
        if not env.spec.tools:
            raise ValueError(f"{env.spec.name} describes no tools, so it cannot be served as tools")
        splits = ", ".join(env.spec.splits)
        self._start = Tool(
            START,
            "Start a task; the result says what to do. A task in progress is given up.",
            {
                "task": {"type": "string", "description": f"item id, such as {env.spec.name}_{self._first()}"},
                "split": {"type": "string", "description": f"draw a task from this split: {splits}"},
            },
            ("task", "split"),
        )
        self.tools = (self._start, *env.spec.tools)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """The result of a call; an error of the environment or of the agent is a result, too."""
        try:
            async with self._turn:
                if name == START:
                    self._start.command(arguments)
                    return await self._reset(arguments)
                step = await self.env.step(to_command(self.env.spec.tools, name, arguments))
                return self._result(step.observation.text, step, bool(step.info.get("invalid")))
        except (BadCall, EnvError) as error:
            return CallToolResult(content=[TextContent(type="text", text=f"Error: {error}")], is_error=True)

    async def _reset(self, arguments: Mapping[str, Any]) -> CallToolResult:
        given, split = arguments.get("task"), arguments.get("split", "train")
        if split not in self.env.spec.splits:
            raise BadCall(f"there is no split {split!r}; there are {', '.join(self.env.spec.splits)}")
        indices = self.env.spec.splits[split]
        if given is None and not indices:
            raise BadCall(f"the split {split!r} has no task; there are {', '.join(self.env.spec.splits)}")
        task = Task(self.env.spec.name, random.choice(indices)) if given is None else Task.parse(given)
        first = await self.env.reset(task)
        self._task = str(task)
        return self._result(first.text, Step(first, 0.0, terminated=False), False)

    def _result(self, text: str, step: Step, invalid: bool) -> CallToolResult:
        result = {
            "item_id": self._task,
            "reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
        }
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=result, is_error=invalid
        )

    def _first(self) -> int:
        return next((indices[0] for indices in self.env.spec.splits.values() if indices), 0)


async def serve_tools(name: str, options: Mapping[str, Any]) -> None:
    """Serve one session of an environment on standard input and output, until the client closes them.

    Raises:
        EnvError: the environment cannot be loaded.
        ValueError: it has no tools, or an option of it is wrong.
    """
    session = ToolServer(make(name, **options))

    async def listed(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        functions = [tool.schema["function"] for tool in session.tools]
        return ListToolsResult(
            tools=[
                McpTool(name=function["name"], description=function["description"], input_schema=function["parameters"])
                for function in functions
            ]
        )

    async def called(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        return await session.call(params.name, params.arguments or {})

    server: Server[Any] = Server(f"agentgym-rl {name}", on_list_tools=listed, on_call_tool=called)
    try:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        await session.env.close()
