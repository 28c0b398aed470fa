"""Maze's tasks: AgentGym's first, then ours; solvable, frozen, in one split each."""

import random
from collections import Counter

import pytest

from agentgym_rl.envs import Task
from agentgym_rl.envs.maze import Maze
from agentgym_rl.envs.maze.families import DOUBLE_T, FAMILIES, GOAL, STARTS, draw
from agentgym_rl.envs.maze.layout import Cell, Layout
from agentgym_rl.envs.maze.tasks import BANDS, SPLITS, Puzzle, puzzle

SIZES = {"train": 480, "test": 120, "agentgym": 25, "train_variants": 24_000, "val_variants": 2_400}


def few(split: str) -> range:
    return SPLITS[split][:: 23 if split.endswith("variants") else 1]


def test_first_tasks_are_agentgyms() -> None:
    assert SPLITS["agentgym"] == range(25)
    assert len(set(STARTS)) == 25
    assert sorted([*STARTS, GOAL]) == DOUBLE_T.cells()
    starts = {0: (1, 1), 3: (1, 4), 5: (1, 7), 9: (1, 11), 13: (5, 3), 18: (7, 6), 24: (2, 9)}
    assert {index: puzzle(index) for index in starts} == {
        index: Puzzle(DOUBLE_T, start, (8, 6)) for index, start in starts.items()
    }
    assert Maze().goal(Task("maze", 3)).startswith("go from 1, 4 to 8, 6 in double_t-")
    assert [len(puzzle(index).path()) for index in (0, 9, 18, 24)] == [12, 12, 1, 9]


@pytest.mark.parametrize("split", SPLITS)
def test_difficulty_is_the_range_of_the_shortest_path(split: str) -> None:
    env = Maze()
    for index in few(split):
        low, high = env.difficulty(Task("maze", index)).removeprefix("steps ").split("-")
        assert int(low) <= len(puzzle(index).path()) <= int(high)


def test_families_and_difficulties_are_balanced() -> None:
    env = Maze()
    for split in SPLITS.keys() - {"agentgym"}:
        indices = SPLITS[split][:120]
        kinds = Counter((puzzle(index).layout.family, env.difficulty(Task("maze", index))) for index in indices)
        assert len(kinds) == len(FAMILIES) * len(BANDS)
        assert set(kinds.values()) == {len(indices) // len(kinds)}


@pytest.mark.slow
def test_splits_do_not_share_an_index_or_a_layout() -> None:
    assert {split: len(SPLITS[split]) for split in SIZES} == SIZES
    assert len({index for indices in SPLITS.values() for index in indices}) == sum(map(len, SPLITS.values()))
    owners: dict[tuple[str, ...], set[str]] = {}
    for split in SPLITS:
        for index in few(split):
            owners.setdefault(puzzle(index).layout.rows, set()).add(split)
    assert [names for names in owners.values() if len(names) > 1] == []


@pytest.mark.parametrize("split", ["agentgym", "train", "test"])
def test_no_task_occurs_twice(split: str) -> None:
    assert len({puzzle(index) for index in SPLITS[split]}) == len(SPLITS[split])


@pytest.mark.parametrize("family", FAMILIES)
def test_layouts_are_walled_in_connected_and_small(family: str) -> None:
    rng = random.Random(0)
    for _ in range(300):
        layout = draw(family, rng)
        edges = {layout.rows[0], layout.rows[-1], *("".join(row[x] for row in layout.rows) for x in (0, -1))}
        assert set("".join(edges)) == {"#"}
        assert len(layout.rows) <= 12 and len(layout.rows[0]) <= 12
        assert set(layout.distances(layout.cells()[0])) == set(layout.cells())


def ways(layout: Layout) -> int:
    """Pairs of neighbouring open cells."""
    return sum(len(layout.open_moves(cell)) for cell in layout.cells()) // 2


def test_families_keep_their_shape() -> None:
    rng = random.Random(1)
    drawn = {family: [draw(family, rng) for _ in range(200)] for family in FAMILIES}
    for family in ("corridor", "tee", "perfect"):
        assert all(ways(layout) == len(layout.cells()) - 1 for layout in drawn[family]), "there is a loop"
    assert all(ways(layout) >= len(layout.cells()) for layout in drawn["rooms"])
    for layout in drawn["corridor"]:
        assert max(len(layout.open_moves(cell)) for cell in layout.cells()) == 2
    for layout in drawn["tee"]:
        assert sum(len(layout.open_moves(cell)) == 3 for cell in layout.cells()) in (1, 2)


def test_shortest_path_goes_around_walls() -> None:
    layout = Layout("drawn", ("######", "#.#..#", "#.##.#", "#....#", "######"))
    assert layout.path((1, 1), (1, 3)) == [*["move down"] * 2, *["move right"] * 3, *["move up"] * 2, "move left"]
    assert layout.path((1, 1), (1, 1)) == []
    with pytest.raises(KeyError):
        Layout("drawn", ("#####", "#.#.#", "#####")).path((1, 1), (1, 3))


def arrives(task: Puzzle, turns: int, explore: bool, rng: random.Random) -> bool:
    """Whether open moves that lead nearest to the goal do; if exploring, to the cells least visited before that."""
    cell, visits = task.start, Counter([task.start])

    def cost(after: Cell) -> tuple[int, int, float]:
        away = abs(after[0] - task.goal[0]) + abs(after[1] - task.goal[1])
        return visits[after] if explore else 0, away, rng.random()

    for _ in range(turns):
        cell = min((task.layout.after(cell, move) for move in task.layout.open_moves(cell)), key=cost)
        visits[cell] += 1
        if cell == task.goal:
            return True
    return False


@pytest.mark.parametrize(
    ("label", "towards", "exploring"),
    [("steps 1-4", 0.99, 0.99), ("steps 5-8", 0.77, 0.93), ("steps 9-12", 0.38, 0.75)],
)
def test_difficulty_is_graded(label: str, towards: float, exploring: float) -> None:
    env = Maze()
    chosen = [index for index in SPLITS["train"] if env.difficulty(Task("maze", index)) == label]
    for explore, expected in ((False, towards), (True, exploring)):
        won = sum(arrives(puzzle(index), env.spec.max_turns, explore, random.Random(index)) for index in chosen)
        assert won / len(chosen) == pytest.approx(expected, abs=0.05)


def test_family_option_leaves_one_family() -> None:
    all_splits = Maze().spec.splits
    for family in FAMILIES:
        splits = Maze(family=family).spec.splits
        for name in SPLITS.keys() - {"agentgym"}:
            assert len(splits[name]) == len(all_splits[name]) // 4
            assert {puzzle(index).layout.family for index in splits[name][:12]} == {family}
            assert all(index in all_splits[name] for index in splits[name][:12])
        assert splits["agentgym"] == all_splits["agentgym"]
    with pytest.raises(ValueError, match="family 'spiral' is unknown; choose one of corridor, tee, rooms, perfect"):
        Maze(family="spiral")
