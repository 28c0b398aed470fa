"""BabyAI as an environment: transcripts, rewards, endings, invalid commands."""

import asyncio
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept

from agentgym_rl.envs.babyai import BabyAI
from agentgym_rl.envs.babyai.levels import LEVELS
from agentgym_rl.envs.core import ProtocolError, Task, TaskNotFound

RED_BALL = Task("babyai", 0)
OPEN_RED_DOOR = Task("babyai", 12)


def reset(env, task):
    return asyncio.run(env.reset(task))


def step_of(env, command):
    return asyncio.run(env.step(command))


def play(task, *commands, style="agentgym"):
    """The last step of a fresh session."""
    env = BabyAI(style)
    reset(env, task)
    return [step_of(env, command) for command in commands][-1]


def test_golden_transcript_compact():
    env = BabyAI("compact")
    assert reset(env, OPEN_RED_DOOR).text == (
        "Goal: open the red door. See: red closed door 1 front 1 left 1; wall front 2. Carry: nothing."
    )
    step = step_of(env, "go to red closed door 1")
    assert step.observation.text == ("Goal: open the red door. See: red closed door 1 front 1. Carry: nothing.")
    step = step_of(env, "toggle")
    assert step.observation.text == (
        "Done. Goal: open the red door. See: red open door 1 front 1; wall front 5. Carry: nothing."
    )
    assert (step.reward, step.terminated, step.truncated) == (pytest.approx(1 - 0.9 * 3 / 50), True, False)


def test_golden_transcript_agentgym():
    env = BabyAI()
    assert reset(env, OPEN_RED_DOOR).text == (
        "Your goal: open the red door\n"
        "There is a red closed door 1 1 steps in front of you and 1 steps to your left. "
        "You are facing a wall 2 steps away. You are not carrying anything.\n"
        'Available actions: ["turn left", "turn right", "move forward", "go to red closed door 1", '
        '"toggle and go through red closed door 1", "check available actions"]'
    )
    step = step_of(env, "move forward")
    assert "goal" not in step.observation.text
    assert "You are facing a wall 1 steps away." in step.observation.text
    assert "move forward" not in step.observation.actions
    step = step_of(env, "check available actions")
    assert not step.info["invalid"]
    assert step.info["primitive_steps"] == 1
    assert all(f'"{action}"' in step.observation.text for action in step.observation.actions)


def test_slow_success_earns_at_most_half_and_still_ends_the_episode():
    env = BabyAI()
    reset(env, RED_BALL)
    for _ in range(40):
        assert step_of(env, "turn left").reward == 0
    step = step_of(env, "go to red ball 1")
    assert step.terminated
    assert 0 < step.reward <= 0.5
    with pytest.raises(ProtocolError):
        step_of(env, "nonsense")


def test_step_limit_of_the_level_truncates():
    step = play(RED_BALL, *["turn left"] * 64)
    assert (step.reward, step.terminated, step.truncated) == (0, False, True)
    assert "out of steps" in step.observation.text


def test_failed_mission_terminates_without_reward():
    task = Task("babyai", LEVELS.index("PickupDistDebug"))
    env = BabyAI()
    first = reset(env, task)
    right = env.oracle(task)[-1]
    wrong = next(action for action in first.actions if action.startswith("pickup ") and action != right)
    step = step_of(env, wrong)
    assert (step.reward, step.terminated, step.truncated) == (0, True, False)
    assert "failed" in step.observation.text


def test_first_clause_of_a_strict_sequence_does_not_fail_the_second():
    level = LEVELS.index("OpenDoorsOrderN4Debug")
    env = BabyAI()
    tasks = [Task("babyai", index) for index in range(level, 400, 40)]
    sequences = [task for task in tasks if re.search("then|after", env.goal(task))]
    assert sequences
    for task in sequences:
        assert play(task, *env.oracle(task)).reward > 0


@pytest.mark.parametrize("command", ["pickup grey key 1", "pick up grey key 1", "Pick Up  grey key 1 "])
def test_both_spellings_of_pickup(command):
    step = play(RED_BALL, command)
    assert not step.info["invalid"]
    assert "You are carrying a grey key." in step.observation.text
    assert "drop" in step.observation.actions


def test_bare_pickup_and_drop():
    step = play(RED_BALL, "go to grey key 1", "pick up", "drop")
    assert not step.info["invalid"]
    assert "You are not carrying anything." in step.observation.text


def test_go_forward_is_move_forward():
    assert play(RED_BALL, "go forward").info["primitive_steps"] == 1


@pytest.mark.parametrize(
    ("task", "commands", "reason"),
    [
        (RED_BALL, [""], "no action"),
        (RED_BALL, ["dance"], "unknown action"),
        (RED_BALL, ["drop"], "hands empty"),
        (RED_BALL, ["toggle"], "nothing to toggle"),
        (RED_BALL, ["pickup"], "nothing to pick up"),
        (RED_BALL, ["go to green ball 1"], "not in view"),
        (RED_BALL, ["pickup grey key 1", "pickup grey key 1"], "hands full"),
        (RED_BALL, ["go to grey key 1", "move forward"], "blocked"),
        (OPEN_RED_DOOR, ["pickup red closed door 1"], "too heavy"),
        (OPEN_RED_DOOR, ["go through red closed door 1"], "closed"),
        (Task("babyai", 31), ["toggle and go through purple locked door 1"], "locked"),
    ],
)
def test_impossible_command_says_why_and_changes_nothing(task, commands, reason):
    before = BabyAI("compact")
    first = reset(before, task)
    for command in commands[:-1]:
        first = step_of(before, command).observation
    step = play(task, *commands, style="compact")
    assert step.info["invalid"]
    assert step.observation.text == f"Invalid: {reason}. {first.text}"
    assert step.observation.actions == first.actions
    assert (step.reward, step.done) == (0, False)


@pytest.mark.slow
def test_every_listed_action_is_possible():
    for index in range(40):
        task = Task("babyai", index)
        env = BabyAI()
        for action in reset(env, task).actions:
            reset(env, task)
            assert not step_of(env, action).info["invalid"]


@pytest.mark.parametrize("index", [10**9 + 1, -1])
def test_index_outside_the_environment_is_refused(index):
    env = BabyAI()
    for call in (lambda task: reset(env, task), env.goal, env.difficulty, env.oracle):
        with pytest.raises(TaskNotFound, match=f"babyai has no task {index}: valid are 0 to 1000000000"):
            call(Task("babyai", index))
        with pytest.raises(TaskNotFound, match="textcraft_0 is not a task of babyai"):
            call(Task("textcraft", 0))


def test_largest_index_is_playable():
    assert reset(BabyAI(), Task("babyai", 10**9)).text


def test_nothing_is_printed(capsys):
    for index in range(40):
        reset(BabyAI(), Task("babyai", index))
    assert capsys.readouterr() == ("", "")


@settings(max_examples=swept(40), deadline=None)
@given(
    index=st.integers(0, 10**9),
    style=st.sampled_from(["agentgym", "compact"]),
    moves=st.lists(st.one_of(st.integers(0, 100), st.text(max_size=200)), max_size=15),
)
def test_any_play_keeps_the_contract(index, style, moves):
    env = BabyAI(style)
    observation = reset(env, Task("babyai", index))
    earned = 0.0
    for move in moves:
        chosen = move if isinstance(move, str) else observation.actions[move % len(observation.actions)]
        step = step_of(env, chosen)
        observation = step.observation
        earned += step.reward
        assert 0 <= step.reward <= 1
        assert 0 <= earned <= 1
        assert 0 < len(observation.text) < 4000
        if not isinstance(move, str):
            assert not step.info["invalid"]
        if step.done:
            break
