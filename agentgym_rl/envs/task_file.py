"""Files of tasks that were written or found: JSON lines, whose number, from 0, is the task's index; empty
lines do not count.

The option ``tasks`` of an environment takes one; its tasks take the place of the environment's own. The keys are those
of a file for MCP, without checks in Python, and ``start``, the index of the built-in task as which a task begins: with
its account, workbook, date or database; left out, it is the first. What is found begins as tasks of its split do.
SQLGym's lines have ``query``, the gold one, in place of ``check``, ``plan`` and ``setup``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.tables import numbered_jsonl


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTask:
    """What every line of a file has."""

    instruction: str
    split: str
    difficulty: str
    start: int | None
    """Index of the environment's own task as which it begins; None is the first."""


T = TypeVar("T", bound=WrittenTask)
KEYS = frozenset({"instruction", "split", "difficulty", "start"})


def read_tasks(path: str | Path, read: Callable[[dict[str, Any], Path], T]) -> tuple[T, ...]:
    """The tasks of a file, in order.

    Args:
        read: the task of one line of a file in a folder; raises ValueError.

    Raises:
        ValueError: there is no such file, it is empty, or a line is no task; names file, line and fault.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"no file of tasks at {path}")
    stamp = path.stat()
    return _read(path.resolve(), stamp.st_mtime_ns, stamp.st_size, read)


@lru_cache(maxsize=16)
def _read(path: Path, changed: int, size: int, read: Callable[[dict[str, Any], Path], T]) -> tuple[T, ...]:
    """The tasks of a file as of its last change, so that sessions share them."""
    tasks = []
    for number, line in numbered_jsonl(path):
        try:
            if not isinstance(line, dict):
                raise ValueError("a task is a JSON object")
            tasks.append(read(line, path.parent))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}:{number}: {error}") from error
    if not tasks:
        raise ValueError(f"{path} holds no task")
    return tuple(tasks)


def common(line: Mapping[str, Any], keys: frozenset[str], difficulty: str) -> dict[str, Any]:
    """The fields of :class:`WrittenTask` from a line.

    Args:
        keys: all that a line may have.
        difficulty: where the line has none.

    Raises:
        ValueError: a key is unknown, or a value of another type.
    """
    if unknown := sorted(line.keys() - keys):
        raise ValueError(f"unknown key {unknown[0]!r}; the keys are {', '.join(sorted(keys))}")
    instruction, split = line.get("instruction"), line.get("split", "train")
    difficulty, start = line.get("difficulty", difficulty), line.get("start")
    if not isinstance(instruction, str) or not instruction.strip():
        raise ValueError("instruction should be a text")
    if not isinstance(split, str) or not isinstance(difficulty, str):
        raise ValueError("split and difficulty should be texts")
    if start is not None and (not isinstance(start, int) or isinstance(start, bool)):
        raise ValueError(f"start should be the index of a task, not {start!r}")
    return {"instruction": " ".join(instruction.split()), "split": split, "difficulty": difficulty, "start": start}


def splits_of(tasks: Sequence[WrittenTask]) -> dict[str, Sequence[int]]:
    """The indices of each split; ``train`` and ``test`` are always there."""
    names = dict.fromkeys(("train", "test", *(task.split for task in tasks)))
    return {name: tuple(index for index, task in enumerate(tasks) if task.split == name) for name in names}


def starts_of(
    path: str | Path, env: str, tasks: Sequence[WrittenTask], own: Mapping[str, Sequence[int]]
) -> tuple[int, ...]:
    """Which of an environment's own tasks each task of a file begins as.

    Raises:
        ValueError: there is no such task; names the file, and by its index the task that would begin so.
    """
    first = next(indices[0] for indices in own.values() if indices)
    starts = tuple(first if task.start is None else task.start for task in tasks)
    for index, start in enumerate(starts):
        if not any(start in indices for indices in own.values()):
            raise ValueError(
                f"{path}, task {index}: start is {start}, but {env} has no such task; give one like {first}"
            )
    return starts


def task_at(env: str, tasks: Sequence[T], index: int) -> T:
    """The task of an index. Raises TaskNotFound: there is none."""
    if not 0 <= index < len(tasks):
        raise TaskNotFound(f"{env} has no task {index}: valid are 0 to {len(tasks) - 1}")
    return tasks[index]
