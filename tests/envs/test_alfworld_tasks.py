"""ALFWorld's built-in tasks: solvable, frozen, graded, in one split each."""

import asyncio
import random
from collections import Counter
from copy import deepcopy

import pytest
from sweep import some

from agentgym_rl.envs import Task
from agentgym_rl.envs.alfworld import ALFWorld
from agentgym_rl.envs.alfworld.catalogue import APPLIANCES, HANDLED, LAMP, LAMP_PLACES, PLACES, ROOMS
from agentgym_rl.envs.alfworld.draw import CLUTTER, SIZES
from agentgym_rl.envs.alfworld.game import TYPES, Goal, treatment
from agentgym_rl.envs.alfworld.house import House
from agentgym_rl.envs.alfworld.tasks import SPLITS, game, kind
from agentgym_rl.envs.core import Style

SIZE = {"train": 540, "test": 180, "train_variants": 18_000, "val_variants": 1_800, "test_variants": 1_800}


def few(split: str) -> range:
    return SPLITS[split][:: 47 if split.endswith("variants") else 1]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("split", "style"), [("train", "compact"), ("test", "agentgym"), ("train_variants", "compact")]
)
def test_oracle_solves(split: str, style: Style) -> None:
    async def solve() -> None:
        env = ALFWorld(style)
        for index in some(few(split)):
            task = Task("alfworld", index)
            await env.reset(task)
            actions = env.oracle(task)
            assert 3 <= len(actions) <= 12
            for place, action in enumerate(actions):
                step = await env.step(action)
                assert not step.info["invalid"], (index, action)
                assert step.terminated == (place == len(actions) - 1), (index, place)
            assert env.spec.success(step.reward)

    asyncio.run(solve())


def state(house: House) -> object:
    inside = tuple(tuple(house.contents(receptacle)) for receptacle in house.game.receptacles)
    return inside, house.at, house.held, frozenset(house.opened), frozenset(house.lit)


@pytest.mark.parametrize("index", [10_000, 10_003, 10_018, 10_021])
def test_oracle_is_shortest(index: int) -> None:
    """No sequence of fewer commands solves these games, by breadth-first search."""
    length = len(ALFWorld().oracle(Task("alfworld", index)))
    seen: set[object] = set()
    houses = [House(game(index))]
    for _ in range(length - 1):
        further = []
        for house in houses:
            for command in house.possible():
                after = deepcopy(house)
                after.act(command)
                assert not after.solved()
                if state(after) not in seen:
                    seen.add(state(after))
                    further.append(after)
        houses = further
    assert houses


def test_difficulty_is_size_and_type() -> None:
    env = ALFWorld()
    assert env.difficulty(Task("alfworld", 10_000)) == "small pick_and_place_simple"
    for index in (*SPLITS["test"], *few("val_variants")):
        size, type = env.difficulty(Task("alfworld", index)).split()
        played = game(index)
        assert len(played.receptacles) in SIZES[size] and played.goal.type == type
        others = [thing for thing, _ in played.places if thing.type not in (played.goal.object, LAMP)]
        assert len(others) in CLUTTER[size]


def test_sizes_and_types_are_balanced() -> None:
    for split in SPLITS:
        kinds = Counter(kind(index) for index in SPLITS[split])
        assert len(kinds) == len(SIZES) * len(TYPES)
        assert set(kinds.values()) == {SIZE[split] // len(kinds)}


def test_games_make_sense() -> None:
    rooms = Counter()
    for index in (*SPLITS["train"], *SPLITS["test"], *few("train_variants")):
        played, goal = game(index), game(index).goal
        rooms[played.room] += 1
        for kind_, count in Counter(receptacle.type for receptacle in played.receptacles).items():
            assert count <= ROOMS[played.room][kind_]
        things = [(thing, place) for thing, place in played.places if thing.type == goal.object]
        assert goal.count <= len(things) <= goal.count + 1
        assert all(place.type != goal.receptacle for _, place in things)
        for thing, place in played.places:
            assert place in played.receptacles
            assert place.type in (LAMP_PLACES if thing.type == LAMP else PLACES[played.room][thing.type])
        verb = treatment(goal.type)
        if verb is not None:
            assert goal.object in HANDLED[verb]
            assert APPLIANCES[verb] in {receptacle.type for receptacle in played.receptacles}
            assert APPLIANCES[verb] != goal.receptacle
    assert set(rooms) == set(ROOMS)


@pytest.mark.slow
def test_splits_do_not_share_an_index_or_a_game() -> None:
    assert {split: len(SPLITS[split]) for split in SPLITS} == SIZE
    assert len({index for indices in SPLITS.values() for index in indices}) == sum(SIZE.values())
    owners: dict[str, set[str]] = {}
    for split in SPLITS:
        for index in few(split):
            owners.setdefault(game(index).fingerprint, set()).add(split)
    assert [names for names in owners.values() if len(names) > 1] == []


@pytest.mark.parametrize("split", ["train", "test"])
def test_no_game_occurs_twice(split: str) -> None:
    assert len({game(index).fingerprint for index in SPLITS[split]}) == len(SPLITS[split])


def test_options_restrict_splits() -> None:
    all_splits = ALFWorld().spec.splits
    splits = ALFWorld(size="small", types=["pick_and_place_simple", "look_at_obj_in_light"]).spec.splits
    assert splits["train"][:4] == (10_000, 10_003, 10_018, 10_021)
    for name, indices in splits.items():
        assert len(indices) == len(all_splits[name]) // 9
        assert {kind(index) for index in indices} == {
            ("small", "pick_and_place_simple"),
            ("small", "look_at_obj_in_light"),
        }
        assert all(index in all_splits[name] for index in indices)
    pairs = ALFWorld(types="pick_two_obj_and_place").spec.splits
    assert {kind(index) for index in pairs["test"]} == {(size, "pick_two_obj_and_place") for size in SIZES}
    assert ALFWorld(types=list(reversed(TYPES))).spec.splits == all_splits


def test_options_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match="size 'huge' is unknown; choose one of small, medium, large"):
        ALFWorld(size="huge")
    with pytest.raises(ValueError, match="type 'cook' is unknown; choose among pick_and_place_simple, "):
        ALFWorld(types=["pick_two_obj_and_place", "cook"])
    with pytest.raises(ValueError, match="types is empty"):
        ALFWorld(types=[])


class Searcher:
    """Looks everywhere in random order until it finds what the goal names, then does what the goal says."""

    def __init__(self, goal: Goal, rng: random.Random) -> None:
        self.goal = goal
        self.rng = rng
        self.at = ""
        self.seen: set[str] = set()
        self.lamp: tuple[str, str] | None = None
        self.held = self.handled = False

    def choose(self, actions: tuple[str, ...]) -> str:
        def first(start: str, part: str = "") -> str | None:
            return next((action for action in actions if action.startswith(start) and part in action), None)

        goal = self.goal
        verb = treatment(goal.type)
        if lamp := first("use "):
            self.lamp = self.at, lamp
        if not self.held:
            take = first(f"take {goal.object} ")
            if take and f" {goal.receptacle} " not in take:
                self.held = True
                return take
            return self._on(actions)
        if goal.receptacle == LAMP:
            if self.lamp is None:
                return self._on(actions)
            return lamp or self._go(self.lamp[0])
        if verb and not self.handled:
            self.handled = first(f"{verb} ") is not None
            return first(f"{verb} ") or self._go(f"{APPLIANCES[verb]} 1")
        target = f"{goal.receptacle} 1"
        if put := first("put ", f" in/on {target}"):
            self.held = self.handled = False
            return put
        return (first("open ") if self.at == target else None) or self._go(target)

    def _on(self, actions: tuple[str, ...]) -> str:
        if opening := [action for action in actions if action.startswith("open ")]:
            return opening[0]
        self.seen.add(self.at)
        ways = [action.removeprefix("go to ") for action in actions if action.startswith("go to ")]
        return self._go(self.rng.choice([way for way in ways if way not in self.seen] or ways))

    def _go(self, place: str) -> str:
        self.at = place
        return f"go to {place}"


def turns(index: int) -> int:
    """How many actions the searcher takes, at most 50."""
    house = House(game(index))
    searcher = Searcher(house.game.goal, random.Random(index))
    for turn in range(1, 51):
        house.act(searcher.choose(house.possible()))
        if house.solved():
            return turn
    return 50


@pytest.mark.parametrize(
    ("size", "success", "mean"), [("small", 1.0, 7.8), ("medium", 1.0, 11.6), ("large", 0.97, 17.8)]
)
def test_difficulty_is_graded(size: str, success: float, mean: float) -> None:
    lengths = [turns(index) for index in SPLITS["train"] if kind(index)[0] == size]
    assert sum(turn <= 30 for turn in lengths) / len(lengths) == pytest.approx(success, abs=0.02)
    assert sum(lengths) / len(lengths) == pytest.approx(mean, abs=0.5)
