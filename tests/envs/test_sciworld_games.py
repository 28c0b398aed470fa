"""ScienceWorld without Java: numbering, splits, functions, wordings, the pool, and what an episode makes of a score."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from pathlib import Path

import pytest
from forks import in_a_fork, needs_fork
from hypothesis import given
from hypothesis import strategies as st
from sessions import splits_of

pytest.importorskip("scienceworld", reason="the extra sciworld is not installed")

from agentgym_rl.envs import Task, make, sciworld
from agentgym_rl.envs.core import EnvUnavailable, MissingExtra, ProtocolError, Step, Style, TaskNotFound
from agentgym_rl.envs.formats import ActionFormat, reader, write
from agentgym_rl.envs.sciworld import SciWorld, engine, pool
from agentgym_rl.envs.sciworld.engine import JavaMissing, Turn
from agentgym_rl.envs.sciworld.games import FAMILIES, STARTS, game, splits
from agentgym_rl.envs.sciworld.pool import Pool
from agentgym_rl.envs.sciworld.wording import MAX_OBSERVATION_CHARACTERS, observe


def test_games_are_agentgyms() -> None:
    sizes = {split: len(indices) for split, indices in splits().items()}
    assert sizes == {"train": 2162, "dev": 1081, "test": 1096, "agentgym": 4339}
    assert 4339 + 300 == 4639, "AgentGym's server numbers the 300 variations of task 2-3, too"
    expected = {
        0: "boil, variation 0",
        29: "boil, variation 29",
        30: "melt, variation 0",
        120: "use-thermometer, variation 0",
        1095: "measure-melting-point-known-substance, variation 435",
        1096: "power-component, variation 0",
        3086: "find-non-living-thing, variation 150",
        4338: "identify-life-stages-2, variation 9",
    }
    assert {index: SciWorld().goal(Task("sciworld", index)) for index in expected} == expected
    assert SciWorld().difficulty(Task("sciworld", 1096)) == "power-component"


def test_splits_are_disjoint_whole_and_frozen() -> None:
    indices_of = splits()
    parts = [index for split in ("train", "dev", "test") for index in indices_of[split]]
    assert sorted(parts) == list(indices_of["agentgym"]) == list(range(4339))
    assert list(indices_of["test"][:12]) == [21, 22, 23, 24, 25, 26, 27, 28, 29, 51, 52, 53]
    digests = {split: hashlib.sha256(json.dumps(indices_of[split]).encode()).hexdigest()[:16] for split in indices_of}
    assert digests == {
        "train": "3b54de092fa97288",
        "dev": "f0007bae4b892d8d",
        "test": "d23c6cbccea9e5f5",
        "agentgym": "88833edb2f4db9a0",
    }


@given(st.integers(0, 4338))
def test_an_index_is_a_family_and_a_variation(index: int) -> None:
    game_of_index = game(index)
    assert 0 <= game_of_index.variation < game_of_index.family.variations
    assert STARTS[FAMILIES.index(game_of_index.family)] + game_of_index.variation == index
    place = game_of_index.variation
    split = "train" if place < game_of_index.family.dev else "dev" if place < game_of_index.family.test else "test"
    assert splits_of(SciWorld(), index) == [split, "agentgym"]


@pytest.mark.parametrize("index", [-1, 4339, 10**15])
def test_index_outside_the_world(index: int) -> None:
    for ask in (SciWorld().goal, SciWorld().difficulty, SciWorld().oracle):
        with pytest.raises(TaskNotFound, match=f"no task {index}: valid are 0 to 4338"):
            ask(Task("sciworld", index))
    with pytest.raises(TaskNotFound, match="maze_0 is not a task of sciworld"):
        SciWorld().goal(Task("maze", 0))


def test_options() -> None:
    with pytest.raises(ValueError, match=r"simplifications magic are unknown; choose of easy, teleportAction, .*"):
        SciWorld(simplifications="openDoors,magic")
    with pytest.raises(ValueError, match="simplifications easy, openDoors: easy stands for several; give it alone"):
        SciWorld(simplifications="easy, openDoors")
    with pytest.raises(ValueError, match="step_limit is 0; give at least 1 move"):
        SciWorld(step_limit=0)
    plain, easy = SciWorld().spec, SciWorld(simplifications="teleportAction, openDoors").spec
    assert [tool.name for tool in easy.tools] == [*(tool.name for tool in plain.tools), "teleport"]
    assert "teleport to LOC" in easy.instructions["agentgym"] and "teleport" not in plain.instructions["agentgym"]
    unwired = SciWorld(simplifications="noElectricalAction")
    assert len(unwired.spec.splits["agentgym"]) == 4339 - 20 - 20 - 900 - 600
    with pytest.raises(TaskNotFound, match=r"sciworld_1096 \(power-component, variation 0\) cannot be run with"):
        unwired.goal(Task("sciworld", 1096))


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("open door to kitchen", ("open", {"obj": "door to kitchen"})),
        ("use thermometer on metal pot", ("use", {"tool": "thermometer", "obj": "metal pot"})),
        ("use stove", ("use", {"tool": "stove"})),
        ("look around", ("lookaround", {})),
        ("look in cupboard", ("lookin", {"obj": "cupboard"})),
        (
            "connect battery anode to red wire terminal 1",
            ("connect", {"obj1": "battery anode", "obj2": "red wire terminal 1"}),
        ),
        ("move lighter to red box", ("move", {"obj": "lighter", "container": "red box"})),
        ("pour water in inventory into metal pot", ("pour", {"liq": "water in inventory", "container": "metal pot"})),
        ("dunk cup into water", ("dunk", {"container": "cup", "liq": "water"})),
        ("pick up thermometer", ("pickup", {"obj": "thermometer"})),
        ("focus on A book (Moby Dick)", ("focus", {"obj": "A book (Moby Dick)"})),
        ("go to hallway", ("goto", {"loc": "hallway"})),
        ("wait", ("wait", {})),
        ("wait1", ("wait", {"duration": 1})),
        ("0", ("choose", {"option": 0})),
        ("inventory", ("inventory", {})),
    ],
)
def test_commands_as_calls(command: str, call: tuple[str, dict[str, object]]) -> None:
    spec = SciWorld().spec
    written = json.loads(write(spec, ActionFormat.FUNCTION_CALLING, command, "because"))
    assert (written["function_name"], written["arguments"]) == call
    for action_format in ActionFormat:
        assert reader(spec, action_format)(write(spec, action_format, command, "because")).command == command  # type: ignore[union-attr]


def test_put_down_is_drop() -> None:
    spec = SciWorld().spec
    call = write(spec, ActionFormat.FUNCTION_CALLING, "put down lighter")
    assert reader(spec, ActionFormat.FUNCTION_CALLING)(call).command == "drop lighter"  # type: ignore[union-attr]


def test_a_reply_is_read_whole() -> None:
    read = SciWorld().spec.read("Thought:\nI see.\n\nAction:\nfocus on A book (Moby Dick)")
    assert (read.command, read.thought) == ("focus on A book (Moby Dick)", "I see.")  # type: ignore[union-attr]


@pytest.mark.parametrize("style", ["agentgym", "compact"])
def test_long_texts_are_cut(style: Style) -> None:
    shown = observe("word " * 2_000, style, "Your task")
    assert (
        len(shown) == MAX_OBSERVATION_CHARACTERS[style]
        and shown.startswith("Your task\n")
        and shown.endswith(" ... (cut)")
    )


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sciworld, "POOL", Pool())
    sciworld.solve.cache_clear()
    world = make("sciworld")
    task = Task("sciworld", 3086)
    assert world.goal(task) == "find-non-living-thing, variation 150"
    for start in (lambda: asyncio.run(world.reset(task)), lambda: world.oracle(task)):
        with pytest.raises(
            JavaMissing, match=r"needs Java 8 or later, .* apt-get install default-jre-headless"
        ) as caught:
            start()
        assert isinstance(caught.value, MissingExtra)


def test_java_that_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvUnavailable, match=r"does not start; try: .*/java .*-XX:hashCode=2 -version"):
        engine.Engine()


class Machine:
    """An engine without Java."""

    dead = False

    def forget(self) -> None:
        self.dead = True


class Script:
    """A simulation that answers with given turns."""

    def __init__(self, machine: Machine) -> None:
        self.engine = machine
        self.turns: list[Turn] = []

    def load(self, family: str, variation: int, simplifications: str = "", gold: bool = False) -> tuple[str, str]:
        return "Your task is to boil water.", "This room is called the hallway. In it, you see: \n\tthe agent\n"

    def step(self, action: str) -> Turn:
        if self.engine.dead:
            raise EnvUnavailable("gone")
        return self.turns.pop(0)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Pool:
    """The pool of the environment, with scripts for games."""
    made = Pool(engines=2, games=2)
    monkeypatch.setattr(pool, "Engine", Machine)
    monkeypatch.setattr(pool, "Simulation", Script)
    monkeypatch.setattr(sciworld, "POOL", made)
    return made


def start(world: SciWorld, index: int = 0) -> None:
    asyncio.run(world.reset(Task("sciworld", index)))


def step(world: SciWorld) -> Step:
    return asyncio.run(world.step("wait"))


def play(world: SciWorld, *turns: Turn) -> list[Step]:
    start(world)
    assert isinstance(world._simulation, Script)
    world._simulation.turns = list(turns)
    return [step(world) for _ in turns]


def test_what_a_score_earns(scripted: Pool) -> None:
    scores = (8, 8, 3, 50, 0, 75, 100)
    steps = play(SciWorld(), *(Turn("Ok.", score, score == 100, moves) for moves, score in enumerate(scores)))
    assert [step.reward for step in steps] == pytest.approx([0.08, 0, 0, 0.42, 0, 0.25, 0.25])
    assert [step.info["raw_reward"] for step in steps] == list(scores)
    assert [step.terminated for step in steps] == [False] * 6 + [True]


def test_a_lost_game_ends_and_keeps_what_was_earned(scripted: Pool) -> None:
    world = SciWorld()
    steps = play(world, Turn("Ok.", 25, False, 1), Turn("Oh.", -100, False, 2))
    assert [(step.reward, step.terminated, step.truncated) for step in steps] == [
        (0.25, False, False),
        (0.0, True, False),
    ]
    with pytest.raises(ProtocolError):
        step(world)


def test_the_clock_truncates(scripted: Pool) -> None:
    steps = play(SciWorld(), Turn("Ok.", 0, False, 100), Turn("Ok.", 0, False, 101))
    assert [(step.terminated, step.truncated) for step in steps] == [(False, False), (False, True)]
    (last,) = play(SciWorld(step_limit=5), Turn("Ok.", 100, True, 6))
    assert (last.reward, last.terminated, last.truncated) == (1.0, True, False)


def test_sessions_share_and_give_back(scripted: Pool) -> None:
    envs = [SciWorld() for _ in range(4)]
    for world in envs:
        start(world)
    assert [member.leases for member in scripted.members] == [2, 2]
    with pytest.raises(EnvUnavailable, match="all 4 games of ScienceWorld in this process are in use"):
        start(SciWorld())
    used = [world._simulation for world in envs]
    for world in envs:
        asyncio.run(world.close())
        asyncio.run(world.close())
    assert [member.leases for member in scripted.members] == [0, 0]
    start(envs[0])
    assert envs[0]._simulation in used, "games are used again"
    start(envs[0], 1)
    assert sorted(member.leases for member in scripted.members) == [0, 1]


def test_a_dead_engine_is_replaced(scripted: Pool) -> None:
    world = SciWorld()
    play(world, Turn("Ok.", 0, False, 1))
    (member,) = scripted.members
    member.engine.dead = True
    with pytest.raises(EnvUnavailable):
        step(world)
    with pytest.raises(ProtocolError):
        step(world)
    play(world, Turn("Ok.", 0, False, 1))
    (fresh,) = scripted.members
    assert fresh is not member and fresh.leases == 1


@needs_fork
def test_a_forked_process_leaves_the_engines_to_its_parent(scripted: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sciworld, "POOL", pool.POOL)
    monkeypatch.setattr(pool.POOL, "members", [])  # without the real engines of other tests
    world = SciWorld()
    play(world, Turn("Ok.", 0, False, 1))
    (parents,) = [member.engine for member in pool.POOL.members]

    def restart() -> None:
        start(world)
        assert world._simulation is not None and world._simulation.engine is not parents

    assert in_a_fork(restart) == 0 and not parents.dead
    asyncio.run(world.close())


def test_a_game_is_not_given_back_while_a_call_moves_in_it(scripted: Pool) -> None:
    world = SciWorld()
    start(world)
    (member,) = scripted.members
    entered, go = threading.Event(), threading.Event()

    def slow(action: str) -> Turn:
        entered.set()
        assert go.wait(10) and member.leases == 1
        return Turn("Ok.", 0, False, 1)

    assert isinstance(world._simulation, Script)
    world._simulation.step = slow  # type: ignore[method-assign]
    moving = threading.Thread(target=step, args=(world,))
    moving.start()
    assert entered.wait(10)
    close = threading.Thread(target=asyncio.run, args=(world.close(),))
    close.start()
    go.set()
    for thread in (moving, close):
        thread.join(10)
    assert scripted.members == [member] and member.leases == 0
