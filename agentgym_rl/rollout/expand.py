"""Instruction expansion: demonstrations whose task is asked for in other words.

AgentGym's platform paper (arXiv 2406.04151, section 3.2) widens its instructions by self-instruct and instruction
evolution. New tasks come from the environments' seeded generators (their ``*_variants`` splits); here a language model
rewords the sentence that states the goal. A variant is kept only when it contains everything the solution depends on,
and when the oracle's trajectory solves the task.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.data import agenttraj
from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.files import check_file
from agentgym_rl.data.panels import digest, sample
from agentgym_rl.envs import Task, TextEnv, make
from agentgym_rl.envs.core import Message
from agentgym_rl.envs.hosts import LocalHost
from agentgym_rl.rollout.collect import NothingKept
from agentgym_rl.rollout.conversation import NoResponse
from agentgym_rl.rollout.journal import Entry, Journal
from agentgym_rl.rollout.policies import Oracle
from agentgym_rl.rollout.policies.api import ChatModel
from agentgym_rl.rollout.runner import PATIENCE, Job, Progress, check_share, failures, run_jobs
from agentgym_rl.rollout.seeds import seed_of
from agentgym_rl.rollout.settings import Context, RolloutSettings, Style, choice

MAX_TOKENS = 256
"""Most tokens of a rewording."""
REQUEST = (
    "Reword the instruction below for somebody who has never seen it. Keep its meaning, every name, number and "
    "quotation exactly, and change as many of the other words as you can. Answer with the new instruction alone, on "
    "one line."
)
_WORD = re.compile(r"\w+(?:[.:'-]\w+)*")
_QUOTED = re.compile(r"\"[^\"]+\"|'[^']+'")


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of an expansion."""

    asked: int
    kept: int
    rejected: Mapping[str, int]
    """Variants that were not kept, by reason."""
    failed: int
    """Tasks without a rewording, because the environment or the model's server failed."""


async def expand(
    env: str,
    split: str,
    out: str | Path,
    model: ChatModel,
    *,
    n: int | None = None,
    variants: int = 1,
    seed: int = 0,
    style: Style | str = Style.agentgym,
    difficulty: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    min_counted: float = 1.0,
    progress: Progress | None = None,
) -> Summary:
    """Write AgentTraj JSON with reworded tasks to ``out``; interrupted, the same call goes on.

    Args:
        n, seed, difficulty: see :func:`agentgym_rl.data.panels.sample`.
        variants: rewordings asked for of each task.
        min_counted: share of the tasks that must count; others failed in the environment or the model's server.

    Raises:
        ValueError: an argument is out of range, another process writes ``out``, or the journal beside it belongs to
            other settings.
        NothingKept: no rewording is kept; the message says why.
        EnvUnavailable: too few tasks count (``min_counted``), or ``PATIENCE`` in a row failed; what has finished stays
            in the journal, and the same call runs the others again.
    """
    if variants < 1:
        raise ValueError(f"variants is {variants}; give at least 1")
    check_share(min_counted)
    check_file(Path(out), ".json")
    out, settings, oracle = Path(out), RolloutSettings(style=choice(Style, "style", style)), Oracle()
    if settings.context is Context.recent:
        raise ValueError(f"style={settings.style.value} tells the task at every turn; choose agentgym or compact")
    of_class = {**(options or {}), "style": settings.style.value}
    session = make(env, **of_class)
    tasks = sample(session, split, difficulty, n, seed)
    identity = {
        "env": env,
        "style": settings.style,
        "options": dict(options or {}),
        "policy": model.name,
        "temperature": model.temperature,
        "seed": seed,
        "variants": variants,
        "panel": digest(session, tasks),
    }

    async def work(env: TextEnv, job: Job) -> Entry:
        episode = await oracle.run(env, job.task, settings)
        if not episode.ending.counts:
            return Entry(episode)
        return Entry(facts=await _variants(env, job.task, episode, model, variants, seed))

    jobs = [Job(task) for task in tasks]
    with Journal.beside(out, identity) as journal:
        entries = await run_jobs(
            jobs, work, LocalHost(), lambda _: of_class, journal=journal, patience=PATIENCE, progress=progress
        )
        failed = failures(jobs, entries, min_counted, journal)
        counted = [entry.facts for entry in entries if entry.counts]
        trajectories = [agenttraj.decode(line) for facts in counted for line in facts["kept"]]
        rejected = Counter(reason for facts in counted for reason in facts["rejected"])
        if trajectories:
            agenttraj.write(out, trajectories)
        journal.delete()
    if not trajectories:
        reasons = ", ".join(f"{number} {reason}" for reason, number in rejected.most_common()) or "no task counts"
        raise NothingKept(f"{out} is not written, no rewording of {len(tasks)} tasks is kept: {reasons}")
    return Summary(len(tasks) * variants, len(trajectories), dict(rejected), len(failed))


async def _variants(
    env: TextEnv, task: Task, episode: Episode, model: ChatModel, variants: int, seed: int
) -> dict[str, Any]:
    """Variants of one task that are kept, and why others are not."""
    if not episode.success:
        return {"kept": [], "rejected": ["no trajectory solves the task"] * variants}
    solved = Trajectory.of(episode.item_id, episode.messages, episode.start)
    at = solved.first_trained - 1
    line = stated(solved.messages[at]["content"], env.goal(task))
    needed = essential(line, env.oracle(task))
    texts: dict[str, None] = {}
    rejected = []
    for number in range(variants):
        request: list[Message] = [{"role": "user", "content": f"{REQUEST}\n\n{line}"}]
        try:
            response = await model.respond(request, seed_of(seed, task, number), MAX_TOKENS)
            text = response.text.strip()
            cut = f"cut at {MAX_TOKENS} tokens" if response.finish_reason == "length" else None
            reason = cut or fault(text, line, needed) or ("said before" if text in texts else None)
        except NoResponse as error:
            reason = error.ending.value
        if reason:
            rejected.append(reason)
        else:
            texts[text] = None
    return {"kept": [agenttraj.encode(_reworded(solved, at, line, text)) for text in texts], "rejected": rejected}


def stated(observation: str, goal: str) -> str:
    """The line of a first observation that states the goal: it has most of the goal's words, and then fewest others."""
    goal_words = set(_words(goal))

    def likeness(line: str) -> tuple[int, int]:
        words = set(_words(line))
        return len(words & goal_words), -len(words)

    return max(observation.splitlines(), key=likeness)


def essential(line: str, commands: Sequence[str]) -> set[str]:
    """What a rewording must keep: words that the solution uses, numbers, and quotations."""
    used = {word for command in commands for word in _words(command)}
    words = _words(line)
    needed = {word for word in words if word in used or any(sign.isdigit() for sign in word)}
    return needed | {quoted.lower() for quoted in _QUOTED.findall(line)}


def fault(text: str, line: str, needed: set[str]) -> str | None:
    """Why a rewording is not kept, or None."""
    if not text or "\n" in text:
        return "not one line"
    if text == line.strip():
        return "not reworded"
    lowered = text.lower()
    words = set(_words(text))
    if any(word not in (lowered if word[0] in "\"'" else words) for word in needed):
        return "loses a name, number or quotation"
    return None


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _reworded(solved: Trajectory, at: int, line: str, text: str) -> Trajectory:
    messages = list(solved.messages)
    messages[at] = {**messages[at], "content": messages[at]["content"].replace(line, text, 1)}
    return Trajectory(solved.item_id, tuple(messages), solved.loss)
