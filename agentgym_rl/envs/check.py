"""Environment checker: does a world keep the contract of :mod:`agentgym_rl.envs.core`?"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentgym_rl.envs.checks import CHECKS, Skipped, Subject, spec_sane
from agentgym_rl.envs.core import Task
from agentgym_rl.envs.hosts import Local, Opener

Progress = Callable[[str, float], None]
"""Called with the name of the check under way and the share of all work that is done."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Outcome of one check. ``passed`` is None when it did not apply."""

    name: str
    passed: bool | None
    detail: str = ""
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Outcome of all checks on one world."""

    env: str
    style: str
    splits: tuple[str, ...]
    tasks: int
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return all(finding.passed is not False for finding in self.findings)

    def __getitem__(self, name: str) -> Finding:
        return next(finding for finding in self.findings if finding.name == name)


def check(
    name: str,
    split: str | None = None,
    n: int | None = 20,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    place: Opener | None = None,
) -> Report:
    """Check a world on ``n`` tasks of each split (all of them where ``n`` is None).

    Args:
        split: check the tasks of this split only.
        options: constructor options of the world, such as ``style``.
        place: where the world runs; None is this process.

    Raises:
        UnknownEnv, MissingExtra: the world cannot be opened.
        ValueError: the world has no such split.
    """
    return asyncio.run(_check(name, split, n, dict(options or {}), seed, progress, place or Local()))


async def _check(
    name: str,
    split: str | None,
    n: int | None,
    options: dict[str, Any],
    seed: int,
    progress: Progress | None,
    place: Opener,
) -> Report:
    await place.check(name)
    env = place.open(name, options)
    splits = tuple(env.spec.splits) if split is None else (split,)
    if split is not None and split not in env.spec.splits:
        raise ValueError(f"{name} has no split {split!r}; its splits: {', '.join(env.spec.splits)}")
    if n is not None and n < 1:
        raise ValueError(f"n is {n}; check at least 1 task of a split")
    tasks = [Task(name, index) for index in sorted({i for s in splits for i in _sample(env.spec.splits[s], n, seed)})]
    subject = Subject(name, options, env, tasks, splits, place)
    findings = []
    try:
        for position, (title, faults) in enumerate(CHECKS.items()):
            if progress:
                subject.tick = partial(_tell, progress, title, position)
                subject.tick(0)
            findings.append(await _run(title, faults, subject))
    finally:
        await env.close()
        await place.close()
    if progress:
        progress("done", 1)
    return Report(name, env.style, splits, len(tasks), tuple(findings))


def _tell(progress: Progress, title: str, position: int, share: float) -> None:
    progress(title, (position + share) / len(CHECKS))


def _sample(indices: Sequence[int], n: int | None, seed: int) -> list[int]:
    if n is None or n >= len(indices):
        return list(indices)
    return [indices[position] for position in random.Random(seed).sample(range(len(indices)), n)]


async def _run(title: str, faults: Callable[[Subject], AsyncIterator[str]], subject: Subject) -> Finding:
    if not subject.tasks and faults is not spec_sane:
        return Finding(title, None, "there are no tasks to try")
    subject.note = ""
    found: list[str] = []
    try:
        async for fault in faults(subject):
            found.append(fault)
    except Skipped as reason:
        return Finding(title, None, str(reason))
    except Exception as error:  # a world that raises where it must not has failed the check
        found.append(f"{type(error).__name__}: {error}")
    return Finding(title, not found, found[0] if found else subject.note, tuple(found))
