"""ALFWorld's own games: names and indices, reading the data, TextWorld's answers in AgentGym's wording."""

import asyncio
import gzip
import importlib.util
import json
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from agentgym_rl.envs import Observation, Step, Task, make
from agentgym_rl.envs.alfworld import MAX_STEPS, ALFWorld, official, tasks, wording
from agentgym_rl.envs.alfworld.catalogue import HANDLED, LAMP, PLACES
from agentgym_rl.envs.alfworld.game import TYPES, Game, Goal, Name, openable, treatment
from agentgym_rl.envs.alfworld.plan import plan
from agentgym_rl.envs.alfworld.tasks import game
from agentgym_rl.envs.core import MissingExtra, OracleUnavailable, Style, TaskNotFound
from agentgym_rl.envs.item_ids import alfworld_games, read
from agentgym_rl.envs.probe import GARBAGE

FIRST = "look_at_obj_in_light-AlarmClock-None-DeskLamp-301_trial_T20190907_174127_043461"


def test_games_are_agentgyms() -> None:
    assert len(alfworld_games()) == len(set(alfworld_games())) == 2620
    assert alfworld_games()[0].replace("/", "_") == FIRST
    assert (
        alfworld_games()[2420]
        == "pick_cool_then_place_in_recep-Mug-None-CoffeeMachine-23/trial_T20190908_143209_571893"
    )
    assert {official.kind(Path(), index) for index in range(2620)} == set(TYPES)


def test_long_ids_have_an_index() -> None:
    assert read(FIRST) == ("alfworld", 0)
    assert all(read(name.replace("/", "_")) == ("alfworld", index) for index, name in enumerate(alfworld_games()))


@pytest.mark.parametrize(
    "text", ["", "alfworld", "textcraft_-1", FIRST[:-1], f"x{FIRST}", FIRST.replace("_trial", "/trial"), "a_trial_T"]
)
def test_other_ids_have_none(text: str) -> None:
    assert read(text) is None


def test_the_list_of_games_is_plain_lines() -> None:
    path = Path(official.__file__).with_name("games.txt.gz")
    assert gzip.decompress(path.read_bytes()).decode("ascii") == "\n".join(alfworld_games()) + "\n"


Folder = Callable[..., Path]
CONTENT: dict[str, Any] = {
    "pddl_domain": "(define)",
    "grammar": '"task": [{"rhs": "Your task is to: put a mug in desk."}]',
    "pddl_problem": "(define)",
    "solvable": True,
    "walkthrough": ["go to desk 1", "move mug 1 to desk 1"],
}
"""Of a game's file."""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Writes the file of a game into a data folder."""

    def write(index: int, **changes: Any) -> Path:
        content = CONTENT | changes
        path = official.path(tmp_path, index)
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content))
        return tmp_path

    return write


def test_own_games_need_data() -> None:
    env = ALFWorld()
    for ask in (env.goal, env.difficulty, env.oracle, lambda task: asyncio.run(env.reset(task))):
        with pytest.raises(TaskNotFound, match="alfworld_2619 is a task of AgentGym's: give the option data="):
            ask(Task("alfworld", 2619))


def test_data_makes_the_splits_agentgyms(folder: Folder) -> None:
    env = ALFWorld(data=str(folder(2420)))
    assert dict(env.spec.splits) == {"train": range(2420), "test": range(2420, 2620)}
    assert env.spec.extra == "alfworld"
    task = Task("alfworld", 2420)
    assert env.goal(task) == f"put a mug in desk in {alfworld_games()[2420]}"
    assert env.difficulty(task) == "pick_cool_then_place_in_recep"
    assert env.oracle(task) == ["go to desk 1", "put mug 1 in/on desk 1"]
    assert env.goal(Task("alfworld", 10_000)) == ALFWorld().goal(Task("alfworld", 10_000))


def test_data_and_types(folder: Folder) -> None:
    splits = ALFWorld(data=str(folder(0)), types=["look_at_obj_in_light"]).spec.splits
    assert len(splits["train"]) + len(splits["test"]) == 215
    assert {official.kind(Path(), index) for index in splits["train"]} == {"look_at_obj_in_light"}


def test_training_and_test_games_lie_where_alfworld_puts_them(tmp_path: Path) -> None:
    trial = "look_at_obj_in_light-AlarmClock-None-DeskLamp-301/trial_T20190907_174127_043461"
    assert official.path(tmp_path, 0) == tmp_path / "json_2.1.1" / "train" / trial / "game.tw-pddl"
    assert official.path(tmp_path, 2420).parents[2] == tmp_path / "json_2.1.1" / "valid_train"


OWN_GAMES = ("pick_two_obj_and_place-Mug-None-Desk-301/trial_b", "look_at_obj_in_light-Pen-None-DeskLamp-2/trial_a")
LEFT_OUT: dict[str, dict[str, Any]] = {
    "pick_and_place_with_movable_recep-Pen-Mug-Desk-3/trial_c": {},
    "pick_and_place_simple-AppleSliced-None-Fridge-3/trial_c": {},
    "pick_and_place_simple-Pen-None-Desk-3/trial_c": {"solvable": False},
}


def own_folder(place: Path) -> Path:
    """ALFWorld's three folders, with two games each and what it leaves out."""
    for split in tasks.OWN:
        for name, changes in [*((own_game, {}) for own_game in OWN_GAMES), *LEFT_OUT.items()]:
            write_game(place / "json_2.1.1" / split / name, **changes)
    return place


def write_game(place: Path, **changes: Any) -> None:
    place.mkdir(parents=True)
    (place / "traj_data.json").write_text("{}")
    (place / "game.tw-pddl").write_text(json.dumps({**CONTENT, **changes}))


def test_alfworlds_own_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {split: len(indices) for split, indices in tasks.OWN.items()}
    assert sizes == {"train": 3553, "valid_seen": 140, "valid_unseen": 134}
    env = ALFWorld(data=str(own_folder(tmp_path)), splits="alfworld")
    splits = env.spec.splits
    assert list(splits) == ["train", "valid_seen", "valid_unseen", "test"] and splits["test"] == splits["valid_unseen"]
    with pytest.raises(TaskNotFound, match=r"valid_seen has 2 games, not 140; run alfworld-download again"):
        env.goal(Task("alfworld", 200_000))
    for split, indices in tasks.OWN.items():
        monkeypatch.setitem(tasks.OWN, split, range(indices.start, indices.start + 2))  # type: ignore[index]
    env = ALFWorld(data=str(tmp_path), splits="alfworld")
    names = [official.name(tmp_path, index) for index in env.spec.splits["valid_seen"]]
    assert names == sorted(OWN_GAMES)
    task = Task("alfworld", 300_001)
    assert env.goal(task) == f"put a mug in desk in {names[1]}" and env.difficulty(task) == "pick_two_obj_and_place"
    assert official.path(tmp_path, 300_001).parents[2] == tmp_path / "json_2.1.1" / "valid_unseen"
    lamps = ALFWorld(data=str(tmp_path), splits="alfworld", types="look_at_obj_in_light").spec.splits
    assert {split: list(indices) for split, indices in lamps.items()} == {
        "train": [100_000], "valid_seen": [200_000], "valid_unseen": [300_000], "test": [300_000],
    }  # fmt: skip
    assert env.goal(Task("alfworld", 10_000)) == ALFWorld().goal(Task("alfworld", 10_000))


def test_splits_are_agentgyms_or_alfworlds() -> None:
    with pytest.raises(ValueError, match="splits 'mine' is unknown; choose agentgym or alfworld"):
        make("alfworld", splits="mine")
    with pytest.raises(ValueError, match="splits=alfworld are those of ALFWorld's data; give data=<folder>, too"):
        ALFWorld(splits="alfworld")


def test_folder_without_data(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no ALFWorld data at .*: it has none of json_2\.1\.1/train, "):
        ALFWorld(data=str(tmp_path))


def test_size_is_for_built_in_games(folder: Folder) -> None:
    with pytest.raises(ValueError, match="size 'small' is for built-in games"):
        ALFWorld(data=str(folder(0)), size="small")


def test_missing_file(folder: Folder) -> None:
    env = ALFWorld(data=str(folder(0)))
    with pytest.raises(TaskNotFound, match=r"alfworld_1 needs the file .*game\.tw-pddl, which is not there"):
        env.goal(Task("alfworld", 1))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"grammar": None}, "'grammar' is missing or no text"),
        ({"pddl_problem": 3}, "'pddl_problem' is missing or no text"),
        ({"grammar": "no task"}, "its grammar has no 'Your task is to: '"),
    ],
)
def test_file_with_a_fault(folder: Folder, changes: dict[str, Any], fault: str) -> None:
    env = ALFWorld(data=str(folder(0, **changes)))
    with pytest.raises(ValueError, match=rf"game\.tw-pddl is not a game: .*{fault}"):
        env.goal(Task("alfworld", 0))


@pytest.mark.parametrize(("text", "fault"), [("{", "not JSON"), ("[]", "expected an object, found list")])
def test_file_that_is_no_object(folder: Folder, text: str, fault: str) -> None:
    data = folder(0)
    official.path(data, 0).write_text(text)
    with pytest.raises(ValueError, match=fault):
        ALFWorld(data=str(data)).goal(Task("alfworld", 0))


@pytest.mark.parametrize(
    ("walkthrough", "reason"),
    [(None, "records no walkthrough"), ([], "records no walkthrough"), (["look"] * (MAX_STEPS + 1), "takes 51 of 50")],
)
def test_game_without_a_solution(folder: Folder, walkthrough: list[str] | None, reason: str) -> None:
    env = ALFWorld(data=str(folder(0, walkthrough=walkthrough)))
    with pytest.raises(OracleUnavailable, match=reason):
        env.oracle(Task("alfworld", 0))


def test_missing_package(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textworld", None)
    env = ALFWorld(data=str(folder(0)))
    with pytest.raises(MissingExtra, match=r"needs the package 'textworld'; .* pip install 'agentgym-rl\[alfworld\]'"):
        asyncio.run(env.reset(Task("alfworld", 0)))


class Scripted:
    """Stands for TextWorld: answers the commands of a game in which a mug is put on a desk."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.threads: set[str] = set()
        self.closed = False

    def reset(self) -> SimpleNamespace:
        room = "You are in the middle of a room. Looking quickly around you, you see a desk 1."
        greeting = f"-= Welcome to TextWorld, ALFRED! =-\n\n{room}\n\nYour task is to: put a mug in desk."
        return self._state(greeting, "help", "look", "go to desk 1")

    def step(self, command: str) -> tuple[SimpleNamespace, int, bool]:
        self.asked.append(command)
        self.threads.add(threading.current_thread().name.partition("_")[0])
        if command == "move mug 1 to desk 1":
            return self._state("You move the mug 1 to the desk 1.", won=True), 1, True
        if command == "look":
            return self._state("x" * 9000, "look", "move mug 1 to desk 1"), 0, False
        text = "You arrive at desk 1. On the desk 1, you see a mug 2, and a pen 1."
        return self._state(text, "move mug 1 to desk 1", "look", "examine desk 1"), 0, False

    def close(self) -> None:
        self.closed = True

    def _state(self, text: str, *commands: str, won: bool = False) -> SimpleNamespace:
        return SimpleNamespace(feedback=text, admissible_commands=list(commands), won=won)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    engine = Scripted()
    textworld = ModuleType("textworld")
    vars(textworld).update(EnvInfos=dict, start=lambda path, infos, wrappers: engine)
    monkeypatch.setitem(sys.modules, "textworld", textworld)
    module = ModuleType("alfworld.agents.environment.alfred_tw_env")
    vars(module).update(AlfredDemangler=dict)
    for name in ("alfworld", "alfworld.agents", "alfworld.agents.environment"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return engine


@pytest.mark.parametrize("style", ["agentgym", "compact"])
def test_wording_is_that_of_agentgyms_server(folder: Folder, scripted: Scripted, style: Style) -> None:
    commands = ("help", "Go to  desk 1", "look", "go to desk 1", "put mug 1 on desk 1")

    async def episode() -> tuple[str, list[Step]]:
        env = ALFWorld(style, data=str(folder(0)))
        first = await env.reset(Task("alfworld", 0))
        assert first.actions == ("go to desk 1", "look")
        return first.text, [await env.step(action) for action in commands]

    first, steps = asyncio.run(episode())
    room = "You are in the middle of a room. Looking quickly around you, you see a desk 1."
    actions = "\nAVAILABLE ACTIONS: go to desk 1,look" if style == "agentgym" else ""
    assert first == f"{room}\nYour task is to: put a mug in desk.{actions}"
    assert [step.observation.text for step in steps if len(step.observation.text) < 99] == [
        "Nothing happens.",
        "On the desk 1, you see a mug 2, and a pen 1.",
        "Nothing happens.",
        "You put the mug 1 in/on the desk 1.",
    ]
    assert steps[1].observation.actions == ("examine desk 1", "look", "put mug 1 in/on desk 1")
    long = steps[2].observation.text
    assert len(long) == official.LIMIT and long.endswith(" [...]")
    assert [step.info["invalid"] for step in steps] == [True, False, False, True, False]
    assert [step.reward for step in steps] == [0, 0, 0, 0, 1] and steps[-1].terminated
    assert scripted.asked == ["go to desk 1", "look", "move mug 1 to desk 1"]
    assert scripted.closed
    assert scripted.threads == {"env"}, "TextWorld blocks, so it runs in the threads of environments"


def test_wording_of_verl_agent_is_the_games_own(folder: Folder, scripted: Scripted) -> None:
    async def episode() -> list[Observation]:
        env = ALFWorld("verl_agent", data=str(folder(0)))
        commands = ("Go to  desk 1", "go to desk 1", "move mug 1 to desk 1")
        return [await env.reset(Task("alfworld", 0)), *[(await env.step(command)).observation for command in commands]]

    first, refused, desk, last = asyncio.run(episode())
    assert first.text.startswith("-= Welcome to TextWorld, ALFRED! =-\n\nYou are in") and "AVAILABLE" not in first.text
    assert first.actions == refused.actions == ("look", "go to desk 1") and refused.text == "Nothing happens."
    assert desk.text.startswith("You arrive at desk 1. On") and desk.actions[0] == "move mug 1 to desk 1"
    assert last.text == "You move the mug 1 to the desk 1."


def identifier(name: Name) -> str:
    """A name as ALFRED's files write it; ALFWorld numbers those of a type backwards."""
    if name.type == "sinkbasin":
        return f"Sink_bar_{100 - name.number}_bar_SinkBasin"
    if name.type == "bathtubbasin":
        return f"Bathtub_bar_{100 - name.number}_bar_BathtubBasin"
    return f"{name.type}_bar_{100 - name.number}"


def target(goal: Goal) -> str:
    """A goal in PDDL."""
    if goal.type == "look_at_obj_in_light":
        return (
            "(and (exists (?t - object ?r - receptacle ?a - agent ?l - location) (and "
            f"(objectType ?t {goal.receptacle}Type) (toggleable ?t) (isToggled ?t) (receptacleAtLocation ?r ?l) "
            "(atLocation ?a ?l) (inReceptacle ?t ?r))) "
            f"(exists (?o - object ?a - agent) (and (objectType ?o {goal.object}Type) (holds ?a ?o))))"
        )
    mark = {"clean": "(isClean ?o)", "heat": "(isHot ?o)", "cool": "(isCool ?o)", None: ""}[treatment(goal.type)]
    other = f"(not (= ?o ?p)) (objectType ?p {goal.object}Type) (inReceptacle ?p ?r)"
    second = f"(exists (?p - object) (and {other}))" if goal.count == 2 else ""
    return (
        f"(and (exists (?r - receptacle) (exists (?o - object) (and (objectType ?o {goal.object}Type) "
        f"(receptacleType ?r {goal.receptacle}Type) (inReceptacle ?o ?r) {mark} {second}))))"
    )


def problem(played: Game) -> str:
    """A game as the PDDL problem of ALFWorld's domain."""
    objects = {"agent1": "agent", "loc0": "location"}
    facts = ["(= (total-cost) 0)", "(atLocation agent1 loc0)"]
    for kind in {receptacle.type for receptacle in played.receptacles} | {"sinkbasin", "microwave", "fridge"}:
        objects[f"{kind}Type"] = "rtype"
    for kind in {thing.type for thing, _ in played.places} | {"knife", "butterknife"}:
        objects[f"{kind}Type"] = "otype"
        fitting = PLACES[played.room].get(kind, ())
        facts += [f"(canContain {place}Type {kind}Type)" for place in fitting if f"{place}Type" in objects]
    locations = {}
    for number, receptacle in enumerate(played.receptacles, start=1):
        name, locations[receptacle] = identifier(receptacle), f"loc{number}"
        objects |= {name: "receptacle", f"loc{number}": "location"}
        facts += [f"(receptacleAtLocation {name} loc{number})", f"(receptacleType {name} {receptacle.type}Type)"]
        facts += [f"(openable {name})"] if openable(receptacle) else []
    for thing, receptacle in played.places:
        name = identifier(thing)
        objects[name] = "object"
        facts += [f"(inReceptacle {name} {identifier(receptacle)})", f"(objectType {name} {thing.type}Type)"]
        facts += [f"(objectAtLocation {name} {locations[receptacle]})"]
        facts += [f"({'toggleable' if thing.type == LAMP else 'pickupable'} {name})"]
        facts += [f"({verb}able {name})" for verb in HANDLED if thing.type in HANDLED[verb]]
    listed = " ".join(f"{name} - {kind}" for name, kind in objects.items())
    goal = f"(:goal {target(played.goal)}) (:metric minimize (total-cost))"
    return f"(define (problem p) (:domain alfred) (:objects {listed}) (:init {' '.join(facts)}) {goal})"


def written(folder: Folder, index: int) -> Path:
    """A data folder whose game 0 is a built-in game in the official format."""
    import alfworld

    logic = Path(alfworld.__file__).parent / "data"
    played = game(index)
    return folder(
        0,
        pddl_domain=(logic / "alfred.pddl").read_text(),
        grammar=(logic / "alfred.twl2").read_text().replace("UNKNOWN GOAL", wording.sentence(played.goal)),
        pddl_problem=problem(played),
        walkthrough=plan(played),
    )


INSTALLED = importlib.util.find_spec("alfworld") is not None and importlib.util.find_spec("textworld") is not None


needs_extra = pytest.mark.skipif(not INSTALLED, reason="needs the extra alfworld")


@needs_extra
@pytest.mark.parametrize("index", [10_003, 10_009, 10_015])
def test_built_in_games_answer_as_textworld_does(folder: Folder, index: int) -> None:
    """The same actions in the built-in engine and in TextWorld, on the same game in the official format."""
    data = written(folder, index)
    rng = random.Random(index)

    async def episode(actions: list[str] | None) -> None:
        ours, theirs = ALFWorld(), ALFWorld(data=str(data))
        seen, other = await ours.reset(Task("alfworld", index)), await theirs.reset(Task("alfworld", 0))
        assert seen == other
        for turn in range(20 if actions is None else len(actions)):
            assert seen.actions is not None
            action = actions[turn] if actions else rng.choice([*seen.actions] * 3 + [*GARBAGE, "toggle desklamp 1"])
            left, right = await ours.step(action), await theirs.step(action)
            assert left == right, (turn, action)
            seen = left.observation
            if left.done:
                break
        assert left.terminated or actions is None
        await theirs.close()

    asyncio.run(episode(plan(game(index))))
    asyncio.run(episode(None))


@needs_extra
def test_games_of_one_process_do_not_disturb_each_other(folder: Folder) -> None:
    data = str(written(folder, 10_003))

    async def episode() -> float:
        env = ALFWorld(data=data)
        task = Task("alfworld", 0)
        await env.reset(task)
        return sum([(await env.step(action)).reward for action in env.oracle(task)])

    async def both() -> list[float]:
        return await asyncio.gather(episode(), episode())

    assert asyncio.run(both()) == [1, 1]
