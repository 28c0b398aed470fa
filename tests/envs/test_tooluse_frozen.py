"""What the environments of tools show and judge is frozen: instructions, tools, tasks, plans, observations, rewards."""

import asyncio
import hashlib
import json
import random
from collections.abc import Iterator

import pytest

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.core import Style, TextEnv

STYLES: tuple[Style, ...] = ("agentgym", "compact")
EVERY = {"train": 4, "test": 2, "train_variants": 125, "val_variants": 25, "test_variants": 25}
"""One task of so many is looked at."""

FROZEN = {
    "weather": {
        "spec": "995a414387195944",
        "train": "c3ff3b66944f1754",
        "test": "4cb86069626140df",
        "train_variants": "6b5da79e29fe245d",
        "val_variants": "3b994ef55ba4d4e3",
        "test_variants": "ff9b54b1cea8424e",
    },
    "movie": {
        "spec": "d33d80bf26e1197c",
        "train": "19aa9e6a56b76c90",
        "test": "458fc00b906d9c3e",
        "train_variants": "4a4f26309e685c16",
        "val_variants": "4a126fa2445c4563",
        "test_variants": "5625f5483fd0f5d3",
    },
    "academia": {
        "spec": "ab5d1cede62d96cf",
        "train": "adc9c2c32f00b322",
        "test": "709fcf33c1f91fda",
        "train_variants": "dae77c3da6de0012",
        "val_variants": "4a4d9353211cdaea",
        "test_variants": "bc8f35f8b677c6b6",
    },
    "todo": {
        "spec": "64ad2d2182c20ed4",
        "train": "7a74abdb35376183",
        "test": "706d77fdb2be923f",
        "train_variants": "b617b6d92426364a",
        "val_variants": "8cfd1dbd790baaa5",
        "test_variants": "4043b319e756f947",
    },
    "sheet": {
        "spec": "905f624dfaa4f620",
        "train": "b831adf92c67b547",
        "test": "ec551e91d05a9455",
        "train_variants": "86c46d28c6825d92",
        "val_variants": "2999d58e0d419dbd",
        "test_variants": "45d6a11b79896e2c",
    },
}
"""Start of the SHA-256 over the lines of the specification and of the tasks that are looked at, by split."""


def lines_of_spec(name: str) -> Iterator[str]:
    """The specification, in each wording."""
    spec = make(name).spec
    yield from (spec.instructions[style] for style in STYLES)
    yield from (
        f"{json.dumps(tool.schema, ensure_ascii=False)} {tool.optional} {tool.signature}" for tool in spec.tools
    )
    yield from (f"{split} {list(indices)}" for split, indices in spec.splits.items())
    yield f"{spec.name} {spec.max_turns} {spec.success_above} {spec.licence}"


def lines_of_task(envs: list[TextEnv], task: Task, walk: bool) -> Iterator[str]:
    """A task, its solution and, with ``walk``, a session of random calls, in each wording."""
    plan = envs[0].oracle(task)
    yield f"{task} {envs[0].goal(task)} {envs[0].difficulty(task)} {envs[0].splits_of(task)} {plan}"
    for env in envs:
        yield from asyncio.run(lines_of_session(env, task, plan))
        if walk:
            yield from asyncio.run(lines_of_session(env, task, garbled(env, plan, random.Random(str(task)))))


async def lines_of_session(env: TextEnv, task: Task, commands: list[str]) -> list[str]:
    lines = [(await env.reset(task)).text]
    for command in commands:
        step = await env.step(command)
        lines.append(f"{step.observation.text} {step.reward} {step.terminated} {step.truncated} {dict(step.info)}")
        if step.done:
            break
    return lines


def garbled(env: TextEnv, plan: list[str], rng: random.Random) -> list[str]:
    """Calls with arguments of the plan's, or strange ones; some cannot be read."""
    known = [value for command in plan for value in json.loads(command.partition("Input: ")[2]).values()]
    strange = ["", "x" * 300, -1, 0, 3, "A1", "B3", "=SUM(A1:C3)", 12.5, "2020-02-30", "9999-12-31", None, True, []]
    commands = []
    for _ in range(30):
        tool = rng.choice(env.spec.tools[:-1])
        arguments = {each: rng.choice(known if rng.random() < 0.8 else strange) for each in tool.parameters}
        for each in tool.optional:
            if rng.random() < 0.5:
                del arguments[each]
        text = f"{tool.name} with Action Input: {json.dumps(arguments)}"
        commands.append(text if rng.random() < 0.9 else text[: rng.randrange(len(text))])
    return [*rng.sample(plan, len(plan)), *commands, plan[-1]]


def digest(lines: Iterator[str]) -> str:
    found = hashlib.sha256()
    for line in lines:
        found.update(line.encode() + b"\n")
    return found.hexdigest()[:16]


@pytest.mark.parametrize("name", FROZEN)
def test_specification_is_frozen(name: str) -> None:
    assert digest(lines_of_spec(name)) == FROZEN[name]["spec"]


@pytest.mark.parametrize("name", FROZEN)
def test_tasks_are_frozen(name: str) -> None:
    envs = [make(name, style=style) for style in STYLES]
    found = {"spec": FROZEN[name]["spec"]}
    for split, every in EVERY.items():
        tasks = [Task(name, index) for index in envs[0].spec.splits[split][::every]]
        found[split] = digest(line for i, task in enumerate(tasks) for line in lines_of_task(envs, task, i % 4 == 0))
    assert found == FROZEN[name]
