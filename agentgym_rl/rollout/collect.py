"""Collect trajectories: a policy runs the tasks of a split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from agentgym_rl.data import convert, episode_store
from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.convert import Record
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.files import check_file
from agentgym_rl.data.panels import digest, sample
from agentgym_rl.envs.hosts import EnvHost, LocalHost
from agentgym_rl.envs.splits import fingerprint
from agentgym_rl.rollout.journal import Journal
from agentgym_rl.rollout.loop import check_rules, close, turn_limit
from agentgym_rl.rollout.policies import Oracle, Policy
from agentgym_rl.rollout.runner import PATIENCE, Job, Progress, check_share, episodes_of, failures, run_jobs
from agentgym_rl.rollout.settings import RolloutSettings, choice

PATIENT = ("retries", "step_seconds", "episode_seconds")
"""Rules of an episode that may differ when a collection goes on."""


class Keep(StrEnum):
    """Which trajectories are written."""

    success = "success"
    all = "all"


class NothingKept(ValueError):
    """A collection ran to its end without a trajectory to write."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of a collection."""

    attempted: int
    """Episodes: for each task as many as the samples asked for."""
    succeeded: int
    failed: int
    """Episodes that failed outside the agent; they are in no file of trajectories."""
    kept: int
    mean_turns: float
    """Over the kept trajectories."""
    endings: Mapping[str, int]
    """Episodes by ending."""
    digest: str
    """Of the panel."""


async def collect(
    env: str,
    split: str,
    out: str | Path,
    policy: Policy | None = None,
    settings: RolloutSettings | None = None,
    *,
    n: int | None = None,
    seed: int = 0,
    difficulty: Sequence[str] | None = None,
    keep: Keep | str = Keep.success,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    samples: int = 1,
    per_task: int | None = None,
    min_counted: float = 1.0,
    concurrency: int = 1,
    host: EnvHost | None = None,
    episodes: str | Path | None = None,
) -> Summary:
    """Run each task and write the kept trajectories to ``out`` as AgentTraj JSON.

    ``out`` appears when all episodes have finished. Until then they are kept beside it in ``<out>.partial.jsonl``; the
    same call goes on from there, and writes the same file as a call that was never interrupted.

    Args:
        policy: the oracle by default.
        settings: rules of an episode.
        n, seed, difficulty: see :func:`agentgym_rl.data.panels.sample`.
        keep: successful trajectories only, or all of them that have a response to train on.
        options: of the environment's class.
        samples: episodes of each task.
        per_task: keep at most this many distinct trajectories of a task, the shortest first; None keeps every one.
        min_counted: share of the episodes that must count; others failed outside the agent.
        concurrency: episodes that run at the same time, each in a session of its own.
        host: where the environment runs; None is this process.
        episodes: a ``.parquet`` file for every episode, kept or not (:mod:`agentgym_rl.data.episode_store`).

    Raises:
        ValueError: an argument is out of range, the rules do not suit the environment, another process writes ``out``,
            or the journal beside it belongs to other settings.
        NothingKept: there is no trajectory to write; the message says how the episodes ended. The journal stays, so
            that the same call with ``keep="all"`` need not run them again.
        EnvUnavailable: too few episodes count (``min_counted``), or ``PATIENCE`` in a row failed; what has finished
            stays in the journal, and the same call runs the others again.
    """
    keep = choice(Keep, "keep", keep)
    for name, value in {"samples": samples, "per_task": per_task, "concurrency": concurrency}.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}; give at least 1")
    check_share(min_counted)
    if episodes is not None:
        episode_store.check(episodes)
    check_file(Path(out), ".json")
    out, policy, settings, host = Path(out), policy or Oracle(), settings or RolloutSettings(), host or LocalHost()
    of_class = {**(options or {}), "style": settings.style.value}
    await host.check(env, of_class)
    session = host.open(env, of_class)
    try:
        check_rules(session, settings)
        tasks = list(dict.fromkeys(sample(session, split, difficulty, n, seed)))
        shown = policy.exemplars
        identity = {
            "env": env,
            **{key: value for key, value in asdict(settings).items() if key not in PATIENT},
            "options": dict(options or {}),
            "policy": policy.name,
            "weights": policy.weights,
            "backend": policy.backend,
            "temperature": policy.temperature,
            "policy_seed": policy.seed,
            "prompt_tokens": policy.prompt_tokens,
            "response_tokens": policy.response_tokens,
            "prompt": fingerprint(policy.prompts.get(env, ""), 12),
            "exemplars": shown and [shown.digest, shown.nearest],
            "seed": seed,
            "samples": samples,
            "max_turns": turn_limit(session, settings),
            "panel": digest(session, tasks),
        }
        jobs = [Job(task, number) for task in tasks for number in range(samples)]
        with Journal.beside(out, identity) as journal:
            entries = await run_jobs(
                jobs,
                episodes_of(policy, lambda _: settings),
                host,
                lambda _: of_class,
                journal=journal,
                concurrency=concurrency,
                patience=PATIENCE,
                progress=progress,
            )
            stored = [entry.episode for entry in entries if entry.episode is not None]
            failed = failures(jobs, entries, min_counted, journal)
            ran = [episode for episode in stored if episode.messages]  # the oracle has no way for others that count
            if episodes is not None:
                for job, entry in zip(jobs, entries, strict=True):
                    if entry.episode is not None:
                        entry.episode.seed = seed
                        entry.episode.tags = {"split": split, "policy": policy.name, "sample": job.sample}
                episode_store.write(episodes, [*ran, *failed])
            chosen = convert.keep(
                convert.learnable(map(_record, ran)), successes=keep is Keep.success, per_task=per_task
            )
            if not chosen:
                raise NothingKept(_why(out, stored, keep))
            convert.agenttraj_file(out, chosen)
            journal.delete()
    finally:
        await close(session)
        await host.close()
    turns = [sum(loss is True for loss in record.trajectory.loss) for record in chosen]
    return Summary(
        attempted=len(jobs),
        succeeded=sum(episode.success for episode in stored),
        failed=len(failed),
        kept=len(chosen),
        mean_turns=sum(turns) / len(chosen),
        endings=dict(Counter(episode.ending.value for episode in stored)),
        digest=str(identity["panel"]),
    )


def _why(out: Path, episodes: Sequence[Episode], keep: Keep) -> str:
    """Why nothing is kept: how many episodes were solved, how they ended, and what the oracle lacks."""
    endings = Counter(
        "no solution" if episode.ending.counts and not episode.messages else episode.ending.value
        for episode in episodes
    )
    ended = ", ".join(f"{number} {ending}" for ending, number in endings.most_common())
    fault = next((episode.error for episode in episodes if episode.error), None)
    hint = f"; {fault}" if fault else "; --keep all writes them" if keep is Keep.success else ""
    solved = sum(episode.success for episode in episodes)
    return f"{out} is not written, none of {len(episodes)} episodes is kept: {solved} solved ({ended}){hint}"


def _record(episode: Episode) -> Record:
    trajectory = Trajectory.of(episode.item_id, episode.messages, episode.start)
    return Record(trajectory, episode.reward, episode.success)
