"""Files of tasks for tools: what is asked, a check of what the agent did, and calls that solve it."""

import importlib
import importlib.util
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import inf, isfinite
from pathlib import Path
from typing import Any

from agentgym_rl.envs import task_file
from agentgym_rl.envs.core import EnvFault
from agentgym_rl.envs.explorable import Call, Explorable, Found
from agentgym_rl.envs.task_file import WrittenTask
from agentgym_rl.envs.tools import Tool, to_command
from agentgym_rl.envs.tooluse.answers import matches
from agentgym_rl.envs.tooluse.calls import read_call
from agentgym_rl.envs.tooluse.problem import Draft, Problem
from agentgym_rl.envs.tooluse.tasks import TaskSource
from agentgym_rl.envs.tooluse.tool import CHECK, FINISH, Function, Refused, S

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Calls a tool for a check; gives the result as JSON, or as text."""

KEYS = task_file.KEYS | {"setup", "check", "plan"}
CHECKS = {"answer": {"answer", "tolerance"}, "state": {"state", "equals"}, "python": {"python"}}
"""The kinds of checks, and the keys of each."""
DONE = "done"
"""The answer to a task that asks for a change."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check written in Python is given."""

    answer: Any
    """The argument of ``finish``."""
    calls: Sequence[Call]
    """The calls of the agent, in order, those that failed among them; without ``finish``."""
    ask: Ask
    """``await outcome.ask(tool, {argument: value})``: a call of the same session, to look at its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTask(WrittenTask):
    """One line of a file."""

    check: Mapping[str, Any]
    setup: tuple[Call, ...]
    """Calls before the agent's turn."""
    plan: tuple[Call, ...]
    """Calls that solve the task, ``finish`` last; empty where none are known."""
    folder: Path
    """Folder of the file, where a check's Python file is."""

    @property
    def shown(self) -> Call | None:
        """The call whose result is compared; None where another thing is."""
        state = self.check.get("state")
        return None if state is None else (state["tool"], state.get("arguments", {}))

    def answered(self, answer: Any) -> bool:
        """Whether an answer is the one of the check."""
        return matches(self.check["answer"], answer, float(self.check.get("tolerance", 0.0)))

    def check_calls(self, tools: tuple[Tool, ...], *ends: Tool) -> None:
        """Raises BadCall: a call of its setup, check or plan does not fit the tools; ``ends`` are for plans alone."""
        for name, arguments in (*self.setup, *([self.shown] if self.shown else [])):
            to_command(tools, name, arguments)
        for name, arguments in self.plan:
            to_command((*tools, *ends), name, arguments)

    async def reward(self, outcome: Outcome) -> float:
        """The reward of a finished episode, in [0, 1].

        Raises:
            EnvFault: the check itself fails, or gives no number in [0, 1].
        """
        if "answer" in self.check:
            return float(self.answered(outcome.answer))
        if self.shown:
            return float(await outcome.ask(*self.shown) == self.check["equals"])
        try:
            reward = _function(self.check["python"], self.folder)(outcome)
            reward = float(await reward if inspect.isawaitable(reward) else reward)
        except Exception as error:  # the user's code; what it raises is no answer about the agent
            raise EnvFault(f"the check {self.check['python']} failed: {type(error).__name__}: {error}") from error
        if not isfinite(reward) or not 0 <= reward <= 1:
            raise EnvFault(f"the check {self.check['python']} gave {reward}; a reward is in [0, 1]")
        return reward


def task_of(line: Mapping[str, Any], folder: Path) -> ToolTask:
    """The task of one line of a file in a folder.

    Raises:
        ValueError: it is none; names the fault.
    """
    return _task(line, folder, KEYS - {"start"}, "mcp", tuple(CHECKS))


def task_with_start(line: Mapping[str, Any], folder: Path) -> ToolTask:
    """The same for an environment whose states are its own. Raises ValueError: it is none; names the fault."""
    return _task(line, folder, KEYS, "written", ("answer", "state"))


@cache
def reader(draft: type[Draft[Any]]) -> Callable[[Mapping[str, Any], Path], ToolTask]:
    """What reads a line as :func:`task_with_start` does, and refuses a call that does not fit the tools of a draft."""
    tools = tuple(function.tool for function in draft.functions.values())

    def read(line: Mapping[str, Any], folder: Path) -> ToolTask:
        task = task_with_start(line, folder)
        task.check_calls(tools, CHECK, draft.finish)
        return task

    return read


def _task(
    line: Mapping[str, Any], folder: Path, keys: frozenset[str], difficulty: str, checks: Sequence[str]
) -> ToolTask:
    fields = task_file.common(line, keys, difficulty)
    check = line.get("check")
    if not isinstance(check, dict) or sum(key in check for key in checks) != 1:
        raise ValueError(f"check should have one of {', '.join(checks)}")
    _verify(check)
    setup, plan = (calls_of(line.get(key, []), key) for key in ("setup", "plan"))
    return ToolTask(**fields, check=check, setup=setup, plan=plan, folder=folder)


def _verify(check: Mapping[str, Any]) -> None:
    """Raises ValueError: a check is not complete."""
    kind = next(key for key in CHECKS if key in check)
    if unknown := sorted(check.keys() - CHECKS[kind]):
        raise ValueError(f"check has an unknown key {unknown[0]!r}; with {kind} go {', '.join(sorted(CHECKS[kind]))}")
    if kind == "state":
        state = check["state"]
        named = isinstance(state, dict) and isinstance(state.get("tool"), str)
        if not named or not isinstance(state.get("arguments", {}), dict) or "equals" not in check:
            raise ValueError('check wants {"state": {"tool": NAME, "arguments": {...}}, "equals": VALUE}')
    tolerance = check.get("tolerance", 0)
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 0 <= tolerance < inf:
        raise ValueError(f"tolerance should be a number that is not negative, not {tolerance!r}")
    if kind == "python" and (not isinstance(check["python"], str) or ":" not in check["python"]):
        raise ValueError('check wants {"python": "file.py:function"} or {"python": "module:function"}')


def calls_of(listed: Any, key: str) -> tuple[Call, ...]:
    """Calls from ``[[name, arguments], ...]``. Raises ValueError: they are none."""
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
    check: Callable[[Outcome], Any] = getattr(module, name)
    return check


class WrittenTasks(TaskSource[S]):
    """The tasks of a file, each of which begins as a task of another source does.

    Args:
        env: the environment's name.
        path: the file.
        own: the other source.
        draft: class of the drafts of that source, which has the tools.

    Raises:
        ValueError: see :func:`agentgym_rl.envs.task_file.read_tasks`, or a ``start`` does not exist.
    """

    def __init__(self, env: str, path: str, own: TaskSource[S], draft: type[Draft[S]]) -> None:
        self._env, self._own, self._functions = env, own, draft.functions
        self._tasks = task_file.read_tasks(path, reader(draft))
        self._starts = task_file.starts_of(path, env, self._tasks, own.splits)
        self.splits = task_file.splits_of(self._tasks)

    def problem(self, index: int) -> Problem[S]:
        task = task_file.task_at(self._env, self._tasks, index)
        start = self._own.problem(self._starts[index])

        def begin() -> S:
            state = start.start()
            for name, arguments in task.setup:
                try:
                    self._functions[name].run(state, **arguments)
                except (Refused, TypeError) as error:
                    raise EnvFault(f"{self._env}_{index}: its setup, {name}, failed: {error}") from error
            return state

        def progress(state: S, answer: Any) -> float:
            if answer is None:
                return 0.0
            if task.shown is None:
                return float(task.answered(answer))
            return float(value_of(self._functions, state, *task.shown) == task.check["equals"])

        return Problem(
            goal=task.instruction, start=begin, progress=progress, plan=task.plan, context=start.context
        )  # fmt: skip

    def difficulty(self, index: int) -> str:
        return task_file.task_at(self._env, self._tasks, index).difficulty


def value_of(functions: Mapping[str, Function], state: Any, name: str, arguments: Mapping[str, Any]) -> Any:
    """What a call gives in a state, as JSON; None where it is refused."""
    try:
        result = functions[name].run(state, **arguments)
    except (Refused, TypeError):  # other arguments than it takes
        return None
    return json.loads(json.dumps(result, default=str))


class ExplorableTools(Explorable):
    """What environments of tools, which ``finish`` ends, have in common where they are explored."""

    @property
    def probes(self) -> Sequence[Tool]:
        return [tool for tool in self.spec.tools if tool != CHECK and tool.name != FINISH.name]

    def call(self, command: str) -> Call | None:
        try:
            return read_call(self.probes, command)
        except Refused:
            return None

    def line(self, found: Found) -> dict[str, Any]:
        answer, check = found.answer, {"answer": found.answer}
        if found.shown is not None:
            tool, arguments = found.shown
            answer, check = DONE, {"state": {"tool": tool, "arguments": dict(arguments)}, "equals": found.equals}
        plan = [[name, dict(arguments)] for name, arguments in found.calls]
        return {"check": check, "plan": [*plan, [FINISH.name, {"answer": answer}]] if plan else []}
