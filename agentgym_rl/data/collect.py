"""Collect trajectories by letting a policy play the tasks of a split."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentgym_rl.data import agenttraj
from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.conversation import Scripted
from agentgym_rl.data.files import append_jsonl, read_jsonl
from agentgym_rl.data.panels import digest, sample
from agentgym_rl.data.play import attempt
from agentgym_rl.data.policies import OraclePolicy, RandomPolicy
from agentgym_rl.data.settings import RolloutSettings
from agentgym_rl.envs import Task, TextEnv, make
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.core import OracleUnavailable, Style

PolicyName = Literal["oracle", "random"]
Keep = Literal["success", "all"]
Progress = Callable[[int, int], None]
"""Called with the number of tasks played and of all tasks."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of a collection."""

    attempted: int
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
    policy: PolicyName = "oracle",
    n: int | None = None,
    seed: int = 0,
    style: Style = "agentgym",
    max_turns: int | None = None,
    difficulty: Sequence[str] | None = None,
    keep: Keep = "success",
    action_format: ActionFormat = ActionFormat.REACT,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Play each task once and write the kept trajectories to ``out`` as AgentTraj JSON.

    ``out`` appears when everything has been played. Until then finished tasks are kept beside it in
    ``<out>.partial.jsonl``; the same call goes on from there, and reaches the same file as a call that was never
    interrupted.

    Args:
        n, seed, difficulty: see :func:`agentgym_rl.data.panels.sample`.
        keep: successful trajectories only, or all of them.

    Raises:
        ValueError: an argument is out of range, or the journal beside ``out`` belongs to other settings.
        EnvError: the world failed; what was played so far stays in the journal.
    """
    if policy not in ("oracle", "random"):
        raise ValueError(f"policy {policy!r} is unknown; choose oracle or random")
    if keep not in ("success", "all"):
        raise ValueError(f"keep {keep!r} is unknown; choose success or all")
    if max_turns is not None and max_turns < 1:
        raise ValueError(f"max_turns is {max_turns}; give at least 1")
    out = Path(out)
    if out.is_dir():
        raise ValueError(f"{out} is a folder; give the name of a file, such as {out / f'{env}_{split}.json'}")
    world = make(env, **{**(options or {}), "style": style})
    try:
        tasks = list(dict.fromkeys(sample(world, split, difficulty, n, seed)))
        settings = {
            "env": env,
            "style": style,
            "action_format": action_format.value,
            "options": dict(options or {}),
            "policy": policy,
            "seed": seed,
            "max_turns": world.spec.max_turns if max_turns is None else max_turns,
            "panel": digest(world, tasks),
        }
        journal = out.with_name(out.name + ".partial.jsonl")
        played = _resume(journal, settings)
        with journal.open("a", encoding="utf-8", newline="\n") as file:
            if not played and file.tell() == 0:
                append_jsonl(file, settings)
            for done, task in enumerate(tasks):
                if progress:
                    progress(done, len(tasks))
                if str(task) not in played:
                    record = await _play(world, task, policy, seed, max_turns, action_format)
                    append_jsonl(file, record)
                    played[str(task)] = record
        if progress:
            progress(len(tasks), len(tasks))
    finally:
        await world.close()
    records = [played[str(task)] for task in tasks]
    kept = [record for record in records if record["trajectory"] and (keep == "all" or record["success"])]
    agenttraj.write(out, [agenttraj.decode(record["trajectory"]) for record in kept])
    journal.unlink()
    return Summary(
        attempted=len(records),
        succeeded=sum(record["success"] for record in records),
        kept=len(kept),
        mean_turns=sum(record["turns"] for record in kept) / len(kept) if kept else 0.0,
        digest=str(settings["panel"]),
    )


async def _play(
    world: TextEnv, task: Task, policy: PolicyName, seed: int, max_turns: int | None, action_format: ActionFormat
) -> dict[str, Any]:
    """One line of the journal. A task no oracle is known for counts as tried, without a trajectory."""
    player: OraclePolicy | RandomPolicy
    horizon = world.spec.max_turns if max_turns is None else max_turns
    if policy == "random":
        player = RandomPolicy(f"{seed} {task}", world, action_format)
    else:
        try:
            commands = world.oracle(task)
        except OracleUnavailable:
            commands = []
        if not commands:
            return {"item_id": str(task), "success": False, "turns": 0, "trajectory": None}
        player = OraclePolicy(commands, world, action_format)
        horizon = min(horizon, len(commands))
    episode = await attempt(
        world, task, Scripted(player), RolloutSettings(action_format=action_format), horizon, watch=player.watch
    )
    start = len(world.spec.conversation_start(world.style))
    return {
        "item_id": str(task),
        "success": episode.success,
        "turns": len(episode.turns),
        "trajectory": agenttraj.encode(Trajectory.of(str(task), episode.messages, start)),
    }


def _resume(journal: Path, settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Tasks that an interrupted call finished, by item id; leaves a journal that can be appended to."""
    journal.parent.mkdir(parents=True, exist_ok=True)
    if not journal.exists():
        return {}
    rows = list(read_jsonl(journal, torn_end=True))
    settings = json.loads(json.dumps(settings))
    if rows and rows[0] != settings:
        other = [key for key in settings if rows[0].get(key) != settings[key]]
        raise ValueError(
            f"{journal} holds an interrupted collection with another {' and '.join(other)}; "
            "repeat its command to finish it, delete it, or choose another file"
        )
    _drop_torn_end(journal)
    return {row["item_id"]: row for row in rows[1:]}


def _drop_torn_end(journal: Path) -> None:
    content = journal.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with journal.open("r+b") as file:
            file.truncate(whole)
