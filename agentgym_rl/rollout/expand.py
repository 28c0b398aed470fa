"""Instruction expansion: expert trajectories whose task is asked for in other words.

AgentGym's platform paper (arXiv 2406.04151, section 3.2) widens its instructions by self-instruct and instruction
evolution. New tasks come from the worlds' seeded generators (their ``*_variants`` splits); here a language model
rewords the sentence that states the goal. A variant is kept only when it still says everything the solution depends
on, and when the replayed trajectory solves the task.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.data import agenttraj
from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.panels import digest, sample
from agentgym_rl.envs import Task, TextEnv, make
from agentgym_rl.envs.core import Message, Style
from agentgym_rl.rollout.journal import Partial
from agentgym_rl.rollout.policies.api import ChatModel
from agentgym_rl.rollout.policies.base import oracle
from agentgym_rl.rollout.settings import RolloutSettings

REQUEST = (
    "Reword the instruction below for somebody who has never seen it. Keep its meaning, every name, number and "
    "quotation exactly, and change as many of the other words as you can. Answer with the new instruction alone, on "
    "one line."
)
_WORD = re.compile(r"\w+(?:[.:'-]\w+)*")
_QUOTED = re.compile(r"\"[^\"]+\"|'[^']+'")


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of an expansion."""

    asked: int
    kept: int
    rejected: Mapping[str, int]
    """Variants that were not kept, by reason."""


async def expand(
    env: str,
    split: str,
    out: str | Path,
    model: ChatModel,
    n: int | None = None,
    variants: int = 1,
    seed: int = 0,
    style: Style = "agentgym",
    difficulty: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Summary:
    """Write AgentTraj JSON with reworded tasks to ``out``; interrupted, the same call goes on.

    Args:
        n, seed, difficulty: see :func:`agentgym_rl.data.panels.sample`.
        variants: rewordings asked for of each task.

    Raises:
        ValueError: an argument is out of range, or the journal beside ``out`` belongs to other settings.
        EnvError: the world or the model's server failed; what is done stays in the journal.
    """
    if variants < 1:
        raise ValueError(f"variants is {variants}; give at least 1")
    out = Path(out)
    world = make(env, **{**(options or {}), "style": style})
    player = oracle(RolloutSettings(style=style))
    try:
        tasks = sample(world, split, difficulty, n, seed)
        settings = {
            "env": env,
            "style": style,
            "options": dict(options or {}),
            "policy": model.name,
            "seed": seed,
            "variants": variants,
            "panel": digest(world, tasks),
        }
        with Partial(out, settings) as done:
            for number, task in enumerate(tasks):
                if progress:
                    progress(number, len(tasks))
                if str(task) in done.rows:
                    continue
                episode = await player.play(world, task, 0)
                solved = None
                if episode is not None and episode.success:
                    solved = Trajectory.of(str(task), episode.messages, episode.start)
                done.add(str(task), await _variants(world, task, solved, model, variants, seed))
        if progress:
            progress(len(tasks), len(tasks))
    finally:
        await world.close()
    rows = [done.rows[str(task)] for task in tasks]
    kept = [agenttraj.decode(entry) for row in rows for entry in row["kept"]]
    agenttraj.write(out, kept)
    done.finish()
    rejected = Counter(reason for row in rows for reason in row["rejected"])
    return Summary(len(kept) + rejected.total(), len(kept), dict(rejected))


async def _variants(
    world: TextEnv, task: Task, solved: Trajectory | None, model: ChatModel, variants: int, seed: int
) -> dict[str, Any]:
    """Variants of one task that are kept, and why others are not."""
    if solved is None:
        return {"kept": [], "rejected": ["no trajectory solves the task"] * variants}
    at = solved.loss.index(True) - 1
    line = stated(solved.messages[at]["content"], world.goal(task))
    wanted = essential(line, world.oracle(task))
    said: dict[str, None] = {}
    rejected = []
    for number in range(variants):
        request: list[Message] = [{"role": "user", "content": f"{REQUEST}\n\n{line}"}]
        reply = await model.reply(request, seed + number)
        text = "" if reply is None else reply.text.strip()
        reason = fault(text, line, wanted) or ("said before" if text in said else None)
        if reason:
            rejected.append(reason)
        else:
            said[text] = None
    return {"kept": [agenttraj.encode(_reworded(solved, at, line, text)) for text in said], "rejected": rejected}


def stated(observation: str, goal: str) -> str:
    """The line of a first observation that states the goal: it shares most words with it, and has fewest others."""
    wanted = set(_words(goal))

    def likeness(line: str) -> tuple[int, int]:
        words = set(_words(line))
        return len(words & wanted), -len(words)

    return max(observation.splitlines(), key=likeness)


def essential(line: str, commands: Sequence[str]) -> set[str]:
    """What a rewording must keep: words that the solution uses, numbers, and quotations."""
    used = {word for command in commands for word in _words(command)}
    words = _words(line)
    kept = {word for word in words if word in used or any(sign.isdigit() for sign in word)}
    return kept | {quoted.lower() for quoted in _QUOTED.findall(line)}


def fault(text: str, line: str, wanted: set[str]) -> str | None:
    """Why a rewording is not kept, or None."""
    if not text or "\n" in text:
        return "not one line"
    if text == line.strip():
        return "not reworded"
    found = text.lower()
    words = set(_words(text))
    if any(one not in (found if one[0] in "\"'" else words) for one in wanted):
        return "loses a name, number or quotation"
    return None


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _reworded(solved: Trajectory, at: int, line: str, text: str) -> Trajectory:
    messages = list(solved.messages)
    messages[at] = {**messages[at], "content": messages[at]["content"].replace(line, text, 1)}
    return Trajectory(solved.item_id, tuple(messages), solved.loss)
