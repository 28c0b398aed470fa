"""Runs in an environment with the real ``openenv`` package: ``serve KIND PORT``, or ``play URL`` with a plan as JSON.

The servers are made with its library; the client is its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from uuid import uuid4

from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient


class Say(Action):
    message: str


class Heard(Observation):
    prompt: str = ""
    messages: tuple[dict[str, Any], ...] = ()


class Guess(Environment):
    """Guess a number from 0 to 9, in text; tasks have places in splits."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state, self._number = State(episode_id=str(uuid4())), 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **data: Any) -> Heard:
        self._number = data.get("index", seed or 0) % 10
        self._state = State(episode_id=episode_id or str(uuid4()))
        return Heard(prompt="Guess.", messages=[{"sender_id": -1, "content": "Guess a number from 0 to 9."}])

    def step(self, action: Say, timeout_s: float | None = None, **_: Any) -> Heard:
        self._state.step_count += 1
        if action.message == "boom":
            raise RuntimeError("the game broke")
        right = action.message == str(self._number)
        reply = "Right." if right else f"{action.message}? No."
        return Heard(prompt="Guess.", messages=[{"sender_id": 0, "content": reply}], reward=float(right), done=right)

    @property
    def state(self) -> State:
        return self._state

    def list_splits(self) -> list[str]:
        return ["train", "test"]

    def num_tasks(self, split: str) -> int:
        return 10

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        return [{"index": index} for index in range(10)]

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        return self.list_tasks(split)[index]

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        return self.list_tasks(split)[start:stop]


class Tools(MCPEnvironment):
    """A tool that echoes, and one that adds."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        server = FastMCP("tools")

        @server.tool
        def echo_message(message: str) -> str:
            """Echo a message."""
            return message

        @server.tool
        def add(a: int, b: int = 0) -> int:
            """The sum of two numbers."""
            return a + b

        super().__init__(server)
        self._state = State(episode_id=str(uuid4()))

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Observation:
        self._state = State(episode_id=episode_id or str(uuid4()))
        return Observation(metadata={"status": "ready"})

    def _step_impl(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        return Observation(metadata={"error": f"unknown action {type(action).__name__}"})

    @property
    def state(self) -> State:
        return self._state


def serve(kind: str, port: int) -> None:
    import uvicorn

    text = (Guess, Say, Heard, "guess")
    env, action, observation, name = text if kind == "text" else (Tools, CallToolAction, CallToolObservation, "tools")
    app = create_app(env, action, observation, env_name=name, max_concurrent_envs=4)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


async def play(url: str, plan: dict[str, Any]) -> dict[str, Any]:
    """What the real clients see: of the generic one, and of the one for tools where the plan has calls."""
    seen: dict[str, Any] = {}
    async with GenericEnvClient(base_url=url) as env:
        first = await env.reset(**plan["reset"])
        seen["first"], seen["steps"] = first.observation, []
        for action in plan["actions"]:
            result = await env.step(action)
            seen["steps"].append([result.observation, result.reward, result.done, result.metadata])
        seen["state"] = await env.state()
        try:
            await env.reset(item_id="nothing")
        except RuntimeError as error:
            seen["error"] = str(error)
    if plan.get("calls"):
        async with MCPToolClient(base_url=url) as tools:
            seen["tools"] = [tool.name for tool in await tools.list_tools()]
            await tools.reset(**plan["reset"])
            seen["calls"] = [await tools.call_tool(name, **arguments) for name, arguments in plan["calls"]]
    return seen


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        print(json.dumps(asyncio.run(play(sys.argv[2], json.loads(sys.argv[3]))), default=str))
