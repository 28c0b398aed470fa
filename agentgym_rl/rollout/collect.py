"""Collect trajectories by letting a policy play the tasks of a split."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentgym_rl.data import agenttraj, convert, episode_store
from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.panels import digest, sample
from agentgym_rl.envs import Task, TextEnv
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.core import EnvUnavailable, Style
from agentgym_rl.envs.hosts import Local, Opener
from agentgym_rl.rollout.journal import Partial
from agentgym_rl.rollout.policies.base import Player, chance, oracle
from agentgym_rl.rollout.settings import RolloutSettings

PolicyName = Literal["oracle", "random"]
Keep = Literal["success", "all"]
Progress = Callable[[int, int], None]
"""Called with the number of episodes played and of all episodes."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of a collection."""

    attempted: int
    """Episodes, of which each task has as many as samples were asked for."""
    succeeded: int
    kept: int
    mean_turns: float
    """Over the kept trajectories; 0 when there are none."""
    digest: str
    """Digest of the panel that was played."""


async def collect(
    env: str,
    split: str,
    out: str | Path,
    policy: PolicyName | Player = "oracle",
    n: int | None = None,
    seed: int = 0,
    style: Style = "agentgym",
    max_turns: int | None = None,
    difficulty: Sequence[str] | None = None,
    keep: Keep = "success",
    action_format: ActionFormat = ActionFormat.REACT,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    samples: int = 1,
    per_task: int | None = None,
    concurrency: int = 1,
    place: Opener | None = None,
    episodes: str | Path | None = None,
) -> Summary:
    """Play each task and write the kept trajectories to ``out`` as AgentTraj JSON.

    ``out`` appears when everything has been played. Until then finished episodes are kept beside it in
    ``<out>.partial.jsonl``; the same call goes on from there, and reaches the same file as a call that was never
    interrupted.

    Args:
        policy: ``oracle``, ``random``, or a player made with the same style, action format and turn limit.
        n, seed, difficulty: see :func:`agentgym_rl.data.panels.sample`.
        keep: successful trajectories only, or all of them.
        samples: episodes of each task.
        per_task: keep at most this many distinct trajectories of a task, the shortest first; None keeps every one.
        concurrency: episodes played at the same time, each in a session of its own.
        place: where the world runs; None is this process.
        episodes: a ``.parquet`` file for every episode, kept or not (:mod:`agentgym_rl.data.episode_store`).

    Raises:
        ValueError: an argument is out of range, or the journal beside ``out`` belongs to other settings.
        EnvError: the world or the policy's server failed; what was played so far stays in the journal.
    """
    if not isinstance(policy, Player) and policy not in ("oracle", "random"):
        raise ValueError(f"policy {policy!r} is unknown; choose oracle or random")
    if keep not in ("success", "all"):
        raise ValueError(f"keep {keep!r} is unknown; choose success or all")
    at_least_1 = {"max_turns": max_turns, "samples": samples, "per_task": per_task, "concurrency": concurrency}
    for name, value in at_least_1.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}; give at least 1")
    if episodes is not None:
        episode_store.check(episodes)
    out = Path(out)
    rules = RolloutSettings(style=style, action_format=action_format, max_turns=max_turns)
    scripted = {"oracle": oracle(rules), "random": chance(rules, seed)}
    player = policy if isinstance(policy, Player) else scripted[policy]
    place = place or Local()
    await place.check(env)
    sessions = [place.open(env, {**(options or {}), "style": style}) for _ in range(concurrency)]
    world = sessions[0]
    try:
        tasks = list(dict.fromkeys(sample(world, split, difficulty, n, seed)))
        settings = {
            "env": env,
            "style": style,
            "action_format": action_format.value,
            "options": dict(options or {}),
            "policy": player.name,
            "seed": seed,
            "samples": samples,
            "max_turns": world.spec.max_turns if max_turns is None else max_turns,
            "panel": digest(world, tasks),
            **({} if episodes is None else {"episodes": True}),
        }
        jobs = [(task, number) for task in tasks for number in range(samples)]
        with Partial(out, settings) as played:
            waiting = iter([job for job in jobs if _key(*job) not in played.rows])

            async def work(session: TextEnv) -> None:
                for task, number in waiting:
                    if progress:
                        progress(len(played.rows), len(jobs))
                    episode = await player.play(session, task, number)
                    record = _record(task, episode)
                    if episodes is not None and episode is not None:
                        episode.seed, episode.tags = seed, {"split": split, "policy": player.name, "sample": number}
                        record["episode"] = episode.to_dict()
                    played.add(_key(task, number), record)

            await _all(work(session) for session in sessions)
        if progress:
            progress(len(jobs), len(jobs))
    finally:
        for session in sessions:
            await session.close()
        await place.close()
    records = [played.rows[_key(*job)] for job in jobs]
    if episodes is not None:
        stored = [Episode.from_dict(record["episode"]) for record in records if "episode" in record]
        episode_store.write(episodes, stored)
    found = [
        convert.Record(agenttraj.decode(record["trajectory"]), record["reward"], record["success"])
        for record in records
        if record["trajectory"]
    ]
    kept = convert.keep(found, successes=keep == "success", per_task=per_task)
    convert.agenttraj_file(out, kept)
    played.finish()
    turns = [sum(loss is True for loss in record.trajectory.loss) for record in kept]
    return Summary(
        attempted=len(records),
        succeeded=sum(record["success"] for record in records),
        kept=len(kept),
        mean_turns=sum(turns) / len(kept) if kept else 0.0,
        digest=str(settings["panel"]),
    )


async def _all(jobs: Iterator[Any]) -> None:
    """Run coroutines side by side; the first fault ends the others."""
    running = [asyncio.create_task(job) for job in jobs]
    try:
        await asyncio.gather(*running)
    finally:
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _key(task: Task, number: int) -> str:
    return f"{task} {number}"


def _record(task: Task, episode: Episode | None) -> dict[str, Any]:
    """One line of the journal. A task the policy has nothing to say to counts as tried, without a trajectory.

    Raises:
        EnvUnavailable: the infrastructure ended the episode.
    """
    entry = {"success": False, "reward": 0.0, "trajectory": None}
    if episode is None:
        return entry
    if not episode.ending.counts:
        raise EnvUnavailable(f"{task} could not be played: {episode.error}")
    trajectory = Trajectory.of(str(task), episode.messages, episode.start)
    return {
        **entry,
        "success": episode.success,
        "reward": episode.reward,
        "trajectory": agenttraj.encode(trajectory),
    }
