"""Panels: fixed, named sets of tasks to measure on, each with a digest that changes when the tasks do."""

import json
import logging
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from agentgym_rl.data import entries
from agentgym_rl.data.files import is_source, rows, write_text
from agentgym_rl.envs import Task, TextEnv
from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.hosts import EnvHost, LocalHost
from agentgym_rl.envs.numbering import Panel, facts
from agentgym_rl.envs.splits import fingerprint

log = logging.getLogger(__name__)


def select(
    env: str,
    split: str,
    difficulty: Sequence[str] | None = None,
    n: int | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    host: EnvHost | None = None,
) -> Panel:
    """Draw a panel; see :func:`sample` for the arguments and errors.

    The environment is opened for its goals and difficulties; no task is started.

    Args:
        host: where the environment runs, see :meth:`agentgym_rl.envs.hosts.EnvHost.facts`; None is this process.
    """
    return panel_of((host or LocalHost()).facts(env, options or {}), split, difficulty, n, seed)


def panel_of(
    env: TextEnv, split: str, difficulty: Sequence[str] | None = None, n: int | None = None, seed: int = 0
) -> Panel:
    """As :func:`select`, of an open environment."""
    tasks = sample(env, split, difficulty, n, seed)
    item_ids = tuple(str(task) for task in tasks)
    return Panel(label(split, difficulty, n, seed), env.spec.name, item_ids, digest(env, tasks))


def draw(pool: Sequence[int], env: str, n: int, seed: int) -> list[Task]:
    """At most ``n`` tasks of a pool of indices, in a seeded order."""
    positions = random.Random(f"{env}:{seed}").sample(range(len(pool)), min(n, len(pool)))
    return [Task(env, pool[position]) for position in positions]


def sample(
    env: TextEnv, split: str, difficulty: Sequence[str] | None = None, n: int | None = None, seed: int = 0
) -> list[Task]:
    """Tasks of a split or of a file of item ids (:func:`indices_of`), in order of their index.

    A smaller ``n`` with the same seed draws a subset of a larger one. Goals are not computed.

    Args:
        difficulty: shell patterns such as ``depth [12]``; a task is kept when one of them matches its difficulty.
        n: how many to draw at random without replacement; all of them where None.

    Raises:
        ValueError: the split is unknown or empty, no task matches, or fewer than ``n`` do.
    """
    if n is not None and n < 1:
        raise ValueError(f"n is {n}; draw at least 1 task, or leave n out for the whole split")
    indices, where = indices_of(env, split), f"{env.spec.name} {split}"
    if not indices:
        sizes = ", ".join(f"{name} {len(members)}" for name, members in env.spec.splits.items())
        raise ValueError(f"{where} has no task; the splits have: {sizes}")
    seen: set[str] = set()
    chosen: list[Task] = []
    for position in range(len(indices)) if n is None else _shuffled(len(indices), random.Random(seed)):
        task = Task(env.spec.name, indices[position])
        if difficulty is not None:
            level = env.difficulty(task)
            seen.add(level)
            if not any(fnmatchcase(level, pattern) for pattern in difficulty):
                continue
        chosen.append(task)
        if len(chosen) == n:
            break
    if not chosen and difficulty is not None:
        raise ValueError(
            f"no task of {where} has a difficulty like {' or '.join(difficulty)}; there are: {', '.join(sorted(seen))}"
        )
    if n is not None and len(chosen) < n:
        matching = "" if difficulty is None else f" with a difficulty like {' or '.join(difficulty)}"
        raise ValueError(f"n is {n}, but {where} has only {len(chosen)} tasks{matching}")
    return sorted(chosen, key=lambda task: task.index)


def indices_of(env: TextEnv, split: str) -> Sequence[int]:
    """Task indices of a split, or those of the environment in a file of item ids, each once.

    A warning says how many entries of a file repeat an earlier one, and where AgentGym's ids mean other tasks here.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the split is unknown or not to be had where the environment runs, or the file cannot be read, names
            no task of the environment, or one that it does not have.
    """
    name = env.spec.name
    if not is_source(split):
        indices = env.spec.indices(split)
        if split in env.spec.unavailable:
            raise ValueError(f"{name} has no split {split!r} {env.spec.unavailable[split]}")
        return indices
    listed = read_item_ids(split)
    entries: dict[Task, int] = {}
    for entry, task in enumerate(listed, start=1):
        if task.env == name:
            entries.setdefault(task, entry)
    if not entries:
        raise ValueError(
            f"{split} lists no task of {name}, only of {', '.join(sorted({task.env for task in listed})) or 'none'}"
        )
    for task, entry in entries.items():
        try:
            env.difficulty(task)
        except TaskNotFound as error:
            raise ValueError(f"{split}, entry {entry}: {error}") from error
    if repeated := sum(task.env == name for task in listed) - len(entries):
        _warn(f"{split}: {repeated} entries repeat a task of {name} and are left out; {len(entries)} tasks remain")
    warn_of_other_ids(env, split)
    return [task.index for task in entries]


def warn_of_other_ids(env: TextEnv, source: str | Path) -> None:
    """Log once that the ids of a file, if AgentGym wrote it, mean other tasks in an environment."""
    if meaning := env.spec.other_ids:
        _warn(f"{source}: ids of AgentGym's data are {meaning} (docs/envs/{env.spec.name.partition('-')[0]}.md)")


@cache
def _warn(message: str) -> None:
    """Log a warning, once a process."""
    log.warning(message)


def read_item_ids(source: str | Path) -> list[Task]:
    """The tasks of a list of item ids (AgentEval, AgentGym-RL-Data-ID), in its order.

    A list is ``[{"item_id": "textcraft_12"}, ...]``, or has the ids in ``extra_info`` as verl's data do; other keys of
    an entry are ignored.

    Raises:
        FileNotFoundError: there is no such file, see :func:`agentgym_rl.data.files.rows`.
        ValueError: an entry has no item id, or one that cannot be read; names file, entry (from 1) and fault.
    """
    tasks = []
    for number, entry in enumerate(rows(source), start=1):
        item_id = entries.item_id(entry)
        if item_id is None:
            raise ValueError(f"{source}, entry {number}: has no 'item_id'")
        if not isinstance(item_id, str):
            raise ValueError(f"{source}, entry {number}: 'item_id' is {item_id!r}, not a text such as 'textcraft_12'")
        try:
            tasks.append(Task.parse(item_id))
        except TaskNotFound as error:
            raise ValueError(f"{source}, entry {number}: {error}") from error
    return tasks


def write_item_ids(path: str | Path, tasks: Iterable[Task]) -> None:
    """Write a list of item ids, whole."""
    write_text(path, json.dumps([{"item_id": str(task)} for task in tasks], indent=2) + "\n")


def digest(env: TextEnv, tasks: Sequence[Task]) -> str:
    """First 12 hex digits of the sha256 over one line ``item id, tab, goal, tab, difficulty`` a task.

    Where the environment has another revision of the task than the first, a tab and its number follow.
    """
    return fingerprint("".join(f"{facts(env, task)}\n" for task in tasks), 12)


def label(split: str, difficulty: Sequence[str] | None = None, n: int | None = None, seed: int = 0) -> str:
    """A name for a selection that metric keys and file names can carry, e.g. ``test-depth_1-n20-seed0``."""
    parts = [Path(split).stem if is_source(split) else split, *(difficulty or ())]
    if n is not None:
        parts += [f"n{n}", f"seed{seed}"]
    return "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", part).strip("_") or "any" for part in parts)


def _shuffled(size: int, rng: random.Random) -> Iterator[int]:
    """``range(size)`` in random order, drawn lazily: memory grows with what is drawn, not with ``size``."""
    moved: dict[int, int] = {}
    for position in range(size):
        drawn = rng.randrange(position, size)
        yield moved.get(drawn, drawn)
        moved[drawn] = moved.pop(position, position)
