"""Failed episodes as successes under the goals that they reached; environments are real, the run is a script."""

import asyncio
import json
from random import Random
from types import SimpleNamespace

import pytest
from sweep import swept

from agentgym_rl.algorithms.agentevol import AgentEvol, AgentEvolConfig
from agentgym_rl.algorithms.base import Request, Rollout
from agentgym_rl.algorithms.hindsight import HeldOut, Hindsight, HindsightConfig
from agentgym_rl.data.episode import Ending, Turn
from agentgym_rl.envs import Task, make
from agentgym_rl.rollout.conversation import ContextTooSmall, Scripted
from agentgym_rl.rollout.loop import run_attempt
from agentgym_rl.rollout.policies.scripted import OracleScript
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.supervised import Example

RULES = RolloutSettings(style="compact")


class Scripts:
    """A run with environments, and no model: a token is a message."""

    def __init__(self, panels=(), longest=99, **envs):
        self.envs = envs or {"textcraft": make("textcraft", style="compact")}
        self.rules, self.longest, self.demonstrations = RULES, longest, [None] * 99
        self.pools = {name: env.spec.splits["train"] for name, env in self.envs.items()}
        self.panel_tasks = {name: [task for task in panels if task.env == name] for name in self.envs}

    def environment(self, name):
        return self.envs[name]

    def encode(self, messages, task):
        if len(messages) > self.longest:
            raise ContextTooSmall
        texts = [message["content"] for message in messages if message["role"] == "assistant"]
        turns = [Turn(response=text, action=text, observation="", reward=0.0, invalid=False) for text in texts]
        episode = SimpleNamespace(env=task.env, item_id=str(task), turns=turns, messages=messages)
        return Rollout(episode=episode, segments=[Example([len(messages)], [1.0])])


def episode(env, task, commands, preface=""):
    """The episode of commands, as a run's own are."""
    conversation = Scripted(OracleScript(commands, env))
    return asyncio.run(run_attempt(env, task, conversation, RULES, len(commands), preface=preface))


def crafting(env, item_of, task):
    """What solves another task, in this one."""
    return episode(env, task, env.oracle(item_of))


def relabel(run, episodes, learned=99, known=(), **keys):
    return Hindsight(HindsightConfig(**{"max_per_goal": 9, "min_turns": 1, **keys})).relabel(
        run, episodes, learned, known
    )


def tasks_of(env):
    return [Task(env.name, index) for index in env.spec.splits["train"]]


def goals_of(relabelled):
    return [rollout.episode.messages[1]["content"].rpartition("Goal: ")[2] for rollout in relabelled]


def test_a_relabelled_episode_is_what_the_same_responses_make_under_the_goal():
    run = Scripts()
    env, task, other = run.environment("textcraft"), Task("textcraft", 0), Task("textcraft", 17)
    failed = episode(env, task, [*env.oracle(other), "inventory"], preface="Think.")
    assert not failed.success
    (relabelled_rollout,), metrics = relabel(run, [failed])
    env.pursue(env.goal(other))
    collected = episode(env, task, env.oracle(other), preface="Think.")
    env.pursue("")
    assert collected.success and relabelled_rollout.episode.messages == collected.messages
    assert relabelled_rollout.episode.messages[1]["content"].startswith("Think.\n\n")
    first, relabelled = failed.messages[1]["content"], relabelled_rollout.episode.messages[1]["content"]
    assert relabelled == first.replace(env.goal(task), env.goal(other)) != first
    assert metrics == {
        "hindsight/textcraft/found": 1, "hindsight/textcraft/kept": 1, "hindsight/textcraft/goals_new": 1,
        "hindsight/textcraft/leaked": 0, "hindsight/textcraft/rejected": 0, "hindsight/textcraft/too_long": 0,
    }  # fmt: skip


def test_shortest_first_no_two_alike_and_no_more_than_asked_for():
    run = Scripts()
    env, other = run.environment("textcraft"), Task("textcraft", 17)
    way = env.oracle(other)
    tasks = [Task("textcraft", index) for index in (0, 1, 2)]
    long, short, alike = (
        episode(env, task, [*slow, *way]) for task, slow in zip(tasks, (["look"], [], []), strict=True)
    )
    for keys, lengths in (
        ({}, [len(way), len(way) + 1]),  # the third has the responses of the second
        ({"max_per_goal": 1}, [len(way)]),
        ({"max_per_goal": 0}, []),
        ({"learned": 1}, [len(way)]),
        ({"learned": 4, "share": 0.5}, [len(way), len(way) + 1]),
        ({"learned": 1, "share": 0.5}, []),
        ({"min_turns": len(way) + 1}, [len(way) + 1]),
        ({"known": {(str(tasks[1]), tuple(turn.response for turn in short.turns))}}, [len(way), len(way) + 1]),
    ):
        relabelled, _ = relabel(run, [long, short, alike], **keys)
        assert [len(rollout.episode.turns) for rollout in relabelled] == lengths, keys


def test_what_does_not_fit_or_is_not_rewarded_is_counted():
    env, task, other = make("textcraft", style="compact"), Task("textcraft", 0), Task("textcraft", 17)
    failed = crafting(env, other, task)
    relabelled, metrics = relabel(Scripts(longest=3), [failed])
    assert not relabelled and metrics["hindsight/textcraft/too_long"] == 1
    failed.turns[0].response = "I do not know."  # the replay goes another way
    for verify in (True, False):
        relabelled, metrics = relabel(Scripts(), [failed], verify=verify)
        assert (len(relabelled), metrics["hindsight/textcraft/rejected"]) == (int(not verify), int(verify))


def test_turns_that_cannot_be_read_count_as_turns_and_not_as_commands():
    run = Scripts(maze=make("maze", style="compact"))
    env, task = run.environment("maze"), Task("maze", 33)
    responses = iter(["?", "Action: move up", "Action: move down", "Action: move left", "Action: move right"] * 2)
    failed = asyncio.run(run_attempt(env, task, Scripted(lambda messages: next(responses)), RULES, 9))
    assert not failed.success
    (relabelled,), metrics = relabel(run, [failed])
    assert relabelled.episode.turns[0].response == "?" and metrics["hindsight/maze/kept"] == 1


def test_a_house_and_a_shop_have_other_goals():
    house, shop = make("alfworld", style="compact"), make("webshop", style="compact")
    run = Scripts(alfworld=house, webshop=shop)
    run.pools = {name: pool[:20] for name, pool in run.pools.items()}
    cleaning = next(task for task in tasks_of(house) if "clean" in house.difficulty(task))
    dirty = [command for command in house.oracle(cleaning) if not command.startswith("clean")]
    bought = shop.oracle(Task("webshop", 201))
    failed = [episode(house, cleaning, dirty), episode(shop, Task("webshop", 200), bought)]
    assert [each.success for each in failed] == [False, False]
    relabelled, metrics = relabel(run, failed)
    for rollout, old in zip(sorted(relabelled, key=lambda each: each.episode.env), failed, strict=True):
        assert [turn.response for turn in rollout.episode.turns] == [turn.response for turn in old.turns]
        assert rollout.episode.messages[1] != old.messages[1]
    assert metrics["hindsight/alfworld/kept"] == metrics["hindsight/webshop/kept"] == 1


@pytest.mark.sweep
def test_no_goal_of_a_panel_or_of_a_test_split_enters():
    env, rng = make("textcraft", style="compact", held_out=60), Random(0)
    panel = [Task("textcraft", index) for split in ("test", "val") for index in env.spec.splits[split]]
    run = Scripts(panels=panel[:30], textcraft=env)
    held = {env.goal(task) for task in panel} - {env.goal(Task("textcraft", i)) for i in env.spec.splits["train"]}
    indices = [*env.spec.splits["train"], *env.spec.splits["test"], *env.spec.splits["val"]]
    hindsight = Hindsight(HindsightConfig(max_per_goal=10_000, min_turns=1))
    leaked = 0
    for _ in range(swept(10_000) // 100):
        episodes = [
            crafting(
                env, Task("textcraft", rng.choice(indices)), Task("textcraft", rng.choice(env.spec.splits["train"]))
            )
            for _ in range(100)
        ]
        failed = [each for each in episodes if not each.success]
        relabelled, metrics = hindsight.relabel(run, failed, 10_000, ())
        leaked += metrics["hindsight/textcraft/leaked"]
        assert relabelled and not {goal.rstrip(".") for goal in goals_of(relabelled)} & held
    assert leaked and hindsight.goals


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["alfworld", "webshop"])
def test_no_goal_of_a_test_split_enters_from_houses_and_shops(name):
    env, rng = make(name, style="compact"), Random(0)
    train, tested = (env.spec.splits[split] for split in ("train", "test"))
    panel = [Task(name, index) for index in tested]
    run = Scripts(panels=panel[:30], **{name: env})
    run.pools[name] = train[:50]
    failed = []
    for _ in range(swept(300)):
        task = Task(name, rng.choice(train))
        solving = env.oracle(task if name == "alfworld" else Task(name, rng.choice([*train[:200], *tested])))
        untreated = [command for command in solving if command.split()[0] not in ("clean", "heat", "cool")]
        played = episode(env, task, untreated)
        failed += [] if played.success else [played]
    hindsight = Hindsight(HindsightConfig(max_per_goal=10_000, min_turns=1))
    relabelled, _ = hindsight.relabel(run, failed, 10_000, ())
    assert relabelled and not {goal for _, goal in hindsight.goals} & {env.goal(task) for task in panel}
    assert HeldOut(env, panel[:1], train[:1]).leaks(panel[0], env.goal(panel[0]))


def test_goals_that_training_tasks_have_are_not_held_out_and_games_of_panels_are():
    env = make("textcraft", style="compact")
    train, goal = env.spec.splits["train"], env.goal(Task("textcraft", 3))
    variants = [Task("textcraft", index) for index in env.spec.splits["test_variants"][:5]]
    held = HeldOut(env, variants, train)
    assert goal not in held.goals
    assert {env.goal(Task("textcraft", index)) for index in env.spec.splits["test"]} <= held.goals
    assert not held.leaks(Task("textcraft", 0), goal)
    assert HeldOut(env, [Task("textcraft", 3)], train).leaks(Task("textcraft", 3), goal)
    assert HeldOut(env, variants, train[4:]).leaks(Task("textcraft", 9), goal)


def test_agentevol_learns_them_by_their_weight_and_goes_on_from_its_state():
    run, other = Scripts(), Task("textcraft", 17)
    env = run.environment("textcraft")
    failed = Rollout(episode=crafting(env, other, Task("textcraft", 0)), segments=[Example([7], [1.0])])
    assert failed.episode.ending in (Ending.TURN_LIMIT, Ending.TERMINATED)
    algorithm = AgentEvol(AgentEvolConfig(hindsight=HindsightConfig(max_per_goal=1, weight=0.25, min_turns=1)))
    algorithm.keep(1, [failed])
    assert algorithm.rows() == []
    metrics = algorithm.relabel(run, 1, [failed])
    assert metrics["hindsight/textcraft/goals_new"] == 1
    assert [row.streams for row in algorithm.rows()] == [{"cross_entropy": 0.25}]
    again = AgentEvol(algorithm.config)
    again.load_state_dict(json.loads(json.dumps(algorithm.state_dict())))
    assert again.successes == algorithm.successes and again.hindsight.goals == algorithm.hindsight.goals
    for each in (algorithm, again):
        each.keep(2, [failed])
        metrics = each.relabel(run, 2, [failed])
        assert (metrics["hindsight/textcraft/kept"], metrics["hindsight/textcraft/goals_new"]) == (1, 0)
    assert again.state_dict() == algorithm.state_dict()


class Rounds(Scripts):
    """Rounds of two tasks, of which one is solved and one becomes the solution of another."""

    seed, observation_weight, learn_invalid = 1, 0.0, True

    def __init__(self):
        super().__init__()
        self.asked, self.learned = [], []
        self.demonstrations = [self.played(Task("textcraft", index), index) for index in (3, 4)]

    def played(self, task, solved):
        played = crafting(self.environment("textcraft"), Task("textcraft", solved), task)
        return Rollout(episode=played, segments=[Example([task.index, solved], [0.0, 1.0])])

    def requests(self, number):
        return [Request(task=Task("textcraft", 10 * number + place), samples=1, max_turns=None) for place in (5, 6)]

    def rollouts(self, requests, label, resumable):
        self.asked.append((requests, label))
        solved = (requests[0].task.index, 17)
        return [self.played(each.task, index) for each, index in zip(requests, solved, strict=True)]

    def learn(self, rows, loss, **keys):
        self.learned.append(([(row.segment, row.streams) for row in rows], keys))
        return {}

    def weights(self):
        return "own"

    def restore(self, weights):
        self.asked.append(weights)

    def validate(self, label):
        return None

    def observe(self, rollouts):
        pass

    def save_demonstrations(self, label, rollouts):
        self.asked.append((label, len(rollouts)))


@pytest.mark.parametrize("accumulate", [False, True])
def test_with_weight_0_it_is_agentevol_bit_for_bit(accumulate):
    """Which no recipe can have, as ``max_per_goal=0`` says the same: rows of relabelled episodes then weigh nothing."""
    ours, theirs = Rounds(), Rounds()
    keys = {"steps": 2, "epochs": 2, "accumulate": accumulate}
    relabelling = AgentEvol(AgentEvolConfig(hindsight=HindsightConfig(max_per_goal=1, min_turns=1), **keys))
    relabelling.config.hindsight.weight = 0.0
    plain, relabelled = AgentEvol(AgentEvolConfig(**keys)), 0.0
    for number in range(plain.units):
        metrics, plain_passes = relabelling.unit(ours, number), plain.unit(theirs, number)
        relabelled += metrics.get("hindsight/textcraft/kept", 0)
        assert {key for key in metrics if not key.startswith("hindsight/")} == plain_passes.keys()
        comparable = [key for key in plain_passes if not key.endswith(("_s", "/seconds", "/pool"))]
        assert [metrics[key] for key in comparable] == [plain_passes[key] for key in comparable]
    assert relabelled and ours.asked == theirs.asked and len(ours.learned) == 4
    for (rows, passes), (plain_rows, plain_passes) in zip(ours.learned, theirs.learned, strict=True):
        weighing = [row for row in rows if row[1] != {"cross_entropy": 0.0}]
        assert repr(weighing) == repr(plain_rows) and passes == plain_passes and len(rows) > len(plain_rows)
