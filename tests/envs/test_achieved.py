"""Goals that an episode reached by the way: under them it earns success at its last turn, and nothing before."""

import asyncio
from dataclasses import replace
from random import Random

import pytest
from sweep import swept

from agentgym_rl.envs import Task, TextEnv, make
from agentgym_rl.envs.alfworld import tasks as houses
from agentgym_rl.envs.alfworld.game import TYPES
from agentgym_rl.envs.alfworld.goals import goals, reached
from agentgym_rl.envs.alfworld.house import House
from agentgym_rl.envs.alfworld.plan import plan
from agentgym_rl.envs.core import Achieved, TaskNotFound
from agentgym_rl.envs.probe import Walk, follow, solution, walk
from agentgym_rl.envs.splits import fingerprint

FEWEST = {"maze": 30, "textcraft": 10, "babyai": 5, "alfworld": 10, "webshop": 20}
"""Goals that the random walks reach at least."""
WALKS = {"maze": 300, "textcraft": 200, "babyai": 120, "alfworld": 160, "webshop": 120}
"""Random walks at ``SWEEP=10``."""


def stray(env: TextEnv, task: Task, rng: Random) -> list[str]:
    """Commands of a random policy: possible ones, and now and then others or, where none are listed, solutions."""
    if task.index % 2 or env.name == "textcraft":  # what solves another task, some commands twice; the house's own
        other = task.index if env.name == "alfworld" else rng.choice(env.spec.splits["train"])
        commands = solution(env, Task(env.name, other)) or []
        return [command for command in commands for _ in range(rng.choice((1, 1, 2)))]

    def choose(trail: Walk) -> str | None:
        seen = trail.steps[-1].observation if trail.steps else trail.first
        return rng.choice(seen.actions or ("look",)) if len(trail.steps) < 25 else None

    return asyncio.run(walk(env, task, choose)).actions


def earned(env: TextEnv, task: Task, commands: list[str], goal: Achieved) -> list[float]:
    """Rewards of the commands under a goal; checks what the environment says of it."""
    env.pursue(goal.goal)
    try:
        assert env.goal(task) == goal.goal
        trail = asyncio.run(walk(env, task, follow(commands[: goal.upto_turn])))
        assert len(trail.steps) == goal.upto_turn and trail.steps[-1].terminated
        assert env.spec.success(trail.reward)
        return [step.reward for step in trail.steps]
    finally:
        env.pursue("")


@pytest.mark.sweep
@pytest.mark.parametrize("name", FEWEST)
@pytest.mark.parametrize("style", ["agentgym", "compact"])
def test_a_goal_is_reached_by_its_last_command_and_not_before(name, style):
    env, rng, reached = make(name, style=style), Random(f"{name} {style}"), 0
    walks = swept(WALKS[name])
    for number in range(walks):
        task = Task(name, rng.choice(env.spec.splits[rng.choice(("train", "test"))]))
        commands = stray(env, task, rng)
        goal, achieved = env.goal(task), env.achieved(task, commands)
        if achieved is None:
            continue
        reached += 1
        assert achieved.goal != goal, number
        rewards = earned(env, task, commands, achieved)
        assert not any(rewards[:-1]) and rewards[-1] > env.spec.success_above
        assert env.goal(task) == goal
        again = env.achieved(task, commands[: achieved.upto_turn - 1])
        assert again is None or again != achieved
    assert reached >= FEWEST[name] * walks // WALKS[name]


@pytest.mark.parametrize("style", ["agentgym", "compact"])
def test_the_first_observation_has_the_other_goal_and_all_else(style):
    env = make("textcraft", style=style)
    first, task = asyncio.run(env.reset(Task("textcraft", 0))).text, Task("textcraft", 0)
    env.pursue("craft paper")
    other = asyncio.run(env.reset(task)).text
    assert other == first.replace("craft pink wool.", "craft paper.") != first
    assert asyncio.run(env.content(task)).startswith("craft paper\n")
    maze, task = make("maze", style=style), Task("maze", 30)
    achieved = maze.achieved(task, ["move up", "move down", "move left", "move right"] * 2)
    maze.pursue(achieved.goal)
    assert asyncio.run(maze.reset(task)).text != asyncio.run(make("maze", style=style).reset(task)).text
    assert asyncio.run(maze.content(task)) == achieved.goal


@pytest.mark.parametrize(
    ("item_id", "goal"),
    [
        ("textcraft_30", "craft oak log"),
        ("maze_30", "go home"),
        ("babyai_30", "pick up the purple castle"),
        ("alfworld_10030", "put a mug in fridge in kitchen-00000000"),
        ("webshop_30", "Find me a castle"),
    ],
)
def test_a_goal_that_the_task_cannot_have_is_refused(item_id, goal):
    task = Task.parse(item_id)
    env = make(task.env)
    env.pursue(goal)
    with pytest.raises(TaskNotFound, match=f"{item_id} cannot have the goal '{goal}'"):
        asyncio.run(env.reset(task))
    env.pursue("")
    asyncio.run(env.reset(task))


def test_others_refuse_another_goal():
    env = make("wordle")
    assert not env.relabels
    with pytest.raises(ValueError, match="wordle cannot change the goals of its tasks"):
        env.pursue("guess house")
    with pytest.raises(NotImplementedError, match="wordle cannot tell which goals an episode reached"):
        env.achieved(Task("wordle", 0), [])


def test_which_goal_is_chosen():
    textcraft, maze = make("textcraft"), make("maze")
    task = Task("textcraft", 0)
    commands = ["get 1 oak log", "craft 4 oak planks using 1 oak log", "inventory"]
    assert textcraft.achieved(task, commands) in (None, Achieved("craft oak planks", 2))
    assert textcraft.achieved(task, ["inventory", "craft 1 paper", ""]) is None
    assert maze.achieved(Task("maze", 30), ["look", ""]) is None


def test_agentgyms_wording_reaches_goals_too():
    env, rng, reached = make("babyai", wording="agentgym-exact"), Random(4), 0
    for index in (0, 9, 16, 21):
        task = Task("babyai", index)
        commands = stray(env, Task("babyai", 2 * (index // 2)), rng)
        if (achieved := env.achieved(task, commands)) is not None:
            assert earned(env, task, commands, achieved)
            reached += 1
    assert reached


def test_a_house_reaches_goals_of_every_type():
    """What solves a game reaches its goal where the game has another one, and no goal held at the start."""
    types = set()
    for index in make("alfworld").spec.splits["train"][:36]:
        house_game = houses.game(index)
        other = next(goal for goal in goals(house_game) if goal.object != house_game.goal.object)
        assert house_game.goal in goals(house_game) and not any(
            House(house_game).holds(goal) for goal in goals(house_game)
        )
        solving = plan(house_game)
        assert reached(replace(house_game, goal=other), [*solving, "look"]) == (house_game.goal, len(solving))
        assert (by_the_way := reached(house_game, solving)) is None or by_the_way[0] != house_game.goal
        types.add(house_game.goal.type)
    assert types == {*TYPES}


def test_what_is_bought_is_an_instruction_of_the_tasks_split():
    env, texts = make("webshop"), set()
    of_train, of_test = Task("webshop", 200), Task("webshop", 0)
    for index in (201, 202, 203):
        bought = env.oracle(Task("webshop", index))
        bare = [bought[0], *(click for click in bought[1:] if "click[b0" in click), "click[buy now]"]
        assert env.achieved(of_train, bought[:-1]) is None and env.achieved(of_test, bought) is None
        for commands in (bought, bare):
            goal = env.achieved(of_train, [*commands, "click[buy now]"])
            assert goal.upto_turn == len(commands) and int(fingerprint(goal.goal, 8), 16) % 10 in range(7)
            texts.add(goal.goal)
        assert " with " not in goal.goal
    assert len(texts) == 6


def test_games_from_files_tell_no_goals(tmp_path):
    (tmp_path / "json_2.1.1" / "train").mkdir(parents=True)
    env = make("alfworld", data=str(tmp_path))
    assert not env.relabels
    with pytest.raises(NotImplementedError, match="alfworld cannot tell which goals an episode reached"):
        env.achieved(Task("alfworld", 10_000), [])
