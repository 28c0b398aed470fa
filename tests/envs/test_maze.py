"""Maze as an agent meets it: moves, walls, observations, endings."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import play
from sweep import swept

from agentgym_rl.envs import Task
from agentgym_rl.envs.core import Style, TaskNotFound
from agentgym_rl.envs.maze import MAX_STEPS, Maze
from agentgym_rl.envs.maze.layout import MOVES
from agentgym_rl.envs.maze.tasks import SPLITS, puzzle

POSITION = re.compile(r"The goal is at position (\d+), (\d+)\. Your current position is at position (\d+), (\d+)\. ")


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (
            "agentgym",
            [
                "The goal is at position 8, 6. Your current position is at position 5, 5. "
                "There are walls above you, below you.",
                "The goal is at position 8, 6. Your current position is at position 5, 6. There is a wall above you.",
                "The goal is at position 8, 6. Your current position is at position 5, 6. There is a wall above you.",
                "The goal is at position 8, 6. Your current position is at position 5, 6. There is a wall above you.",
                "The goal is at position 8, 6. Your current position is at position 6, 6. "
                "There are walls to your right, to your left.",
                "The goal is at position 8, 6. Your current position is at position 7, 6. "
                "There are walls to your right, to your left.",
                "Success",
            ],
        ),
        (
            "compact",
            [
                "goal three down one right open left right",
                "goal three down open left right down",
                "wall, goal three down open left right down",
                "invalid, goal three down open left right down",
                "goal two down open up down",
                "goal one down open up down",
                "done",
            ],
        ),
    ],
)
def test_transcript(style: Style, expected: list[str]) -> None:
    first, steps = play(Maze(style), 15, "move right", "move up", "jump", *["move down"] * 3)
    assert [first.text, *(step.observation.text for step in steps)] == expected
    assert [step.reward for step in steps] == [0.0] * 5 + [1.0]
    assert [step.terminated for step in steps] == [False] * 5 + [True]
    assert [step.info["invalid"] for step in steps] == [False, False, True, False, False, False]
    assert [step.info["blocked"] for step in steps] == [False, True, False, False, False, False]
    assert steps[-1].info["raw_reward"] == 1.0
    assert first.actions == ("move left", "move right", "move up", "move down")
    assert steps[-1].observation.actions == ()


def test_no_walls_nearby() -> None:
    index = next(i for i in SPLITS["train"] if len(puzzle(i).layout.open_moves(puzzle(i).start)) == 4)
    assert play(Maze(), index)[0].text.endswith(". There are no walls near you.")
    assert play(Maze("compact"), index)[0].text.endswith(" open left right up down")


@pytest.mark.parametrize("action", ["Move  Right", " move right "])
def test_case_and_spaces_do_not_matter(action: str) -> None:
    _, steps = play(Maze(), 15, action)
    assert "position 5, 6." in steps[0].observation.text


@pytest.mark.parametrize("action", ["", "right", "move", "move north", "move up down", "go right"])
def test_what_is_no_move_is_invalid_and_changes_nothing(action: str) -> None:
    first, (step,) = play(Maze(), 15, action)
    assert step.observation == first
    assert step.info["invalid"] and not step.info["blocked"]


@pytest.mark.parametrize(("style", "text"), [("agentgym", "Failure"), ("compact", "out of steps")])
def test_step_limit_truncates(style: Style, text: str) -> None:
    _, steps = play(Maze(style), 0, *["move left"] * (MAX_STEPS + 5))
    assert len(steps) == MAX_STEPS + 1
    assert [step.done for step in steps] == [False] * MAX_STEPS + [True]
    last = steps[-1]
    assert (last.observation.text, last.reward, last.truncated, last.terminated) == (text, 0.0, True, False)
    assert last.info["raw_reward"] == -1.0


@pytest.mark.parametrize("index", [25, SPLITS["test_variants"].stop, 10**15, -1])
def test_index_outside_the_world(index: int) -> None:
    for ask in (Maze().goal, Maze().difficulty, Maze().oracle):
        with pytest.raises(TaskNotFound, match=r"valid are 0 to 24 and 26 to 29425"):
            ask(Task("maze", index))


TASKS = st.one_of(st.sampled_from(SPLITS["agentgym"]), st.integers(26, SPLITS["test_variants"][-1]))
ACTIONS = st.lists(st.one_of(st.sampled_from([*MOVES]), st.text(max_size=9)), max_size=30)


@settings(max_examples=swept(100), deadline=None)
@given(TASKS, ACTIONS)
def test_a_walk_stays_inside_is_paid_at_the_goal_only_and_can_be_replayed(index: int, actions: list[str]) -> None:
    task = puzzle(index)
    env = Maze()
    first, steps = play(env, index, *actions)
    assert play(env, index, *actions) == (first, steps)
    position = task.start
    for action, step in zip(actions, steps, strict=False):
        before = position
        if step.terminated:
            assert (step.reward, step.observation.text) == (1.0, "Success")
            assert task.layout.after(before, action) == task.goal
            break
        assert step.reward == 0.0
        shown = POSITION.match(step.observation.text)
        assert shown is not None
        assert (int(shown[1]), int(shown[2])) == task.goal
        position = (int(shown[3]), int(shown[4]))
        assert position in task.layout.cells()
        assert position == (before if action not in MOVES else task.layout.after(before, action)) != task.goal


@settings(max_examples=swept(50), deadline=None)
@given(TASKS, ACTIONS)
def test_both_wordings_tell_the_same_story(index: int, actions: list[str]) -> None:
    _, long = play(Maze(), index, *actions)
    _, short = play(Maze("compact"), index, *actions)
    assert [(step.reward, step.done, step.info) for step in long] == [(s.reward, s.done, s.info) for s in short]
    assert all(len(step.observation.text.split()) <= 12 for step in short)
