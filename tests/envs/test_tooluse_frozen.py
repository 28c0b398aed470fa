"""What the environments of tools show and judge is frozen: instructions, tools, tasks, plans, observations, rewards."""

import asyncio
import hashlib
import json
import random
from collections.abc import Iterator

import pytest
from sessions import splits_of

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.core import Style, TextEnv

STYLES: tuple[Style, ...] = ("agentgym", "compact")
EVERY = {"train": 1, "test": 1, "train_variants": 127, "val_variants": 29, "test_variants": 29}
"""One task of so many is looked at. No stride divides the cycle of kinds of tasks, so every kind is seen."""

FROZEN = {
    "weather": {
        "spec": "995a414387195944",
        "train": "3728dfed793940ab",
        "test": "b995d8efbdef4d76",
        "train_variants": "cc79140d2ef60680",
        "val_variants": "181643b8b59cfb68",
        "test_variants": "bf61e7a6365af834",
    },
    "movie": {
        "spec": "d33d80bf26e1197c",
        "train": "5fd48b6933df70b3",
        "test": "b9d8680976bfdca5",
        "train_variants": "f3d4cd7e864ed00f",
        "val_variants": "9d7be635846d638b",
        "test_variants": "70050fafab1d752e",
    },
    "academia": {
        "spec": "ab5d1cede62d96cf",
        "train": "05ae3e77ba39e24a",
        "test": "ed4ce3d415aead8f",
        "train_variants": "6f8c739f95a8963f",
        "val_variants": "e0d0f9c7f1b4f9d3",
        "test_variants": "67000ffa2159592f",
    },
    "todo": {
        "spec": "64ad2d2182c20ed4",
        "train": "39ab77365af6f33c",
        "test": "a8282cc53b77c171",
        "train_variants": "270ed93a351ac29d",
        "val_variants": "0df5ac0128a21eb8",
        "test_variants": "2e838cadecac2276",
    },
    "sheet": {
        "spec": "cd1ecad548ead947",
        "train": "ab17246c66b9139e",
        "test": "291aa08618937dae",
        "train_variants": "07ef1af8a62f5d8e",
        "val_variants": "261081bc34a5f210",
        "test_variants": "239cbab816384117",
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
    yield f"{task} {envs[0].goal(task)} {envs[0].difficulty(task)} {splits_of(envs[0], task.index)} {plan}"
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
    values = [value for command in plan for value in json.loads(command.partition("Input: ")[2]).values()]
    strange = ["", "x" * 300, -1, 0, 3, "A1", "B3", "=SUM(A1:C3)", 12.5, "2020-02-30", "9999-12-31", None, True, []]
    commands = []
    for _ in range(30):
        tool = rng.choice(env.spec.tools[:-1])
        arguments = {each: rng.choice(values if rng.random() < 0.8 else strange) for each in tool.parameters}
        for each in tool.optional:
            if rng.random() < 0.5:
                del arguments[each]
        text = f"{tool.name} with Action Input: {json.dumps(arguments)}"
        commands.append(text if rng.random() < 0.9 else text[: rng.randrange(len(text))])
    return [*rng.sample(plan, len(plan)), *commands, plan[-1]]


def digest(lines: Iterator[str]) -> str:
    sha = hashlib.sha256()
    for line in lines:
        sha.update(line.encode() + b"\n")
    return sha.hexdigest()[:16]


@pytest.mark.parametrize("name", FROZEN)
def test_specification_is_frozen(name: str) -> None:
    assert digest(lines_of_spec(name)) == FROZEN[name]["spec"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FROZEN)
def test_tasks_are_frozen(name: str) -> None:
    envs = [make(name, style=style) for style in STYLES]
    digests = {"spec": FROZEN[name]["spec"]}
    for split, stride in EVERY.items():
        tasks = [Task(name, index) for index in envs[0].spec.splits[split][::stride]]
        digests[split] = digest(line for i, task in enumerate(tasks) for line in lines_of_task(envs, task, i % 7 == 0))
    assert digests == FROZEN[name]
