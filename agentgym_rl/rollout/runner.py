"""Many episodes: concurrent, kept in a journal as they finish, resumable.

The one loop behind ``collect``, ``eval``, ``expand`` and the reference bounds. Every job has an entry, whatever it
raised. An episode that does not count (:attr:`agentgym_rl.data.episode.Ending.counts`) is not kept: it runs again when
the work is resumed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs import Task, TextEnv
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.envs.hosts import EnvHost
from agentgym_rl.rollout.conversation import NoFurtherEpisode
from agentgym_rl.rollout.counted import Count, check_counted
from agentgym_rl.rollout.journal import Entry, Journal
from agentgym_rl.rollout.loop import close, failed, opened
from agentgym_rl.rollout.policies.base import Policy
from agentgym_rl.rollout.settings import RolloutSettings

Progress = Callable[[int, int], None]
"""Called with the number of episodes finished and of all episodes."""

PATIENCE = 20
"""Episodes in a row that may fail outside the agent before the work stops."""


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to run."""

    task: Task
    sample: int = 0
    """Its number among the episodes of the task."""

    @property
    def key(self) -> str:
        return f"{self.task} {self.sample}"


Work = Callable[[TextEnv, Job], Awaitable[Entry]]
"""Does a job in a session of the task's environment."""


async def run_jobs(
    jobs: Sequence[Job],
    work: Work,
    host: EnvHost,
    options: Callable[[str], Mapping[str, Any]],
    *,
    journal: Journal | None = None,
    concurrency: int = 1,
    patience: int | None = None,
    progress: Progress | None = None,
) -> list[Entry]:
    """Do the jobs that the journal does not hold yet; returns the entries of all jobs, in their order.

    What ``work`` raises becomes an episode of its job that does not count. :class:`NoFurtherEpisode`, an exception of
    ``progress`` and a cancellation end the jobs under way; what has finished is kept.

    Args:
        host: opens sessions, one for each environment and concurrent job.
        options: of an environment's class, by name.
        concurrency: jobs done at the same time.
        patience: stop after this many failed episodes in a row; None never does.

    Raises:
        ValueError: ``concurrency`` is less than 1.
        EnvUnavailable: ``patience`` episodes in a row failed.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is {concurrency}; give at least 1")
    entries = {} if journal is None else dict(journal.entries)
    missing = [job for job in jobs if job.key not in entries or not entries[job.key].counts]
    done, failed_in_a_row = len(jobs) - len(missing), 0

    def finished(job: Job, entry: Entry) -> None:
        nonlocal done, failed_in_a_row
        entries[job.key] = entry
        done += 1
        if entry.counts and journal is not None:
            journal.add(job.key, entry)
        if progress is not None:
            progress(done, len(jobs))
        failed_in_a_row = 0 if entry.counts else failed_in_a_row + 1
        if failed_in_a_row == patience:
            raise _gave_up(failed_in_a_row, job, entry, journal)

    if progress is not None:
        progress(done, len(jobs))
    waiting = iter(missing)
    workers = [
        asyncio.create_task(_worker(waiting, work, host, options, finished))
        for _ in range(min(concurrency, len(missing)))
    ]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [entries[job.key] for job in jobs]


def check_share(min_counted: float) -> None:
    """Raises ValueError where ``min_counted`` is no share."""
    if not 0 <= min_counted <= 1:
        raise ValueError(f"min_counted={min_counted:g} is no share; give a number from 0 to 1")


def failures(jobs: Sequence[Job], entries: Sequence[Entry], min_counted: float, journal: Journal) -> list[Episode]:
    """The episodes that do not count, where enough others of each environment do.

    Raises:
        EnvUnavailable: of an environment none counts, or a smaller share than ``min_counted``.
    """
    failed = [entry.episode for entry in entries if entry.episode is not None and not entry.counts]
    asked, uncounted = Counter(job.task.env for job in jobs), Counter(episode.env for episode in failed)
    errors = {episode.env: episode.error for episode in reversed(failed)}
    parts = {env: Count(asked[env] - uncounted[env], asked[env], errors[env]) for env in uncounted}
    if parts:
        hint = f"; what has finished is kept in {journal.path}, and the same command runs the others again"
        check_counted(parts, min_counted, hint=hint)
    return failed


def episodes_of(policy: Policy, settings: Callable[[str], RolloutSettings], **facts: Callable[[], Any]) -> Work:
    """The work of a policy: one episode a job, by the settings of the task's environment.

    Args:
        facts: kept with each episode, asked for when it ends.
    """

    async def work(env: TextEnv, job: Job) -> Entry:
        episode = await policy.run(env, job.task, settings(job.task.env), job.sample)
        return Entry(episode, facts={name: fact() for name, fact in facts.items()})

    return work


async def _worker(
    jobs: Iterator[Job],
    work: Work,
    host: EnvHost,
    options: Callable[[str], Mapping[str, Any]],
    finished: Callable[[Job, Entry], None],
) -> None:
    """Do one job after the other, in sessions that are opened when first needed."""
    sessions: dict[str, TextEnv] = {}

    def session(task: Task) -> TextEnv:
        if task.env not in sessions:
            sessions[task.env] = opened(lambda: host.open(task.env, options(task.env)), task)
        return sessions[task.env]

    try:
        for job in jobs:
            finished(job, await _entry(job, work, session))
    finally:
        for env in sessions.values():
            await close(env)


async def _entry(job: Job, work: Work, session: Callable[[Task], TextEnv]) -> Entry:
    """What a job leads to, in the session of its environment."""
    try:
        return await work(session(job.task), job)
    except NoFurtherEpisode:
        raise
    except Exception as error:  # noqa: BLE001 - every job that is asked for is counted
        return Entry(failed(job.task, 0, error))


def _gave_up(number: int, job: Job, entry: Entry, journal: Journal | None) -> EnvUnavailable:
    error = entry.episode.error if entry.episode else None
    what = f"{job.task} could not run" if number == 1 else f"{number} episodes in a row failed outside the agent"
    hint = f"; what has finished is kept in {journal.path}, and the same command goes on" if journal else ""
    return EnvUnavailable(f"{what}: {error}{hint}")
