"""What every installed environment does."""

import asyncio
import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from sweep import spread, swept, thinned

from agentgym_rl.envs import Task, TextEnv, available, checks, env_class, make
from agentgym_rl.envs.check import check
from agentgym_rl.envs.core import ProtocolError, TaskNotFound
from agentgym_rl.envs.probe import GARBAGE, digest, follow, solution, walk, wander

FROZEN = json.loads((Path(__file__).parent / "frozen.json").read_text())
"""By environment: size of each split, with digests of some and of many of its tasks; and a digest of the texts in each
wording. After a change, old and new runs are not comparable."""

OVERLAPPING = {"sciworld": {"agentgym"}}
"""Splits that repeat the tasks of others."""

HIDDEN = {"alfworld", "babyai", "maze", "sciworld", "sheet", "todo", "weather", "wordle"}
"""Environments whose first observation leaves out what the agent finds out later, so that two games may share it."""

STYLES = ("agentgym", "compact")
ELSEWHERE = ("harness", "mcp", "miniwob", "openenv", "webarena")
"""``test_harness_tasks.py``, ``test_mcp.py``, ``test_miniwob.py``, ``test_openenv.py`` and ``test_webarena.py`` stand
for these, whose episodes need a program, a server or a browser."""

PAGES = {"harness": "gateway"}
"""Pages of environments that have another name."""

HERE = [name for name in available() if name not in ELSEWHERE]
"""The environments that run in this process. The others need a server."""

SLOW = {"babyai": 6, "sciworld": 0}
"""Environments whose oracles take long or solve not every task: how many tasks of a split are solved here."""

ACTIONS = {"sciworld": 300, "sqlgym": 2_000}
"""Random actions of an environment whose steps take milliseconds, at ``SWEEP=10``; else :data:`MANY`."""
MANY = 10_000
LONGEST = 4_000
"""Characters of an observation after the first one, which states the task."""


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.java] * (name == "sciworld")) for name in HERE])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[name for name in HERE if name != "sciworld"])
def solvable(request: pytest.FixtureRequest) -> str:
    """Environments whose oracles take less than seconds; ``test_sciworld.py`` chooses games with short solutions."""
    return str(request.param)


def tasks_of(env: TextEnv, n: int, splits: Sequence[str] | None = None) -> list[Task]:
    """At most ``n`` tasks of each split."""
    chosen = splits or list(env.spec.splits)
    return [Task(env.name, index) for split in chosen for index in spread(env.spec.splits[split], n)]


def digest_of_split(name: str, split: str, tasks: int) -> str:
    """Start of the SHA-256 over all indices of a split, and over goals and difficulties of some tasks."""
    env = make(name)
    digest = hashlib.sha256(json.dumps(list(env.spec.splits[split])).encode())
    for task in tasks_of(env, tasks, [split]):
        digest.update(f"{task}\t{env.goal(task)}\t{env.difficulty(task)}\n".encode())
    return digest.hexdigest()[:16]


async def digest_of_texts(name: str, style: str) -> str:
    """Start of the SHA-256 over instruction, functions and limits, and over what some episodes show and earn."""
    env = make(name, style=style)
    spec = env.spec
    tools = [tool.schema for tool in spec.tools]
    limits = [spec.max_turns, spec.success_above, spec.raw_reward_range, spec.deterministic, spec.replayable]
    digest = hashlib.sha256(json.dumps([spec.conversation_start(env.style), tools, limits]).encode())
    for task in tasks_of(env, 1 if name in SLOW else 4):
        plan = [] if name == "sciworld" else solution(env, task) or []
        for choose in (follow(plan), wander(task)):
            trail = await walk(env, task, choose)
            digest.update(f"{trail.digest()} {[sorted(step.info.items()) for step in trail.steps]}\n".encode())
    await env.close()
    return digest.hexdigest()[:16]


def test_every_environment_is_frozen() -> None:
    assert {name: list(make(name).spec.splits) for name in available()} == {
        name: list(frozen["splits"]) for name, frozen in FROZEN.items()
    }


SPLITS = [(name, split) for name, frozen in FROZEN.items() for split in frozen["splits"]]


@pytest.mark.parametrize(("name", "split"), thinned(SPLITS, 2))
def test_splits_are_frozen(name: str, split: str) -> None:
    size, some, _ = FROZEN[name]["splits"][split]
    assert [len(make(name).spec.splits[split]), digest_of_split(name, split, 20)] == [size, some]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "split"), SPLITS)
def test_many_tasks_of_splits_are_frozen(name: str, split: str) -> None:
    tasks = 60 if name in SLOW else 600 if split in ("train", "test") else 120
    assert digest_of_split(name, split, tasks) == FROZEN[name]["splits"][split][2]


@pytest.mark.parametrize("style", STYLES)
def test_texts_are_frozen(name: str, style: str) -> None:
    assert asyncio.run(digest_of_texts(name, style)) == FROZEN[name]["texts"][style]


@pytest.mark.parametrize("name", FROZEN)
def test_splits_are_disjoint(name: str) -> None:
    splits = make(name).spec.splits
    parts = [indices for split, indices in splits.items() if split not in OVERLAPPING.get(name, ())]
    assert len({index for indices in parts for index in indices}) == sum(map(len, parts))


@pytest.mark.sweep
@pytest.mark.parametrize("style", STYLES)
def test_no_split_repeats_the_content_of_another(name: str, style: str) -> None:
    async def splits_by_text() -> Iterator[tuple[str, set[str]]]:
        env = make(name, style=style)
        splits_of: dict[str, set[str]] = {}
        for split in env.spec.splits.keys() - OVERLAPPING.get(name, set()):
            for task in tasks_of(env, 4 if name in SLOW else swept(100), [split]):
                splits_of.setdefault(f"content {await env.content(task)}", set()).add(split)
                if name not in HIDDEN:
                    splits_of.setdefault((await env.reset(task)).text, set()).add(split)
        await env.close()
        return iter(splits_of.items())

    assert [(text, splits) for text, splits in asyncio.run(splits_by_text()) if len(splits) > 1] == []


def test_the_readme_says_where_official_tasks_come_from() -> None:
    """As `agentgym-rl envs` does: elsewhere an item id of AgentGym's is another task."""
    rows = (Path(__file__).parents[2] / "README.md").read_text().splitlines()
    for name in set(available()) - {"harness", "mcp", "openenv"}:
        (row,) = [row for row in rows if row.startswith("| [") and f"(docs/envs/{name}.md)" in row]
        for word in ("built in", "file", "server"):
            assert (word in row.split("|")[3]) == (word in make(name).spec.official), (name, word)


@pytest.mark.parametrize("name", available())
def test_found_by_name_and_described(name: str) -> None:
    env = make(name)
    assert type(env) is env_class(name) and env.name == env.spec.name == name
    assert env.spec.licence.strip() and {"train", "test"} <= env.spec.splits.keys()
    docs = Path(__file__).parents[2] / "docs"
    assert (docs / "envs" / f"{name}.md").is_file() or (docs / f"{PAGES.get(name, name)}.md").is_file()
    with pytest.raises(ValueError, match="has no style 'loud'; choose agentgym or compact"):
        make(name, style="loud")


@pytest.mark.parametrize("style", [pytest.param("agentgym", marks=pytest.mark.slow), "compact"])
def test_keeps_the_contract(solvable: str, style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if style == "compact":  # the next test compares all environments with one fresh process
        monkeypatch.setattr(checks, "HASH_SEEDS", ())
    report = check(solvable, n=2, options={"style": style})
    optional = set() if make(solvable).relabels else {"achieved goals earn success"}
    optional |= set() if solvable == "maze" else {"steps left count down"}
    required = [finding for finding in report.findings if finding.name not in optional]
    assert [(finding.name, finding.faults) for finding in required if finding.passed is not True] == []


@pytest.mark.slow
def test_a_fresh_process_has_the_same_games() -> None:
    """Under another hash seed. A process for each environment would start for longer than it plays."""
    names = [name for name in HERE if name != "sciworld"]
    program = (
        "import asyncio, json, sys; from agentgym_rl.envs import make, probe, Task; digest = lambda item_id: "
        "asyncio.run(probe.digest(make((task := Task.parse(item_id)).env), task)); "
        "print(json.dumps({item_id: digest(item_id) for item_id in sys.argv[1:]}))"
    )
    item_ids = [str(task) for name in names for task in tasks_of(make(name), 1, ["train", "test"])]
    fresh = subprocess.run(
        [sys.executable, "-c", program, *item_ids], stdout=subprocess.PIPE, check=True, text=True,
        env=os.environ | {"PYTHONHASHSEED": "1"},
    )  # fmt: skip
    here = {item_id: asyncio.run(digest(make(item_id.rsplit("_", 1)[0]), Task.parse(item_id))) for item_id in item_ids}
    assert json.loads(fresh.stdout) == here


@pytest.mark.parametrize("name", HERE)
def test_tasks_of_another_environment_are_refused(name: str) -> None:
    env = make(name)
    task = Task("textcraft" if name == "maze" else "maze", 0)
    for ask in (env.goal, env.difficulty, env.oracle, lambda task: asyncio.run(env.reset(task))):
        with pytest.raises(TaskNotFound, match=f"{task} is not a task of {name}"):
            ask(task)


def test_calls_keep_their_order(name: str) -> None:
    async def misuse() -> None:
        env = make(name)
        (task, *_) = tasks_of(env, 1, ["test"])
        with pytest.raises(ProtocolError):
            await env.step("look")
        await env.reset(task)
        await env.close()
        await env.close()
        with pytest.raises(ProtocolError):
            await env.step("look")

    asyncio.run(misuse())


@pytest.mark.sweep
def test_oracle_solves(solvable: str) -> None:
    """Some tasks of train and test, in either wording: no action is invalid, only the last one ends."""

    async def solve() -> None:
        envs = [make(solvable, style=style) for style in STYLES]
        for number, task in enumerate(tasks_of(envs[0], SLOW.get(solvable) or swept(600), ["train", "test"])):
            env = envs[number % 2]
            actions = solution(env, task)
            if actions is None:
                assert solvable in SLOW, f"{task} has no oracle"
                continue
            assert len(actions) <= env.spec.max_turns or solvable in SLOW, task
            trail = await walk(env, task, follow(actions))
            assert not any(step.info["invalid"] for step in trail.steps), task
            assert [step.terminated for step in trail.steps] == [False] * (len(actions) - 1) + [True], task
            assert env.spec.success(trail.reward), task
        for env in envs:
            await env.close()

    asyncio.run(solve())


def test_both_wordings_have_the_same_tasks(solvable: str) -> None:
    env, other = (make(solvable, style=style) for style in STYLES)
    assert env.spec.splits == other.spec.splits
    for task in tasks_of(env, 1 if solvable in SLOW else 5):
        assert (env.goal(task), env.difficulty(task)) == (other.goal(task), other.difficulty(task))
        assert solution(env, task) == solution(other, task)


def scrambled(rng: random.Random, command: str) -> str:
    """A command with some of its words moved, lost or doubled."""
    words = command.split()
    for _ in range(rng.randint(1, 3)):
        if words:
            at = rng.randrange(len(words))
            words.insert(rng.randrange(len(words)), words.pop(at) if rng.random() < 0.7 else words[at])
    return " ".join(words)


async def roam(name: str, actions: int) -> tuple[int, int]:
    """Random actions, some of the oracle's among them, in random tasks; how many, and the longest observation."""
    env, rng = make(name), random.Random(f"walks {name}")
    played, longest = 0, 0
    commands = list(GARBAGE)
    splits = list(env.spec.splits.values())
    while played < actions:
        split = rng.choice(splits)
        task = Task(name, split[rng.randrange(len(split))])
        first = await env.reset(task)
        solving = [] if name in SLOW else solution(env, task) or []
        commands = [*commands[-60:], *solving]
        total, possible = 0.0, first.actions
        for action in choices(rng, solving, commands, min(25, actions - played)):
            step = await env.step(rng.choice(possible) if action is None and possible else action or "")
            played += 1
            total += step.reward
            possible = step.observation.actions
            longest = max(longest, len(step.observation.text))
            assert 0 <= step.reward <= 1 and total <= 1 + 1e-6, f"{task}: {action!r} earned {step.reward}"
            if step.done:
                break
    await env.close()
    return played, longest


def choices(rng: random.Random, solving: list[str], commands: list[str], count: int) -> Iterator[str | None]:
    """Actions of the oracle, known ones and scrambled ones; None stands for one that is possible."""
    for turn in range(count):
        source = rng.random()
        if source < 0.4:
            yield None
        elif source < 0.7 and turn < len(solving):
            yield solving[turn]
        else:
            yield rng.choice(commands) if source < 0.85 else scrambled(rng, rng.choice(commands))


@pytest.mark.sweep
def test_no_action_does_harm(name: str) -> None:
    expected = swept(ACTIONS.get(name, MANY))
    played, longest = asyncio.run(roam(name, expected))
    assert played == expected
    assert longest <= LONGEST


def test_nothing_heavy_is_imported() -> None:
    """Opening all environments imports no engine; numpy comes with minigrid and bm25s."""
    program = (
        "import sys; from agentgym_rl.envs import available, make; [make(name) for name in available()]; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"torch", "verl", "vllm", "ray", "transformers", "tensordict", "datasets"} & set(process.stdout.split())
