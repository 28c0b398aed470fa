"""The checks of the environment checker.

Each is a function of a :class:`Subject`; it yields one line per fault and may raise :class:`Skipped`. An exception of
the environment is a fault like any other.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from agentgym_rl.envs.actions import Action
from agentgym_rl.envs.core import (
    EnvFault,
    EnvSpec,
    EnvTimeout,
    EnvUnavailable,
    Observation,
    ProtocolError,
    Task,
    TaskNotFound,
    TextEnv,
)
from agentgym_rl.envs.formats import reader, write
from agentgym_rl.envs.hosts import EnvHost, LocalHost
from agentgym_rl.envs.item_ids import check_name
from agentgym_rl.envs.probe import GARBAGE, Walk, act, digest, follow, solution, walk, wander

HASH_SEEDS = ("1", "2")


class Skipped(Exception):
    """The check does not apply; the message is the reason."""


@dataclass(slots=True)
class Subject:
    """The environment under check, and notes of the checks for the report."""

    name: str
    options: Mapping[str, Any]
    env: TextEnv
    tasks: list[Task]
    splits: tuple[str, ...]
    host: EnvHost
    tick: Callable[[float], None] = lambda share: None
    """Called with the share of the present check that is done."""
    note: str = ""
    trying: str = ""
    """The item id of the present task, where there is one."""
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def spec(self) -> EnvSpec:
        return self.env.spec

    def each(self) -> Iterator[Task]:
        """The tasks; reports the progress."""
        for position, task in enumerate(self.tasks):
            self.tick(position / len(self.tasks))
            self.trying = str(task)
            yield task
        self.trying = ""

    def another(self) -> TextEnv:
        """A second session of the same environment."""
        return self.host.open(self.name, self.options)


async def spec_sane(subject: Subject) -> AsyncIterator[str]:
    spec = subject.spec
    if spec.name != subject.name:
        yield f"spec.name is {spec.name!r}, the entry point is {subject.name!r}"
    try:
        check_name(subject.name)
    except ValueError as error:
        yield str(error)
    for split in ("train", "test"):
        if split not in spec.splits:
            yield f"split {split!r} is missing"
    for split, indices in spec.splits.items():
        if len(indices) == 0:
            yield f"split {split!r} is empty"
    for style in ("agentgym", "compact"):
        if not str(spec.instructions.get(style, "")).strip():
            yield f"style {style!r} has no instruction"
    if spec.max_turns < 1:
        yield f"max_turns is {spec.max_turns}"
    if not 0 <= spec.success_above < 1:
        yield f"success_above is {spec.success_above}; no reward in [0, 1] can exceed it, or none can miss it"
    if not spec.licence:
        yield "licence is empty; name licence and origin of the data"
    subject.note = ", ".join(f"{split} {len(indices)}" for split, indices in spec.splits.items())


async def tasks_described(subject: Subject) -> AsyncIterator[str]:
    for task in subject.each():
        described: tuple[object, object] = (subject.env.goal(task), subject.env.difficulty(task))
        goal, difficulty = described
        if not (isinstance(goal, str) and isinstance(difficulty, str)):
            yield f"{task}: goal {goal!r} and difficulty {difficulty!r} must be texts"
            continue
        if not goal.strip() or "\n" in goal:
            yield f"{task}: goal {goal!r} is not one line of text"
        if not difficulty.strip():
            yield f"{task}: difficulty is empty"
        if not any(task.index in subject.spec.splits[split] for split in subject.splits):
            yield f"{task}: `in` does not find the task in the split that lists it"


async def splits_apart(subject: Subject) -> AsyncIterator[str]:
    if subject.spec.repeats:
        raise Skipped(subject.spec.repeats)
    shown: dict[str, tuple[Task, str]] = {}
    for task in subject.each():
        split = next(name for name in subject.splits if task.index in subject.spec.splits[name])
        first, owner = shown.setdefault(await subject.env.content(task), (task, split))
        if owner != split:
            yield f"{task} of {split} is the same game as {first} of {owner}"


async def same_in_process(subject: Subject) -> AsyncIterator[str]:
    _needs_determinism(subject)
    for task in subject.each():
        subject.digests[str(task)] = await digest(subject.env, task)
        if await digest(subject.env, task) != subject.digests[str(task)]:
            yield f"{task}: two runs gave different transcripts"


async def same_across_processes(subject: Subject) -> AsyncIterator[str]:
    _needs_determinism(subject)
    if not isinstance(subject.host, LocalHost):
        raise Skipped("the environment does not run in this process")
    here = subject.digests  # made by the previous check
    if not here:
        raise Skipped("no transcript could be made in this process")
    asked = {"env": subject.name, "options": subject.options, "item_ids": list(here)}
    request = json.dumps(asked, default=os.fspath)
    for position, hash_seed in enumerate(HASH_SEEDS):
        subject.tick(position / len(HASH_SEEDS))
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "agentgym_rl.envs.probe"],
            input=request,
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
        )
        if done.returncode:
            yield f"a fresh process failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}"
            continue
        there = json.loads(done.stdout)
        for item_id in here:
            if here[item_id] != there[item_id]:
                yield f"{item_id}: another process (PYTHONHASHSEED={hash_seed}) gave a different transcript"


async def oracle_solves(subject: Subject) -> AsyncIterator[str]:
    lengths = []
    for task in subject.each():
        actions = solution(subject.env, task)
        if actions is None:
            continue
        lengths.append(len(actions))
        if (thoughts := len(subject.env.thoughts(task))) not in (0, len(actions)):
            yield f"{task}: {thoughts} thoughts for the oracle's {len(actions)} actions; give one for each, or none"
        for fault in format_faults(subject.spec, actions):
            yield f"{task}: {fault}"
        trail = await walk(subject.env, task, follow(actions))
        if len(trail.steps) < len(actions):
            yield f"{task}: over after {len(trail.steps)} of the oracle's {len(actions)} actions"
        if not trail.steps or not trail.steps[-1].terminated:
            yield f"{task}: not terminated after the oracle's {len(actions)} actions"
        if not subject.spec.success(trail.reward):
            yield f"{task}: the oracle earns {trail.reward:g}, success needs more than {subject.spec.success_above:g}"
    if not lengths:
        raise Skipped("the environment has no oracle")
    subject.note = f"{len(lengths)} tasks solved, the longest in {max(lengths)} actions"
    if len(lengths) < len(subject.tasks):
        subject.note += f"; {len(subject.tasks) - len(lengths)} have no oracle"
    if over := sum(length > subject.spec.max_turns for length in lengths):
        subject.note += f"; {over} take more than max_turns {subject.spec.max_turns}"


async def random_rewards(subject: Subject) -> AsyncIterator[str]:
    for task in subject.each():
        try:
            await walk(subject.env, task, wander(task))  # a step with another reward raises
        except EnvFault as error:
            yield f"{task}: under random actions, {error}"


async def achieved_goals_earn(subject: Subject) -> AsyncIterator[str]:
    """In each task, commands at random, and then those that solve another task."""
    if not subject.env.relabels:
        raise Skipped("the environment does not tell which other goals an episode reached")
    reached, others = 0, [solution(subject.env, task) or [] for task in subject.tasks]
    session = subject.another()
    try:
        for place, task in enumerate(subject.each()):
            for chosen in (wander(task), follow(others[place - 1])):
                commands = (await walk(subject.env, task, chosen)).actions
                if (goal := subject.env.achieved(task, commands)) is None:
                    continue
                reached += 1
                if not 0 < goal.upto_turn <= len(commands):
                    yield f"{task}: {goal.goal!r} is reached after {goal.upto_turn} of {len(commands)} commands"
                    continue
                if goal.goal == subject.env.goal(task):
                    yield f"{task}: {goal.goal!r} is the task's own goal"
                session.pursue(goal.goal)
                if session.goal(task) != goal.goal:
                    yield f"{task}: under the goal {goal.goal!r}, `goal` gives {session.goal(task)!r}"
                trail = await walk(session, task, follow(commands[: goal.upto_turn]))
                early = any(step.reward for step in trail.steps[:-1]) or len(trail.steps) < goal.upto_turn
                if early or not trail.steps[-1].terminated or not subject.spec.success(trail.reward):
                    rewards = [step.reward for step in trail.steps]
                    yield f"{task}: under the goal {goal.goal!r}, {goal.upto_turn} commands earn {rewards}"
    finally:
        await session.close()
    subject.note = f"{reached} goals of other tasks were reached"


async def steps_left_count_down(subject: Subject) -> AsyncIterator[str]:
    """On the oracle's way, and where commands at random lead."""
    walks = 0
    for task in subject.each():
        if subject.env.steps_left(task, []) is None:
            continue
        for chosen in (follow(solution(subject.env, task) or []), wander(task)):
            trail = await walk(subject.env, task, chosen)
            remaining = subject.env.steps_left(task, trail.actions) or []
            walks += 1
            solved = [subject.spec.success(sum(step.reward for step in trail.steps[:n])) for n in range(len(remaining))]
            if len(remaining) != len(trail.actions) + 1:
                yield f"{task}: {len(remaining)} numbers of steps left for {len(trail.actions)} commands; give one more"
            elif [steps == 0 for steps in remaining] != solved:
                yield f"{task}: steps left are 0 where the task is solved, and nowhere else, but they are {remaining}"
            elif any(after < before - 1 for before, after in pairwise(remaining)):
                yield f"{task}: a command takes one step, but those left are {remaining}"
    if not walks:
        raise Skipped("the environment does not tell how many steps are left")
    subject.note = f"{walks} walks"


async def garbage_is_harmless(subject: Subject) -> AsyncIterator[str]:
    for task in subject.tasks[:3]:
        rest = list(GARBAGE)
        while rest:  # an episode that garbage ends is followed by another one
            trail = await walk(subject.env, task, follow(rest))
            for action, step in zip(trail.actions, trail.steps, strict=True):
                answer: object = step.observation.text
                if not isinstance(answer, str):
                    yield f"{task}: {action[:40]!r} is answered by {answer!r}, not by text"
                if action == "qwzx" and not step.info.get("invalid"):
                    yield f"{task}: info['invalid'] is not true after the action {action!r}"
            del rest[: len(trail.steps)]


async def order_is_kept(subject: Subject) -> AsyncIterator[str]:
    task = subject.tasks[0]
    fresh = subject.another()
    try:
        if not await _raises(ProtocolError, fresh.step("look")):
            yield "a step before the first reset does not raise ProtocolError"
    finally:
        await fresh.close()
    trail = await walk(subject.env, task, follow(solution(subject.env, task) or []))
    if not trail.done:
        subject.note = "no task could be ended, so steps after the end were not tried"
    elif not await _raises(ProtocolError, subject.env.step("look")):
        yield f"{task}: a step after the end does not raise ProtocolError"


async def unknown_task_is_refused(subject: Subject) -> AsyncIterator[str]:
    for index in (-1, 10**15):
        if not await _raises(TaskNotFound, subject.env.reset(Task(subject.name, index))):
            yield f"reset to index {index} does not raise TaskNotFound"


async def session_is_reusable(subject: Subject) -> AsyncIterator[str]:
    task, other_task = subject.tasks[0], subject.tasks[-1]
    session = subject.another()
    try:
        first = await session.reset(task)
        await session.step("look")
        for after, prepare in (("a step", _nothing), ("another task", lambda: session.reset(other_task))):
            await prepare()
            if not _same(subject, first, await session.reset(task)):
                yield f"{task}: reset after {after} gives another first observation"
        await session.close()
        await session.close()
        if not _same(subject, first, await session.reset(task)):
            yield f"{task}: reset after close gives another first observation"
    finally:
        await session.close()


async def sessions_are_independent(subject: Subject) -> AsyncIterator[str]:
    _needs_determinism(subject)
    tasks = (subject.tasks[0], subject.tasks[-1])
    plans = [solution(subject.env, task) or list(GARBAGE) for task in tasks]
    alone = [await walk(subject.env, task, follow(plan)) for task, plan in zip(tasks, plans, strict=True)]
    sessions = [subject.another(), subject.another()]
    try:
        trails = [Walk(task, await session.reset(task)) for task, session in zip(tasks, sessions, strict=True)]
        for turn in range(max(len(trail.steps) for trail in alone)):
            for session, trail, expected in zip(sessions, trails, alone, strict=True):
                if turn < len(expected.actions) and not trail.done:
                    await act(session, trail, expected.actions[turn])
        for trail, expected in zip(trails, alone, strict=True):
            if trail.digest() != expected.digest():
                yield f"{trail.task}: stepping a second session in between changes the transcript"
    finally:
        for session in sessions:
            await session.close()


CHECKS: dict[str, Callable[[Subject], AsyncIterator[str]]] = {
    "spec is sane": spec_sane,
    "tasks have goal and difficulty": tasks_described,
    "no game in two splits": splits_apart,
    "deterministic within a process": same_in_process,
    "deterministic across processes": same_across_processes,
    "oracle solves": oracle_solves,
    "rewards in [0, 1] at random": random_rewards,
    "achieved goals earn success": achieved_goals_earn,
    "steps left count down": steps_left_count_down,
    "garbage is an observation": garbage_is_harmless,
    "calls out of order raise": order_is_kept,
    "unknown task is refused": unknown_task_is_refused,
    "session can be reused": session_is_reusable,
    "sessions are independent": sessions_are_independent,
}


def format_faults(spec: EnvSpec, commands: list[str]) -> Iterator[str]:
    """Faults of the action formats: a command that is written in a format must be read back unchanged."""
    for action_format in spec.action_formats:
        parse = reader(spec, action_format)
        for command in commands:
            try:
                read = parse(write(spec, action_format, command, "because"))
            except ValueError as error:
                yield f"{command!r} cannot be written as {action_format}: {error}"
                continue
            if not isinstance(read, Action) or read.command != command:
                yield f"{command!r} written as {action_format} is read as {read}"


def _needs_determinism(subject: Subject) -> None:
    if not subject.spec.deterministic:
        raise Skipped("by its spec the environment is not deterministic")


def _same(subject: Subject, observation: Observation, other: Observation) -> bool:
    return observation == other or not subject.spec.deterministic


async def _nothing() -> None:
    return None


async def _raises(expected: type[Exception], call: Awaitable[object]) -> bool:
    try:
        await call
    except expected:
        return True
    except (EnvUnavailable, EnvTimeout):
        raise
    except Exception:  # noqa: BLE001 - the wrong exception is as bad as none
        return False
    return False
