"""What steps are worth: steps left in mazes, and the AUC of rewards."""

from random import Random

import pytest
from episodes import visiting
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.step_worth import auc, shortens, steps_left_by_turn
from agentgym_rl.envs import Task, make
from agentgym_rl.envs.maze import tasks


def walked(actions):
    episode = visiting(["wall"] * len(actions), [0.0] * len(actions))
    for turn, action in zip(episode.turns, actions, strict=True):
        turn.action = action
    episode.item_id = "maze_30"
    return episode


def test_a_perfect_reward_has_1_and_a_random_one_about_a_half():
    rng = Random(0)
    helps = [rng.random() < 0.3 for _ in range(4000)]
    assert auc([(float(each), each) for each in helps]) == 1
    assert auc([(-float(each), each) for each in helps]) == 0
    assert auc([(rng.gauss(0, 1), each) for each in helps]) == pytest.approx(0.5, abs=0.03)
    assert auc([(0.0, each) for each in helps]) == 0.5, "all tied"
    assert auc([(0.1, True)] * 3) is auc([(0.1, False)]) is auc([]) is None


@given(st.lists(st.tuples(st.integers(-3, 3).map(float), st.booleans()), max_size=30))
def test_the_area_is_the_share_of_pairs_in_order(judged):
    pairs = [(good, bad) for good, helps in judged if helps for bad, other in judged if not other]
    expected = sum((good > bad) + (good == bad) / 2 for good, bad in pairs) / len(pairs) if pairs else None
    assert auc(judged) == (None if expected is None else pytest.approx(expected))


def test_turns_of_a_maze_shorten_the_way_or_do_not():
    maze, puzzle = make("maze", style="compact"), tasks.puzzle(30)
    path, length = puzzle.path(), float(len(puzzle.path()))
    assert maze.steps_left(Task("maze", 30), path) == [*map(float, range(len(path), -1, -1))]
    wall = next(move for move in ("move left", "move right", "move up", "move down")
                if puzzle.layout.after(puzzle.start, move) == puzzle.start)  # fmt: skip
    left = steps_left_by_turn(maze, walked([None, wall, "sing", path[0], None]))
    assert left == [length, length, length, length, length - 1, length - 1]
    assert shortens(left) == [False, False, False, True, False]


def test_most_environments_cannot_tell():
    assert make("textcraft").steps_left(Task("textcraft", 0), []) is None
