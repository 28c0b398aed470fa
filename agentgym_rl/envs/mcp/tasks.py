"""Tasks for the tools of an MCP server: a file of JSON lines, and the checks of what the agent did."""

import importlib
import importlib.util
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from agentgym_rl.envs.core import EnvFault
from agentgym_rl.envs.tables import read_jsonl
from agentgym_rl.envs.tooluse.answers import matches

Call = tuple[str, Mapping[str, Any]]
"""Name of a tool and the arguments of the call."""
Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Calls a tool of the server for a check; gives the result as JSON, or as text."""

KEYS = {"instruction", "split", "difficulty", "setup", "check", "plan"}
CHECKS = ("answer", "state", "python")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check written in Python is given."""

    answer: Any
    """The argument of ``finish``."""
    calls: Sequence[Call]
    """The calls of the agent, in order, those that failed among them; without ``finish``."""
    ask: Ask
    """``await outcome.ask(tool, {argument: value})``: a call of the same session, to look at its state."""


@dataclass(frozen=True, slots=True)
class McpTask:
    """One line of a file."""

    instruction: str
    check: Mapping[str, Any]
    split: str
    difficulty: str
    setup: tuple[Call, ...]
    """Calls before the agent's turn."""
    plan: tuple[Call, ...]
    """Calls that solve the task, ``finish`` last; empty where none are known."""
    folder: Path
    """Folder of the file, where a check's Python file is."""

    async def reward(self, outcome: Outcome) -> float:
        """The reward of a finished episode, in [0, 1].

        Raises:
            EnvFault: the check itself fails, or gives no number in [0, 1].
        """
        if "answer" in self.check:
            return float(matches(self.check["answer"], outcome.answer, float(self.check.get("tolerance", 0.0))))
        if "state" in self.check:
            state = self.check["state"]
            return float(await outcome.ask(state["tool"], state.get("arguments", {})) == self.check["equals"])
        try:
            reward = _function(self.check["python"], self.folder)(outcome)
            reward = float(await reward if inspect.isawaitable(reward) else reward)
        except Exception as error:  # the user's code; what it raises is no answer about the agent
            raise EnvFault(f"the check {self.check['python']} failed: {type(error).__name__}: {error}") from error
        if not isfinite(reward) or not 0 <= reward <= 1:
            raise EnvFault(f"the check {self.check['python']} gave {reward}; a reward is in [0, 1]")
        return reward


def read_tasks(path: str | Path) -> tuple[McpTask, ...]:
    """The tasks of a file, in order.

    Raises:
        ValueError: there is no such file, it is empty, or a line is no task; names file, line and fault.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"no file of tasks at {path}")
    stamp = path.stat()
    return _read(path.resolve(), stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=16)
def _read(path: Path, changed: int, size: int) -> tuple[McpTask, ...]:
    """The tasks of a file as of its last change, so that sessions share them."""
    tasks = []
    for number, line in enumerate(read_jsonl(path), start=1):
        try:
            tasks.append(task_of(line, path.parent))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}:{number}: {error}") from error
    if not tasks:
        raise ValueError(f"{path} holds no task")
    return tuple(tasks)


def task_of(line: Any, folder: Path) -> McpTask:
    """The task of one line of a file in a folder.

    Raises:
        ValueError: it is none; names the fault.
    """
    if not isinstance(line, dict):
        raise ValueError("a task is a JSON object")
    if unknown := sorted(line.keys() - KEYS):
        raise ValueError(f"unknown key {unknown[0]!r}; the keys are {', '.join(sorted(KEYS))}")
    instruction, check = line.get("instruction"), line.get("check")
    if not isinstance(instruction, str) or not instruction.strip():
        raise ValueError("instruction should be a text")
    if not isinstance(check, dict) or sum(key in check for key in CHECKS) != 1:
        raise ValueError(f"check should have one of {', '.join(CHECKS)}")
    _verify(check)
    split, difficulty = line.get("split", "train"), line.get("difficulty", "mcp")
    if not isinstance(split, str) or not isinstance(difficulty, str):
        raise ValueError("split and difficulty should be texts")
    return McpTask(
        " ".join(instruction.split()), check, split, difficulty,
        _calls(line.get("setup", []), "setup"), _calls(line.get("plan", []), "plan"), folder,
    )  # fmt: skip


def _verify(check: Mapping[str, Any]) -> None:
    """Raises ValueError: a check is not complete."""
    kind = next(key for key in CHECKS if key in check)
    allowed = {"answer": {"answer", "tolerance"}, "state": {"state", "equals"}, "python": {"python"}}[kind]
    if unknown := sorted(check.keys() - allowed):
        raise ValueError(f"check has an unknown key {unknown[0]!r}; with {kind} go {', '.join(sorted(allowed))}")
    if kind == "state":
        state = check["state"]
        if not isinstance(state, dict) or not isinstance(state.get("tool"), str) or "equals" not in check:
            raise ValueError('check wants {"state": {"tool": NAME, "arguments": {...}}, "equals": VALUE}')
    if kind == "python" and (not isinstance(check["python"], str) or ":" not in check["python"]):
        raise ValueError('check wants {"python": "file.py:function"} or {"python": "module:function"}')


def _calls(listed: Any, key: str) -> tuple[Call, ...]:
    """Calls from ``[[name, arguments], ...]``."""
    if not isinstance(listed, list):
        raise ValueError(f"{key} should be a list of [name, arguments]")
    for call in listed:
        if not (isinstance(call, list) and len(call) == 2 and isinstance(call[0], str) and isinstance(call[1], dict)):
            raise ValueError(f"{key} has {json.dumps(call)[:80]}; a call is [name, arguments]")
    return tuple((name, arguments) for name, arguments in listed)


@lru_cache(maxsize=64)
def _function(place: str, folder: Path) -> Callable[[Outcome], Any]:
    """The function ``file.py:name`` or ``module:name``."""
    where, _, name = place.rpartition(":")
    if where.endswith(".py"):
        spec = importlib.util.spec_from_file_location(f"_checks_{abs(hash((folder, where)))}", folder / where)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    found: Callable[[Outcome], Any] = getattr(module, name)
    return found
