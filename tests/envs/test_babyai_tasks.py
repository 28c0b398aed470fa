"""BabyAI's tasks: numbering, splits, determinism, and the expert that solves them."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter

import gymnasium
import pytest
from sweep import some

from agentgym_rl.envs.babyai import BabyAI
from agentgym_rl.envs.babyai.bot import solve_with_bot
from agentgym_rl.envs.babyai.level import Level
from agentgym_rl.envs.babyai.levels import LAYERS, LEVEL_IDS, LEVELS, SPLITS, level_and_seed
from agentgym_rl.envs.babyai.oracle import solve_level
from agentgym_rl.envs.core import OracleUnavailable, Task

ONE_ROOM = (
    *("GoToRedBallGrey", "GoToRedBall", "GoToRedBallNoDists", "GoToObjS6", "GoToLocalS8N7", "GoToRedBlueBall"),
    *("OpenRedDoor", "PickupLoc", "PickupDistDebug"),
)
"""Levels in one room that take few commands."""

TRANSCRIPTS = """
import hashlib
from agentgym_rl.envs.babyai import BabyAI
from agentgym_rl.envs.core import OracleUnavailable, Task
digest = hashlib.sha256()
for index in range(800, 860):
    env = BabyAI()
    observation = env._reset_blocking(Task("babyai", index))
    for turn in range(6):
        digest.update(observation.text.encode())
        step = env._step_blocking(observation.actions[(turn * 7 + index) % len(observation.actions)])
        observation = step.observation
        if step.done:
            break
    digest.update(observation.text.encode())
print(digest.hexdigest())
"""


def reward_of(env, task, commands):
    """Play commands to the end; none may be invalid and only the last may end the episode."""
    env._reset_blocking(task)
    steps = [env._step_blocking(command) for command in commands]
    assert not any(step.info["invalid"] for step in steps)
    assert [step.done for step in steps] == [False] * (len(steps) - 1) + [True]
    return steps[-1].reward


def test_levels_take_turns_and_seeds_count_rounds():
    assert len(LEVEL_IDS) == len(set(LEVEL_IDS)) == 40
    assert level_and_seed(0) == (0, 0)
    assert level_and_seed(39) == (39, 0)
    assert level_and_seed(40) == (0, 1)
    assert level_and_seed(899) == (19, 22)
    assert BabyAI().difficulty(Task("babyai", 0)) == "GoToRedBallGrey"
    assert BabyAI().difficulty(Task("babyai", 43)) == "GoToObjS6"
    assert BabyAI().difficulty(Task("babyai", 879)) == "BossLevelNoUnlock"


@pytest.mark.parametrize("index", [0, 57, 838])
def test_task_is_the_minigrid_level_with_that_seed(index):
    level = gymnasium.make(LEVEL_IDS[index % 40]).unwrapped
    level.reset(seed=index // 40)
    assert BabyAI().goal(Task("babyai", index)) == level.mission
    assert Level(index).minigrid.pprint_grid() == level.pprint_grid()


@pytest.mark.slow
def test_no_split_repeats_a_layout_of_another() -> None:
    """All tasks of the level that repeats most; AgentGym's stay what they are."""
    layers: dict[str, set[int]] = {}
    moved = Counter()
    for number, indices in enumerate((SPLITS["train"], SPLITS["test"], *LAYERS[1:])):
        for index in (index for index in indices if index % 40 == LEVELS.index("OpenRedDoor")):
            level = Level(index)
            layers.setdefault(level.layout, set()).add(number)
            moved[number] += level.seed != index // 40
    assert [layout for layout, numbers in layers.items() if len(numbers) > 1] == []
    assert moved == {0: 0, 1: 0, 2: 9, 3: 31, 4: 426}


@pytest.mark.sweep
def test_expert_solves_test_tasks():
    env = BabyAI()
    for index in some(env.spec.splits["test"]):
        task = Task("babyai", index)
        assert 0 < reward_of(env, task, env.oracle(task)) <= 1, task


@pytest.mark.slow
def test_expert_solves_training_tasks_of_many_levels():
    env = BabyAI("compact")
    for index in range(0, 800, 43):
        task = Task("babyai", index)
        assert 0 < reward_of(env, task, env.oracle(task)) <= 1, task


@pytest.mark.slow
def test_task_whose_key_is_locked_away_behind_its_own_door_has_no_oracle():
    with pytest.raises(OracleUnavailable, match="babyai_246"):
        BabyAI().oracle(Task("babyai", 246))


def test_minigrids_bot_is_the_last_resort():
    task = Task("babyai", 154)
    assert reward_of(BabyAI(), task, solve_with_bot(task.index)) > 0


def test_compact_observation_is_regular_and_in_one_room_short():
    env = BabyAI("compact")
    lengths = []
    for index in env.spec.splits["test"]:
        task = Task("babyai", index)
        text = env._reset_blocking(task).text
        assert re.fullmatch(r"Goal: [a-z ,]+\. See: [a-z0-9 ;]+\. Carry: [a-z ]+\.", text)
        if env.difficulty(task) in ONE_ROOM:
            lengths.append(len(text.split()))
    assert sorted(lengths)[len(lengths) // 2] <= 40
    assert max(lengths) <= 75


def test_levels_in_one_room_need_few_commands():
    env = BabyAI()
    for name in ONE_ROOM:
        lengths = sorted(len(env.oracle(Task("babyai", LEVELS.index(name) + 40 * seed))) for seed in range(5))
        assert lengths[2] <= 4, name


def test_expert_without_the_map_names_only_what_it_sees():
    """Each command of the uninformed expert was among the listed actions when it was given."""
    env = BabyAI()
    for index in (5, 12, 16, 44):
        commands = solve_level(index, informed=False)
        observation = env._reset_blocking(Task("babyai", index))
        for command in commands:
            assert command in observation.actions
            observation = env._step_blocking(command).observation


@pytest.mark.slow
def test_same_transcripts_in_any_process():
    digests = set()
    for hash_seed in ("0", "1234"):
        run = subprocess.run(
            [sys.executable, "-c", TRANSCRIPTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(run.stdout)
    assert len(digests) == 1
    assert len(digests.pop().strip()) == len(hashlib.sha256().hexdigest())
