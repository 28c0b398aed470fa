"""What a harness is and what it may use."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from agentgym_rl.envs import own_files

CALL = "agentgym_rl.rollout.harness.call"
"""The program that calls a harness which is a function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """A program, or a Python function. The other rules of its episodes are those of any
    (:class:`~agentgym_rl.rollout.settings.RolloutSettings`).

    Raises:
        ValueError: a value is wrong; names it.
    """

    command: Sequence[str] = ()
    """The program and its arguments. ``python`` is this interpreter; a file is found from where the run started."""
    function: str = ""
    """``module:function`` or ``file.py:function`` in its place: called with the task (a mapping), the base URL and the
    key. A number that it returns is the reward."""
    concurrency: int = 64
    """Most programs that an agent-loop process runs at once; other episodes wait. Harnesses with another number are
    counted apart."""
    memory_mb: int | None = None
    """Most MiB of data of each process of the harness (Linux: ``ulimit -d``)."""
    max_tokens: int | None = None
    """Most tokens that the model writes in an episode."""
    grade_function: str = ""
    """``module:function`` or ``file.py:function``: called with the task and the episode's folder when the harness has
    ended; gives the reward."""
    grade_command: Sequence[str] = ()
    """Run in the episode's folder when the harness has ended: the reward is 1 where it exits with 0, else 0."""
    grade_file: str = ""
    """A file in the episode's folder whose text is the reward."""
    grade_seconds: float = 120.0
    """Most seconds of a grader."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables."""

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.function):
            raise ValueError("give either harness.command or harness.function")
        graders = [name for name in ("grade_function", "grade_command", "grade_file") if getattr(self, name)]
        if len(graders) > 1:
            raise ValueError(f"harness.{graders[0]} and harness.{graders[1]} are both given; one grades an episode")
        for name in ("concurrency", "memory_mb", "max_tokens", "grade_seconds"):
            if (value := getattr(self, name)) is not None and value <= 0:
                raise ValueError(f"harness.{name} is {value:g}; give more than 0")
        for function in filter(None, (self.function, self.grade_function)):
            found(function)
        for command in filter(None, (self.command, self.grade_command)):
            program(command)
        match self.command:
            case ["python", script, *_] if script.endswith(".py") and not _is_file(script):
                raise ValueError(f"harness: there is no file {script!r} from {Path.cwd()}; give its path")

    @classmethod
    def named(cls, text: str) -> Harness:
        """The function ``module:function`` or ``file.py:function``, or the command that a text is.

        Raises:
            ValueError: there is none.
        """
        words = _words("command", text)
        return cls(function=text) if len(words) == 1 and ":" in text else cls(command=words)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Harness:
        """Read a mapping. A command may be one text, as a shell reads it; a variable may be a number.

        Raises:
            ValueError: a key is unknown or a value wrong.
        """
        known = [each.name for each in fields(cls)]
        if unknown := sorted(set(settings) - set(known)):
            raise ValueError(f"harness has no setting {', '.join(unknown)}; its settings: {', '.join(known)}")
        return cls(**{name: _read(name, value) for name, value in settings.items()})

    def anywhere(self) -> Harness:
        """The same for processes with another current folder: files are absolute."""
        return replace(
            self,
            command=program(self.command) if self.command else (),
            grade_command=program(self.grade_command) if self.grade_command else (),
            function=_anywhere(self.function),
            grade_function=_anywhere(self.grade_function),
        )

    @property
    def words(self) -> list[str]:
        """The command line that starts it."""
        return [sys.executable, "-m", CALL, _anywhere(self.function)] if self.function else program(self.command)

    @property
    def digest(self) -> str:
        """Of the files that its and its grader's command lines name, or of their functions', and of what else may
        change rewards; empty where there is none."""
        functions = [_module(name).__file__ for name in (self.function, self.grade_function) if name]
        commands = [word for command in (self.command, self.grade_command) if command for word in program(command)]
        named = [word for word in [*functions, *commands] if word and word != sys.executable]
        content = b"".join(Path(word).read_bytes() for word in named if _is_file(word))
        rest = [
            self.max_tokens, self.memory_mb, self.grade_file, self.grade_function, [*self.grade_command], {**self.env}
        ]  # fmt: skip
        content += json.dumps(rest).encode() if any(rest) else b""
        return sha256(content).hexdigest()[:12] if content else ""


WANTED = {
    "command": "a text or a list of texts", "grade_command": "a text or a list of texts", "function": "a text",
    "grade_function": "a text", "grade_file": "a text", "concurrency": "a whole number", "memory_mb": "a whole number",
    "max_tokens": "a whole number", "grade_seconds": "a number", "env": "a text for each variable",
}  # fmt: skip
"""What each setting takes."""


def _read(name: str, value: Any) -> Any:
    """A setting as a mapping has it.

    Raises:
        ValueError: it is of another kind.
    """
    match name, value:
        case "command" | "grade_command", str():
            return _words(name, value)
        case "command" | "grade_command", [*words] if all(isinstance(word, str) for word in words):
            return words
        case "env", {**given} if all(isinstance(each, str) or _is_number(each) for each in given.values()):
            return {str(variable): str(each) for variable, each in given.items()}
        case "function" | "grade_function" | "grade_file", str():
            return value
        case "memory_mb" | "max_tokens", int() | None if not isinstance(value, bool):
            return value
        case "concurrency", int() if not isinstance(value, bool):
            return value
        case "grade_seconds", _ if _is_number(value):
            return value
    raise ValueError(f"harness.{name} is {value!r:.80}; give {WANTED[name]}")


def _words(name: str, command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ValueError(f"harness.{name} is {command!r:.80}, which no shell reads: {error}") from error


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def program(command: Sequence[str]) -> list[str]:
    """A command that is the same in any folder: files are absolute, and ``python`` is this interpreter.

    Raises:
        ValueError: there is no such program.
    """
    first, *rest = command
    where = sys.executable if first == "python" else shutil.which(first)
    if where is None:
        raise ValueError(f"harness: there is no program {first!r}; give one on the PATH, or the path of a file")
    return [os.path.abspath(where), *(str(Path(word).resolve()) if _is_file(word) else word for word in rest)]


def _is_file(word: str) -> bool:
    """Whether a word of a command is the path of a file; one that no path can be, such as a long script, is none."""
    try:
        return Path(word).is_file()
    except OSError:
        return False


def found(name: str) -> Any:
    """The function that ``module:function`` or ``file.py:function`` names.

    Raises:
        ValueError, FileNotFoundError: there is none.
    """
    if ":" not in name:
        raise ValueError(f"harness: {name!r} is neither module:function nor file.py:function")
    try:
        called = vars(_module(name))[name.rpartition(":")[2]]
    except (ImportError, KeyError) as error:
        raise ValueError(f"harness: {name!r} cannot be imported: {error}") from error
    if not callable(called):
        raise ValueError(f"harness: {name!r} is no function")
    return called


def _module(function: str) -> ModuleType:
    """The module of a function that is named. Raises ValueError, FileNotFoundError, ImportError: there is none."""
    module = function.rpartition(":")[0]
    return own_files.module_of(module) if module.endswith(".py") else import_module(module)


def _anywhere(function: str) -> str:
    """The name of a function, where it is in a file with that file's whole path."""
    module, _, name = function.rpartition(":")
    return f"{Path(module).expanduser().resolve()}:{name}" if module.endswith(".py") else function
