"""What the OpenEnv server does, without HTTP: sessions that answer messages, and the tasks of an environment."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

from agentgym_rl.envs.actions import ActionFormat, InvalidAction
from agentgym_rl.envs.core import EnvError, Observation, Step, Task, in_thread
from agentgym_rl.envs.formats import reader
from agentgym_rl.envs.numbering import Panel, digests
from agentgym_rl.envs.protocol.openenv import wire
from agentgym_rl.envs.protocol.openenv.wire import Code, Data, Fault
from agentgym_rl.envs.protocol.server.metrics import Metrics
from agentgym_rl.envs.protocol.server.sessions import Session, Sessions
from agentgym_rl.envs.registry import make
from agentgym_rl.envs.tools import BadCall, to_command

log = logging.getLogger(__name__)


class Served:
    """One environment of a server.

    Args:
        panels: those of its panels that the Task API lists beside its splits.

    Raises:
        EnvError: it is unknown or cannot be loaded.
        ValueError, TypeError: an option of its class is wrong, or a panel has the name of a split or another panel.
    """

    def __init__(
        self, name: str, options: Mapping[str, Any], sessions: Sessions, metrics: Metrics, panels: Sequence[Panel] = ()
    ) -> None:
        self.name, self.sessions, self.metrics = name, sessions, metrics
        self._make = partial(make, name, **options)
        self.env = self._make()
        self.spec = self.env.spec
        self.read = reader(self.spec, ActionFormat.REACT)
        self._digests: dict[str, str] = {}
        self._panels = {panel.name: panel for panel in panels}
        self._splits: dict[str, Sequence[int]] = dict(self.spec.splits)
        for panel in panels:
            if panel.name in self._splits:
                raise ValueError(f"{name} has a split or a panel {panel.name!r} already; give a panel of another name")
            self._splits[panel.name] = tuple(Task.parse(item_id).index for item_id in panel.item_ids)

    def open(self) -> Game:
        """Open a session. Raises Full: there are too many."""
        session = self.sessions.open(self.name, self._make)
        self.metrics.created.labels(self.name).inc()
        self.metrics.open.labels(self.name).inc()
        return Game(self, session)

    def choose(self, data: Data) -> Task:
        """The task that a reset asks for: ``item_id``; or ``split`` and ``index``, the place in the split; or one drawn
        from ``split`` (``train`` where left out), by ``seed`` where there is one.

        Raises:
            Fault: a field is wrong.
            TaskNotFound: it is no item id.
        """
        item_id, split, index, seed = (data.get(key) for key in ("item_id", "split", "index", "seed"))
        if item_id is not None:
            return Task.parse(str(item_id))
        if index is not None:
            return self.task(split, index)
        if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool) or seed < 0):
            raise Fault(f"seed is {str(seed)[:80]!r}; give an integer from 0 on")
        split = "train" if split is None else split
        if not (indices := self._indices(split)):
            raise Fault(f"{self.name} {split} has no task; choose another of the splits {', '.join(self._splits)}")
        rng = random.SystemRandom() if seed is None else random.Random(seed)
        return Task(self.name, indices[rng.randrange(len(indices))])

    def task(self, split: object, index: object) -> Task:
        """The task at a place in a split. Raises Fault: there is no such split or place."""
        indices = self._indices(split)
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(indices):
            raise Fault(f"{self.name} {split} has no task {str(index)[:80]}; it has 0 to {len(indices) - 1}")
        return Task(self.name, indices[index])

    async def splits(self) -> list[dict[str, Any]]:
        """The splits with size and digest (:func:`agentgym_rl.envs.numbering.digests`), and the panels with theirs."""
        if not self._digests:
            of_panels = {name: panel.digest for name, panel in self._panels.items()}
            self._digests = {**await in_thread(digests, self._make()), **of_panels}
        return [
            {
                "name": split,
                "type": "test" if split in self._panels else split if split in ("train", "test") else "validation",
                "num_tasks": len(indices),
                "digest": self._digests[split],
            }
            for split, indices in self._splits.items()
        ]

    def count(self, split: object) -> int:
        """The number of tasks in a split."""
        return len(self._indices(split))

    async def tasks(self, split: object, start: Any = None, stop: Any = None) -> list[dict[str, Any]]:
        """The tasks of a part of a split, at most :data:`~.wire.MOST_TASKS` of them.

        Raises:
            Fault: there is no such split, or a bound is no integer.
        """
        for bound in (start, stop):
            if not isinstance(bound, int | None) or isinstance(bound, bool):
                raise Fault(f"start and stop are integers or null, got {str(bound)[:80]!r}")
        places = range(self.count(split))[start:stop][: wire.MOST_TASKS]
        return await in_thread(lambda: [self.describe(split, place) for place in places])

    def describe(self, split: object, index: object) -> dict[str, Any]:
        """A task of the Task API; it may be given to ``reset`` as it is.

        Raises:
            Fault: there is no such split or place.
        """
        task = self.task(split, index)
        goal, difficulty = self.env.goal(task), self.env.difficulty(task)
        return {"item_id": str(task), "split": split, "index": index, "goal": goal, "difficulty": difficulty}

    def _indices(self, split: object) -> Sequence[int]:
        if not isinstance(split, str) or split not in self._splits:
            raise Fault(f"{self.name} has no split {str(split)[:80]!r}; it has {', '.join(self._splits)}")
        return self._splits[split]


@dataclass(frozen=True, slots=True)
class State:
    """The answer to ``state``."""

    episode_id: str | None = None
    step_count: int = 0
    item_id: str | None = None
    total_reward: float = 0.0
    done: bool = False

    def after(self, step: Step) -> State:
        total = self.total_reward + step.reward
        return replace(self, step_count=self.step_count + 1, total_reward=total, done=step.done)


class Game:
    """One session: an environment, and the episode that runs in it."""

    def __init__(self, served: Served, session: Session) -> None:
        self.served, self.session, self.state = served, session, State()

    async def answer(self, raw: str) -> dict[str, Any] | None:
        """The reply to a message; None where the client is done. Every error becomes a reply."""
        kind, started = "message", time.perf_counter()
        try:
            kind, data = wire.read_message(raw)
            if kind == "close":
                return None
            async with self.session.lock:
                if self.session.closed:
                    raise Fault("the session was unused for too long and is closed", Code.SESSION_ERROR)
                self.served.sessions.use(self.session)
                return await self._reply(kind, data)
        except Fault as fault:
            return self._refused(kind, fault.code, str(fault))
        except EnvError as error:
            return self._refused(kind, Code.EXECUTION_ERROR, str(error), type=type(error).__name__)
        except Exception:  # a bug, of an environment or of the server, must not end the server
            log.exception("a %s of %s failed", kind, self.served.name)
            return self._refused(kind, Code.EXECUTION_ERROR, "the server failed; its log says why", type="EnvFault")
        finally:
            self.served.metrics.seconds.labels(self.served.name, kind).observe(time.perf_counter() - started)

    async def reset(self, data: Data) -> dict[str, Any]:
        """Start a task, see :meth:`Served.choose`; ``episode_id`` names the episode.

        Raises:
            Fault: a field is wrong.
            EnvError: the environment cannot start it.
        """
        name = data.get("episode_id")
        if name is not None and (not isinstance(name, str) or len(name) > 255):
            raise Fault("episode_id should be a string of at most 255 characters")
        task = self.served.choose(data)
        first = await self.session.env.reset(task)
        self.state = State(str(uuid4()) if name is None else name, item_id=str(task))
        instruction = self.served.spec.instruction(self.session.env.style)
        return wire.write_result(Step(first, 0.0, terminated=False), str(task), instruction)

    async def step(self, data: Data) -> dict[str, Any]:
        """Carry out an action: ``message``, ``response`` or a tool call (:func:`.wire.schemas`).

        Raises:
            Fault: it is no action.
            EnvError: the environment failed, or no task was started.
        """
        if data.get("type") == "list_tools":
            return {"observation": {"tools": wire.write_tools(self.served.spec.tools)}, "reward": None, "done": False}
        command = self._command(data)
        if isinstance(command, str):
            step = await self.session.env.step(command)
        elif self.state.item_id is None or self.state.done:
            step = await self.session.env.step("")  # raises what it says of a step out of order
        else:
            step = Step(Observation(command.observation), 0.0, terminated=False, info={"invalid": True})
        self.state = self.state.after(step)
        self.served.metrics.steps.labels(self.served.name).inc()
        tool = data["tool_name"] if data.get("type") == "call_tool" else None
        return wire.write_result(step, str(self.state.item_id), tool=tool)

    async def rpc(self, data: Data) -> dict[str, Any]:
        """The answer to a JSON-RPC request of MCP: ``tools/list`` or ``tools/call``."""
        method, params, number = data.get("method"), data.get("params") or {}, data.get("id")
        try:
            if method == "tools/list":
                return success(number, {"tools": wire.write_tools(self.served.spec.tools, "inputSchema")})
            if method == "tools/call" and isinstance(params, dict):
                call = {"type": "call_tool", "tool_name": params.get("name"), "arguments": params.get("arguments", {})}
                reply = await self.step(call)
                text, info = reply["observation"]["text"], reply["observation"]["metadata"]["info"]
                scored = {"isError": bool(info.get("invalid")), "reward": reply["reward"], "done": reply["done"]}
                return success(number, {"content": [{"type": "text", "text": text}], "data": text, **scored})
        except (Fault, EnvError) as error:
            return failure(number, -32000, str(error))
        return failure(number, -32601, f"there is no method {str(method)[:80]!r}")

    async def close(self) -> None:
        """End the session; may be called twice."""
        if await self.served.sessions.close(self.session):
            self.served.metrics.closed.labels(self.served.name).inc()
            self.served.metrics.open.labels(self.served.name).dec()

    async def _reply(self, kind: str, data: Data) -> dict[str, Any]:
        match kind:
            case "reset":
                return {"type": "observation", "data": await self.reset(data)}
            case "step":
                return {"type": "observation", "data": await self.step(data)}
            case "mcp":
                return {"type": "mcp", "data": await self.rpc(data)}
        return {"type": "state", "data": asdict(self.state)}

    def _command(self, data: Data) -> str | InvalidAction:
        """The command of an action; an InvalidAction where the agent made a mistake."""
        message, response, kind = (data.get(key) for key in ("message", "response", "type"))
        if kind == "call_tool":
            name, arguments = data.get("tool_name"), data.get("arguments", {})
            if not isinstance(name, str) or not isinstance(arguments, dict):
                raise Fault("call_tool has a tool_name and arguments, an object")
            try:
                return to_command(self.served.spec.tools, name, arguments)
            except BadCall as error:
                return InvalidAction(f"Error: {error}")
        if isinstance(message, str) and response is None and kind is None:
            return message
        if isinstance(response, str) and message is None and kind is None:
            action = self.served.read(response)
            return action if isinstance(action, InvalidAction) else action.command
        raise Fault("an action has one of: message, response (both text), type (call_tool or list_tools)")

    def _refused(self, kind: str, code: Code, message: str, **more: Any) -> dict[str, Any]:
        self.served.metrics.errors.labels(self.served.name, kind, code).inc()
        return wire.write_error(code, message, **more)


def success(number: Any, result: Data) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def failure(number: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
