"""Environment checker: does an environment keep the contract of :mod:`agentgym_rl.envs.core`?"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_rl.envs.checks import CHECKS, Skipped, Subject, spec_sane
from agentgym_rl.envs.core import EnvSpec, Task, TextEnv
from agentgym_rl.envs.hosts import EnvHost, LocalHost

CLOSES = "session can be closed"
"""Title of the finding about a session whose last close fails."""

Progress = Callable[[str, float], None]
"""Called with the name of the present check and the share of all work that is done."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Outcome of one check. ``passed`` is None when it did not apply."""

    name: str
    passed: bool | None
    detail: str = ""
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Outcome of all checks on one environment."""

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
    host: EnvHost | None = None,
) -> Report:
    """Check an environment on ``n`` tasks of each split that can be used (all of them where ``n`` is None).

    Args:
        split: check the tasks of this split only.
        options: constructor options of the environment, such as ``style``.
        host: where the environment runs; None is this process.

    Raises:
        UnknownEnv, MissingExtra: the environment cannot be opened.
        ValueError: the environment has no such split, or not where it runs.
    """

    async def run() -> Report:
        at = host or LocalHost()
        try:
            return await report_of(at)
        finally:
            await at.close()

    async def report_of(at: EnvHost) -> Report:
        await at.check(name, options)
        env = at.open(name, options or {})
        if not isinstance(env.spec, EnvSpec):
            raise ValueError(f"{name}: spec is {env.spec!r:.80}; it must be an EnvSpec")
        splits = {split: env.spec.indices(split)} if split is not None else env.spec.splits
        if split is not None and split in env.spec.unavailable:
            raise ValueError(f"{name} has no split {split!r} {env.spec.unavailable[split]}")
        splits = {name: indices for name, indices in splits.items() if name not in env.spec.unavailable}
        if n is not None and n < 1:
            raise ValueError(f"n is {n}; check at least 1 task of a split")
        indices = {index for members in splits.values() for index in _sample(members, n, seed)}
        tasks = [Task(name, index) for index in sorted(indices)]
        subject = Subject(name, dict(options or {}), env, tasks, tuple(splits), at)
        try:
            findings = [await _find(subject, number, progress) for number in range(len(CHECKS))]
        finally:
            unclosed = await _close(env)
        if progress:
            progress("done", 1)
        return Report(name, env.style, subject.splits, len(tasks), (*findings, *unclosed))

    return asyncio.run(run())


def _sample(indices: Sequence[int], n: int | None, seed: int) -> list[int]:
    if n is None or n >= len(indices):
        return list(indices)
    return [indices[position] for position in random.Random(seed).sample(range(len(indices)), n)]


async def _close(env: TextEnv) -> list[Finding]:
    """Close the session; a finding where that fails."""
    try:
        await env.close()
    except Exception as error:  # noqa: BLE001 - whatever it raises, all else that was found is to be reported
        fault = f"close raised {type(error).__name__}: {error}"
        return [Finding(CLOSES, False, fault, (fault,))]
    return []


async def _find(subject: Subject, number: int, progress: Progress | None) -> Finding:
    """Run the check of that number."""
    title, faults = list(CHECKS.items())[number]
    if progress:
        subject.tick = lambda share: progress(title, (number + share) / len(CHECKS))
        subject.tick(0)
    if not subject.tasks and faults is not spec_sane:
        return Finding(title, None, "there are no tasks to try")
    subject.note = subject.trying = ""
    seen: list[str] = []
    try:
        async for fault in faults(subject):
            seen.append(fault)
    except Skipped as reason:
        return Finding(title, None, str(reason))
    except Exception as error:  # noqa: BLE001 - an environment that raises where it must not has failed the check
        where = f"{subject.trying}: " if subject.trying else ""
        seen.append(f"{where}{type(error).__name__}: {error}")
    return Finding(title, not seen, seen[0] if seen else subject.note, tuple(seen))
