"""Tree exploration: what it branches from, what it spends, and that it finds what sampling does not."""

import asyncio
import json
import random
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from corridor import DOORS, LENGTH, Corridor
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.agentevol import AgentEvol, AgentEvolConfig
from agentgym_rl.algorithms.base import LOADED, Request, Rollout
from agentgym_rl.algorithms.search import (
    SearchConfig,
    TreeSearch,
    follows,
    judge,
    search,
    unsolved,
)
from agentgym_rl.data.episode import Ending
from agentgym_rl.envs.core import EnvUnavailable, Observation, Step, Task
from agentgym_rl.rollout.conversation import Scripted
from agentgym_rl.rollout.loop import run_episode
from agentgym_rl.rollout.prefix import Prefix, Replayed
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.supervised import Example

WORLD = {"corridor"}


class Clumsy:
    """Knows the right door half of the time, but prefers the same wrong one at the first."""

    def __init__(self, seed, task):
        self.rng, self.task = random.Random(seed), task

    def __call__(self, messages):
        room = sum(message["role"] == "assistant" for message in messages) - 1
        right = random.Random(f"{self.task}:{room}").choice(DOORS)
        wrong = [door for door in DOORS if door != right]
        if room == 0:
            return "Action: " + (right if self.rng.random() < 0.2 else wrong[0])
        return "Action: " + (right if self.rng.random() < 0.62 else self.rng.choice(wrong))


SETTINGS = RolloutSettings(retries=0, max_turns=8)


def played_by(policy, task, branch=None, world=Corridor):
    extra = (branch.responses, branch.avoid, branch.resamples) if branch else ()
    horizon = branch.max_turns if branch else None
    episode, _ = asyncio.run(run_episode(world, task, partial(Scripted, policy, *extra), SETTINGS, horizon))
    if branch:
        episode.tags = branch.tags()
    return Rollout(episode=episode)


def clumsy(seed, tasks=12, samples=2):
    tasks = [Task("corridor", index) for index in range(tasks)]
    return [played_by(Clumsy(f"{seed}:{task}:{n}", task), task) for task in tasks for n in range(samples)]


def player(seed, world=Corridor, log=None):
    def play(branch):
        task = Task.parse(branch.item_id)
        return played_by(Clumsy(f"{seed}:{task}:{branch.number}", task), task, branch, world)

    def branches(proposed):
        outcomes = [play(branch) for branch in proposed]
        if log is not None:
            log.append((list(proposed), outcomes))
        return random.Random(seed).sample(outcomes, len(outcomes))  # in any order

    return branches


def walk(*commands, task=0, world=Corridor):
    """An episode of these commands."""
    rest = [f"Action: {command}" for command in commands]
    return played_by(lambda messages: rest.pop(0), Task("corridor", task), world=world)


def right_doors(task=0):
    return [random.Random(f"corridor_{task}:{room}").choice(DOORS) for room in range(LENGTH)]


def wrong_door(room, task=0):
    return next(door for door in DOORS if door != right_doors(task)[room])


def tree_of(*samples, **settings):
    return TreeSearch(SearchConfig(**{"calls": 100, **settings}), samples, "0")


def test_search_solves_what_sampling_does_not():
    alone = [played_by(Clumsy(f"x{n}", Task("corridor", 1)), Task("corridor", 1)).episode.success for n in range(400)]
    assert 0 < sum(alone) / len(alone) < 0.04
    samples = clumsy("s", tasks=20)
    result = search(samples, player(0), SearchConfig(calls=120), replayable=WORLD, seed=0)
    again, calls = [], 0
    while calls < result.calls:
        task = Task("corridor", len(again) % 20)
        again.append(played_by(Clumsy(f"y{len(again)}", task), task).episode)
        calls += again[-1].calls
    assert result.tasks == 20
    assert len(result.solved) >= 10 > 2 * len({episode.item_id for episode in again if episode.success})
    for episode in (rollout.episode for rollout in result.solved):
        assert episode.success
        assert [turn.action for turn in episode.turns] == right_doors(Task.parse(episode.item_id).index)


@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 3), st.integers(0, 5))
def test_no_task_takes_more_calls_than_it_may(calls, branches, resamples, seed):
    log = []
    settings = SearchConfig(calls=calls, branches=branches, resamples=resamples)
    samples = clumsy(seed, tasks=3)
    result = search(samples, player(seed, log=log), settings, replayable=WORLD, seed=seed)
    spent, solved = {}, set()
    for proposed, outcomes in log:
        for branch, episode in zip(proposed, [rollout.episode for rollout in outcomes], strict=True):
            assert branch.item_id not in solved  # no round after the one that solved it
            assert 1 <= episode.calls <= branch.calls
            assert episode.prefix_turns == branch.node.turns
            assert len(episode.turns) <= branch.max_turns <= 8
            spent[branch.item_id] = spent.get(branch.item_id, 0) + episode.calls
        solved |= {rollout.episode.item_id for rollout in outcomes if rollout.episode.success}
        assert max(sum(branch.item_id == item_id for branch in proposed) for item_id in spent) <= branches
    assert result.calls == sum(spent.values())
    assert spent.keys() == unsolved(samples, WORLD).keys()
    for item_id, used in spent.items():
        assert used <= calls
        assert used == calls or item_id in solved
    assert {rollout.episode.item_id for rollout in result.solved} == solved
    assert len(result.kept) == sum(len(proposed) for proposed, _ in log)


def test_the_outcome_does_not_depend_on_the_order_of_episodes():
    samples = clumsy("d", tasks=6)
    runs = []
    for order in (samples, samples[::-1]):
        log = []
        search(order, player(3, log=log), SearchConfig(calls=40), replayable=WORLD, seed=7)
        runs.append(sorted((rollout.episode.item_id, rollout.episode.tags["branch"], str(rollout.episode.messages))
                           for _, outcomes in log for rollout in outcomes))  # fmt: skip
    assert runs[0] == runs[1]
    assert len(runs[0]) > 10


def test_it_branches_where_a_reply_went_visibly_wrong_and_avoids_it():
    doors = right_doors()
    lost = walk(*doors[:3], wrong_door(3))
    assert lost.episode.ending is Ending.TERMINATED
    (branch,) = tree_of(lost, branches=1).propose(iter([5]))
    assert (branch.node.turns, branch.avoid, branch.number) == (3, (wrong_door(3),), 5)
    assert branch.responses == [f"Action: {door}" for door in doors[:3]]
    assert branch.max_turns == 8

    stuck = walk(doors[0], *["knock"] * 7)
    (branch,) = tree_of(stuck, branches=1).propose(iter([0]))
    assert (branch.node.turns, branch.avoid) == (1, ("knock",))


def test_what_was_tried_often_gives_way_to_what_was_not():
    doors = right_doors()
    tree = tree_of(walk(*doors[:2], wrong_door(2)), branches=1, calls=1000)
    turns = []
    for number in range(20):
        (branch,) = tree.propose(iter([number]))
        turns.append(branch.node.turns)
        follow = walk(*doors[:2], wrong_door(2)) if branch.node.turns == 2 else walk(*doors[:1], wrong_door(1))
        episode = replace(
            follow.episode,
            turns=[replace(turn, calls=int(at >= branch.node.turns)) for at, turn in enumerate(follow.episode.turns)],
        )
        assert tree.learn(branch, Rollout(episode=episode)) or branch.node.turns == 0
    assert turns[0] == 2
    assert len(set(turns)) > 1


def test_returns_draw_the_search_where_a_world_pays_in_parts():
    class Paying(Corridor):
        async def _step(self, action):
            step = await super()._step(action)
            paid = 0.4 if step.observation.text == "Room 1." else step.reward
            return Step(step.observation, paid, step.terminated, info=step.info)

    doors = right_doors()
    rich = walk(doors[0], *["knock"] * 7, world=Paying)
    poor = walk(wrong_door(0), *["knock"] * 7, world=Paying)
    assert (rich.episode.reward, poor.episode.reward) == (0.4, 0.0)
    for samples in ((rich, poor), (poor, rich)):
        (branch,) = tree_of(*samples, branches=1).propose(iter([0]))
        assert branch.responses == [f"Action: {doors[0]}"]


def test_branches_of_a_round_differ_and_fit_together():
    tree = tree_of(walk(*right_doors()[:4], wrong_door(4)), branches=3, calls=30, resamples=2)
    branches = tree.propose(iter(range(9)))
    assert [branch.number for branch in branches] == [0, 1, 2]
    assert branches[0].node.turns == 4 and len({branch.node.turns for branch in branches}) > 1
    assert sum(branch.calls for branch in branches) <= 30
    last = tree_of(walk(*right_doors()[:4], wrong_door(4)), branches=3, calls=1).propose(iter([0]))
    assert [(branch.max_turns - branch.node.turns, branch.resamples) for branch in last] == [(1, 0)]


def test_a_mistake_at_the_first_move_is_found():
    """Nothing shows it: each later node looks as good, and the root was tried more often than any of them."""

    class Fork(Corridor):
        async def _step(self, action):
            self.room += 1
            self.lost |= self.room == 1 and action != self.right[0]
            won = self.room == LENGTH and not self.lost
            return Step(Observation(f"Room {self.room}."), float(won), won)

    def stubborn(task, seed):
        rng, right, wrong = random.Random(f"{seed}:{task}"), right_doors(task.index)[0], wrong_door(0, task.index)
        return lambda messages: "Action: " + (right if rng.random() < (0.02 if len(messages) == 2 else 0.5) else wrong)

    def play(task, seed, branch=None):
        return played_by(stubborn(task, seed), task, branch, Fork)

    samples = [play(Task("corridor", index), number) for index in range(60) for number in range(3)]
    result = search(
        samples,
        lambda branches: [play(Task.parse(branch.item_id), branch.number, branch) for branch in branches],
        SearchConfig(calls=48),
        replayable=WORLD,
        seed=0,
    )
    afresh = [
        any(play(Task.parse(item_id), f"again {number}").episode.success for number in range(48 // LENGTH))
        for item_id in unsolved(samples, WORLD)
    ]
    assert len(result.solved) >= sum(afresh) > 0, "not worse than as many calls on samples from the start"


def test_a_replay_that_goes_another_way_is_dropped_and_not_tried_again():
    class Drifting(Corridor):
        async def _step(self, action):
            step = await super()._step(action)
            return Step(Observation(f"{step.observation.text} {random.random()}"), step.reward, step.terminated)

    log = []
    samples = clumsy("n", tasks=4)
    result = search(samples, player(0, Drifting, log), SearchConfig(calls=40), replayable=WORLD, seed=0)
    replayed = [branch for proposed, _ in log for branch in proposed if branch.node.turns]
    assert result.dropped == len(replayed) > 0
    played = [pair for proposed, outcomes in log for pair in zip(proposed, outcomes, strict=True)]
    assert result.kept == [rollout for branch, rollout in played if not branch.node.turns]
    rounds = [[branch.node for branch in proposed if branch.node.turns] for proposed, _ in log]
    seen = set()
    for nodes in rounds:
        assert not seen.intersection(nodes), "no round after the one that failed"
        seen.update(nodes)
    assert all(rollout.episode.prefix_turns == 0 for rollout in result.solved)
    metrics = result.metrics()
    assert (metrics["search/dropped"], metrics["search/branches"]) == (len(replayed), len(played))


def test_a_replay_is_known_by_its_messages_and_its_tokens():
    sample = walk(*right_doors()[:2], wrong_door(2))
    (branch,) = tree_of(sample, branches=1).propose(iter([0]))
    assert branch.node.turns == 2
    episode = played_by(lambda messages: f"Action: {wrong_door(2)}", Task("corridor", 0), branch).episode
    assert follows(branch, Rollout(episode=episode))
    assert not follows(branch, sample)  # nothing of it was replayed
    assert not follows(branch, Rollout(episode=replace(episode, turns=episode.turns[:2])))  # it ended in the prefix
    other = [*episode.messages]
    other[2] = {"role": "user", "content": "Room 7."}
    assert not follows(branch, Rollout(episode=replace(episode, messages=other)))

    turns = [replace(turn, tokens=(4 * at, 4 * at + 2)) for at, turn in enumerate(episode.turns)]
    episode = replace(episode, turns=turns, prompt_tokens=3)

    def tokens(*ids):
        return Rollout(episode=episode, segments=(Example(list(ids), [0.0] * 13),))

    branch = replace(branch, node=replace(branch.node, source=tokens(*range(13))))
    assert follows(branch, tokens(*range(11), 50, 51))
    assert not follows(branch, tokens(*range(10), 49, 50, 51))


def test_the_replay_of_a_branch_holds_the_tokens_that_were_sampled():
    episode = walk(*right_doors()[:2], wrong_door(2)).episode
    turns = [replace(turn, tokens=(5 * at, 5 * at + 3), log_prob=-1.0 - at) for at, turn in enumerate(episode.turns)]
    ids = [100, 101, *range(13)]
    mask = [0.0, 0.0] + [float(at % 5 < 2) for at in range(13)]  # the builder closed each reply with a token of its own
    played = replace(episode, turns=turns, prompt_tokens=2, model_step=4)
    source = Rollout(episode=played, segments=(Example(ids, mask),))
    (branch,) = tree_of(source, branches=1, resamples=1).propose(iter([6]))
    request = branch.request(round=3)
    assert (branch.max_turns, branch.tags()) == (8, {"branch": 6, "prefix_turns": 2})
    assert (str(request.task), request.max_turns) == ("corridor_0", 8)
    assert request.tags == {"branch": 6, "prefix_turns": 2, "round": 3}
    first, second = (turn.response for turn in turns[:2])
    before = [Replayed(text=first, ids=[0, 1], log_prob=-1.0, step=4),
              Replayed(text=second, ids=[5, 6], log_prob=-2.0, step=4)]  # fmt: skip
    assert request.prefix == Prefix(responses=before, learn=True, avoid=[wrong_door(2)], resamples=1)
    assert Prefix.from_dict(json.loads(json.dumps(request.prefix.to_dict()))) == request.prefix
    with pytest.raises(ValueError, match="corridor_0 cannot be branched from: its episode has no tokens"):
        replace(branch, node=replace(branch.node, source=Rollout(episode=episode))).request()


def test_infrastructure_that_fails_is_charged_and_ends():
    class Dead(Corridor):
        async def _reset(self, task):
            raise EnvUnavailable("gone")

    result = search(clumsy("f", tasks=2), player(0, Dead), SearchConfig(calls=30), replayable=WORLD, seed=0)
    assert (result.failed, result.solved, result.dropped) == (len(result.kept), [], 0)
    assert result.calls == 30 * result.tasks


def test_only_failed_tasks_of_replayable_worlds_are_searched():
    solved, failed = walk(*right_doors(1), task=1), walk(*right_doors(1)[:1], wrong_door(1, 1), task=1)
    other = walk(wrong_door(0, 2), *["knock"] * 7, task=2)
    error = Rollout(episode=replace(walk(*right_doors(3), task=3).episode, ending=Ending.TIMEOUT, success=False))
    assert unsolved([solved, failed, other, error], WORLD) == {"corridor_2": [other]}
    assert unsolved([other], {"textcraft"}) == {}

    def never(branches):
        raise AssertionError("nothing to play")

    for samples, settings in (([solved, failed, error], SearchConfig(calls=9)), ([other], SearchConfig())):
        assert search(samples, never, settings, replayable=WORLD, seed=0).kept == []


def test_a_success_is_what_its_threshold_says():
    """A task that reached it is not searched; one that its environment calls solved below it is."""
    lost, won = walk(wrong_door(0, 1), task=1), walk(*right_doors())
    lost.episode.reward, won.episode.reward = 0.5, 0.1
    for rollout in (lost, won):
        rollout.segments = (Example([9], [1.0]),)
    asked = []

    class Searching:
        seed, replayable = 0, WORLD

        def rollouts(self, requests, label, *, resumable):
            asked.extend(requests)
            return [replace(won, episode=replace(won.episode, tags=request.tags)) for request in requests]

    config = AgentEvolConfig(search=SearchConfig(calls=30, branches=1), success_threshold={"corridor": 0.3})
    _, metrics = AgentEvol(config).search(Searching(), 0, [lost, won])
    assert {str(request.task) for request in asked} == {"corridor_0"} and metrics["search/tasks"] == 1


def test_outcomes_must_be_of_the_branches():
    sample = walk(wrong_door(0), *["knock"] * 7)
    with pytest.raises(ValueError, match="branches were rolled out, but got"):
        search([sample], lambda branches: [sample], SearchConfig(calls=9), replayable=WORLD, seed=0)


def test_good_turns():
    doors = right_doors()
    lost = walk(doors[0], "knock", doors[1], "knock", wrong_door(2)).episode
    assert judge(lost, won=False) == [True, False, True, False, False]
    cut = replace(lost, ending=Ending.TURN_LIMIT)
    assert judge(cut, won=False) == [True, False, True, False, True], "its last turn has not lost it"
    assert judge(walk(*doors).episode, won=True) == [True] * LENGTH


@pytest.mark.parametrize("wrong", [{"calls": -1}, {"branches": 0}, {"resamples": -1}, {"exploration": -0.1}])
def test_settings_out_of_range(wrong):
    (name, value), *_ = wrong.items()
    with pytest.raises(ValueError, match=rf"algorithm\.search\.{name} must be at least \d, got {value}"):
        SearchConfig(**wrong)


def test_a_dropped_success_solves_nothing():
    sample = walk(*right_doors()[:2], wrong_door(2))
    tokens = (Example([*range(99)], [0.0] * 99),)
    won = walk(*right_doors()).episode
    other = replace(won, turns=[replace(turn, calls=int(at > 1)) for at, turn in enumerate(won.turns)])
    other.messages[2] = {"role": "user", "content": "Room 7."}
    result = search(
        [replace(sample, segments=tokens)],
        lambda branches: [Rollout(episode=replace(other, tags=branch.tags()), segments=tokens) for branch in branches],
        SearchConfig(calls=3, branches=1, resamples=0),
        replayable=WORLD,
        seed=0,
    )
    assert result.dropped > 0
    assert result.solved == result.kept == []


class Stopped(Exception):
    """The run ends here."""


class Player:
    """Plays rows one by one, the same whenever a row is; stops after so many. Every fifth branch seems to win, but
    its replay goes another way."""

    def __init__(self, stop_after=10**9):
        self.played, self.stop_after = [], stop_after

    def rollouts(self, rows, *, validate, progress, take, chunk):
        for row in rows:
            if len(self.played) == self.stop_after:
                raise Stopped
            take([self.play(**row)])
            self.played.append(row["index"])

    def play(self, index, item_id, request, **_):
        task, prefix = Task.parse(item_id), request.prefix or Prefix(responses=[])
        responses = [response.text for response in prefix.responses]
        start = partial(Scripted, Clumsy(f"resumed:{task}:{index}", task), responses, prefix.avoid, prefix.resamples)
        episode, _ = asyncio.run(run_episode(Corridor, task, start, SETTINGS, request.max_turns))
        episode.tags = {**request.tags, "index": index}
        if request.tags.get("branch", 1) % 5 == 0:
            episode.messages[2], episode.success = {"role": "user", "content": "Room 7."}, True
        return Rollout(episode=episode, segments=(Example([9, index], [0.0, 1.0]),))


def explored(file, stop_after=10**9):
    """A round of AgentEvol whose episodes stand in a journal; and what was played in it."""
    pytest.importorskip("verl")
    from agentgym_rl.engine.run.resumable import Resumable

    def rows(requests, first):
        return [{"index": at, "item_id": str(each.task), "request": each} for at, each in enumerate(requests, first)]

    player = Player(stop_after)
    journal = Resumable(file=file, sampler=player, rows=rows, say=lambda _: None, stop=lambda: False)
    run = SimpleNamespace(
        seed=3, weights=lambda: LOADED, observe=lambda _: None, save_demonstrations=lambda *_: None, replayable=WORLD,
        requests=lambda number: [Request(task=Task("corridor", index), samples=2, max_turns=8) for index in range(6)],
        rollouts=lambda requests, label, resumable: journal.rollouts(requests, label, lambda *_: None),
    )  # fmt: skip
    evolving = AgentEvol(AgentEvolConfig(search=SearchConfig(calls=60)))
    try:
        metrics = evolving.unit(run, 0)
    except Stopped:
        return player.played, None
    finally:
        journal.close()
    times = ("agentevol/explore_s", "agentevol/corridor/seconds")
    metrics = {name: value for name, value in metrics.items() if name not in times}
    return player.played, (evolving.state_dict(), metrics)


def test_a_search_goes_on_where_it_was_stopped(tmp_path):
    """No branch is played twice, no task has more calls, and what diverged is not learned."""
    played, undisturbed = explored(tmp_path / "whole")
    metrics = undisturbed[1]
    assert metrics["search/dropped"] > 0 and metrics["search/solved"] > 0 and len(played) > 30
    for stop_after in range(12, len(played), 7):
        before, nothing = explored(tmp_path / f"{stop_after}", stop_after)
        after, resumed = explored(tmp_path / f"{stop_after}")
        assert nothing is None and [*before, *after] == played and resumed == undisturbed


def test_branches_of_an_interrupted_search_can_be_samples_of_the_next():
    log = []
    samples = clumsy("i", tasks=4)
    search(samples, player(0, log=log), SearchConfig(calls=12), replayable=WORLD, seed=0)
    earlier = [rollout for _, outcomes in log for rollout in outcomes if not rollout.episode.success]
    log = []
    result = search([*earlier, *samples], player(1, log=log), SearchConfig(calls=30), replayable=WORLD, seed=1)
    assert result.kept and result.dropped == 0
    assert all(rollout.episode.max_turns <= 8 for _, outcomes in log for rollout in outcomes)
    alone = search(earlier, player(1), SearchConfig(calls=30), replayable=WORLD, seed=1)
    assert alone.kept
