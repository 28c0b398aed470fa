"""Starts in the middle of episodes: which are kept, which are drawn, and what is learned of them."""

import asyncio
import json
import random
from dataclasses import replace
from functools import partial
from math import sqrt
from statistics import fmean, variance

import pytest
from corridor import DOORS, LENGTH, Corridor
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.base import Request, Rollout
from agentgym_rl.algorithms.exit import Base, ExIt, ExItConfig
from agentgym_rl.algorithms.gigpo import GiGPO, GiGPOConfig
from agentgym_rl.algorithms.groups import GroupsConfig
from agentgym_rl.algorithms.grpo import GRPO, GRPOConfig
from agentgym_rl.algorithms.restarts import (
    ANOTHER_WAY,
    START,
    Limit,
    RestartsConfig,
    Source,
    Start,
    chances,
    keys,
    replayed,
)
from agentgym_rl.algorithms.rloo import RLOO
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.envs.core import Step, Task
from agentgym_rl.rollout.conversation import Scripted
from agentgym_rl.rollout.loop import run_episode
from agentgym_rl.rollout.settings import RolloutSettings


def right(task):
    return [random.Random(f"{task}:{room}").choice(DOORS) for room in range(LENGTH)]


class Walker:
    """Takes the right door with probability ``skill``."""

    def __init__(self, seed, task, skill):
        self.rng, self.right, self.skill = random.Random(seed), right(task), skill

    def __call__(self, messages):
        room = sum(message["role"] == "assistant" for message in messages) - 1
        wrong = [door for door in DOORS if door != self.right[min(room, LENGTH - 1)]]
        good = room < LENGTH and self.rng.random() < self.skill
        return f"Action: {self.right[room] if good else self.rng.choice(wrong)}"


RULES = RolloutSettings(retries=0)


class ScriptedRun:
    """A run whose episodes are those of a walker, and whose updates are noted."""

    seed, response_tokens, demonstrations = 3, 100, ()

    def __init__(self, tasks=4, samples=4, limit=8, skill=0.7, env=Corridor, ahead=0):
        self.tasks, self.samples, self.limit, self.skill, self.env = tasks, samples, limit, skill, env
        self.ahead, self.under_way, self.begun = ahead, {}, 0
        self.asked, self.learned, self.met = [], [], []

    def drawn(self, number):
        first = number * self.tasks
        tasks = [Task("corridor", first + index) for index in range(self.tasks)]
        return [Request(task=task, samples=self.samples, max_turns=self.limit) for task in tasks]

    async def rollout(self, request, sample, group):
        prefix = [response.text for response in request.prefix.responses] if request.prefix else []
        walker = Walker(f"{group}:{sample}", request.task, self.skill)
        converse = partial(Scripted, walker, prefix)
        episode, _ = await run_episode(
            self.env, request.task, converse, RULES, request.max_turns, preface=request.preface
        )
        episode.tags, episode.began, episode.reset_s = dict(request.tags), 0.0, 0.0
        for turn in episode.turns:  # times differ from run to run
            turn.began_s = turn.model_s = turn.parse_s = turn.env_s = 0.0
        return Rollout(episode=episode, group=group, kept=[f"{group}:{sample}"])

    async def rollouts(self, number, requests):
        return [
            [await self.rollout(request, sample, f"{number}:{index}") for sample in range(request.samples)]
            for index, request in enumerate(requests)
        ]

    def batches(self, number, plan=None, *, keep=None, refills=0):
        while self.begun <= number + self.ahead:
            requests = self.drawn(self.begun)
            self.under_way[self.begun] = requests if plan is None else plan(self.begun, requests)
            self.begun += 1
        requests = self.under_way.pop(number)
        self.asked.append(requests)
        met = asyncio.run(self.rollouts(number, requests))
        self.met.append(met)
        yield [rollout for group in met if keep is None or keep(group) for rollout in group]

    def learn(self, rows, loss, **passes):
        self.learned.append((rows, loss, passes))
        return {}


def exit_with(base="grpo", **restarts):
    keys = {"tasks_per_step": 4, "mini_batch_tasks": 4, "lr": 0.1, "steps": 9}
    restarts["source"] = Source(restarts.get("source", "own"))
    return ExIt(ExItConfig(name="exit", base=Base(base), restarts=RestartsConfig(**restarts), **keys))


def episodes_of(*rewards, responses=("a", "b", "c", "d"), task=0, start=None, calls=0):
    """Episodes of these responses, which differ in their last observation and reward."""
    return [
        Episode(
            env="corridor", item_id=f"corridor_{task}", ending=Ending.TERMINATED, reward=reward, success=reward == 1,
            max_turns=8, messages=[{"role": "user", "content": "first"}] + [
                {"role": role, "content": text} for text in responses for role in ("assistant", "user")
            ],
            tags={} if start is None else {START: start},
            turns=[Turn(response=text, action=text, observation=f"after {text}", reward=0.0, invalid=False,
                        calls=int(at >= calls)) for at, text in enumerate(responses)],
        )
        for reward in rewards
    ]  # fmt: skip


def start_at(length, task=0, score=0.1, seen=0):
    """The start after the first right doors of a task."""
    doors = right(Task("corridor", task))[:length]
    turns = [
        Turn(response=f"Action: {door}", action=door, observation=f"Room {room}.", reward=0.0, invalid=False)
        for room, door in enumerate(doors, start=1)
    ]
    messages = [{"role": "user", "content": "Room 0."}]
    for turn in turns:
        messages += [{"role": "assistant", "content": turn.response}, {"role": "user", "content": turn.observation}]
    (episode,) = episodes_of(0.0, task=task)
    key = keys(replace(episode, messages=messages, turns=turns))[length]
    responses = [turn.response for turn in turns]
    return Start(key=key, task=episode.item_id, responses=responses, score=score, seen=seen, max_turns=8)


def with_starts(algorithm, *starts):
    algorithm.starts.kept = {start.key: start for start in starts}
    return algorithm


def begun_at(requests):
    return [request.tags.get(START) for request in requests]


# limits


@pytest.mark.parametrize(("base", "alone"), [("grpo", GRPO), ("rloo", RLOO), ("gigpo", GiGPO)])
def test_without_starts_it_is_its_base_draw_for_draw_and_bit_for_bit(base, alone):
    ours, theirs = exit_with(base, share=0.0), ExItConfig(tasks_per_step=4, mini_batch_tasks=4, lr=0.1, steps=9)
    runs = [ScriptedRun(), ScriptedRun()]
    for number in range(3):
        metrics = [algorithm.unit(run, number) for algorithm, run in zip((ours, alone(theirs)), runs, strict=True)]
        assert metrics[0] == metrics[1]
    assert runs[0].asked == runs[1].asked
    assert repr(runs[0].learned) == repr(runs[1].learned)
    assert not ours.starts.kept


def test_its_own_defaults_are_those_of_grpo():
    ours, theirs = vars(ExItConfig()), vars(GRPOConfig())
    assert {key: ours[key] for key in theirs} == theirs


def test_an_empty_buffer_leaves_all_groups_fresh():
    run, plain = ScriptedRun(), ScriptedRun()
    metrics = exit_with(share=1.0).unit(run, 0)
    GRPO(GRPOConfig(tasks_per_step=4, mini_batch_tasks=4, lr=0.1, steps=9)).unit(plain, 0)
    assert run.asked == plain.asked and repr(run.learned) == repr(plain.learned)
    assert (metrics["restarts/groups"], metrics["restarts/diverged_replays"]) == (0, 0)
    assert "restarts/gradient_share" not in metrics and metrics["restarts/buffer"] > 0


# which are drawn


def test_chances_by_hand():
    starts = [start_at(1, score=0.2, seen=4), start_at(2, score=0.1, seen=8), start_at(3, score=0.0, seen=7)]
    scores, ages = [2 / 3, 1 / 3, 0.0], [6 / 11, 2 / 11, 3 / 11]
    expected = [0.75 * score + 0.25 * age for score, age in zip(scores, ages, strict=True)]
    assert chances(starts, 10, 1.0, 0.25) == pytest.approx(expected)
    squares = [4 / 5, 1 / 5, 0.0]
    assert chances(starts, 10, 0.5, 0.0) == pytest.approx(squares)
    assert chances(starts, 10, 1e-4, 0.0) == pytest.approx([1, 0, 0]), "tiny scores are no underflow"
    unscored = [replace(start, score=0.0, seen=10) for start in starts]
    assert chances(unscored, 10, 1.0, 0.5) == pytest.approx([1 / 3] * 3)


def test_starts_take_the_place_of_as_many_drawn_tasks():
    algorithm = with_starts(exit_with(share=0.5), *(start_at(2, task) for task in range(9)))
    drawn = ScriptedRun(tasks=8, limit=7).drawn(1)
    planned = algorithm.starts.plan(3, 1, drawn)
    restarted = [(request, before) for request, before in zip(planned, drawn, strict=True) if request != before]
    assert len(restarted) == 4 and len(set(begun_at(planned))) == 5, "no start twice"
    for request, before in restarted:
        start = algorithm.starts.kept[request.tags[START]]
        assert (str(request.task), request.samples, request.max_turns) == (start.task, before.samples, 7)
        assert [each.text for each in request.prefix.responses] == start.responses
        assert not request.prefix.learn and request.preface == ""
    assert planned == algorithm.starts.plan(3, 1, drawn) != algorithm.starts.plan(4, 1, drawn)
    few = with_starts(exit_with(share=1.0), start_at(1), start_at(2))
    assert sum(map(bool, begun_at(few.starts.plan(3, 0, drawn)))) == 2, "the others are fresh"


def test_shares_of_environments_stay():
    algorithm = with_starts(exit_with(share=1.0), *(start_at(1, task) for task in range(9)))
    others = [replace(request, task=Task("counter", index)) for index, request in enumerate(ScriptedRun().drawn(0))]
    drawn = [*ScriptedRun().drawn(0), *others]
    planned = algorithm.starts.plan(0, 0, drawn)
    assert [request.task.env for request in planned] == [request.task.env for request in drawn]
    assert planned[4:] == others and all(begun_at(planned[:4]))


def test_a_limit_that_does_not_reach_beyond_a_prefix_skips_it():
    starts = [start_at(1), start_at(3), start_at(4)]
    drawn = ScriptedRun(limit=3).drawn(0)
    planned = with_starts(exit_with(share=1.0), *starts).starts.plan(0, 0, drawn)
    assert {request.max_turns for request in planned} == {3} and set(begun_at(planned)) == {starts[0].key, None}
    after = with_starts(exit_with(share=1.0, turns=Limit.AFTER), *starts)
    limits = {request.tags[START]: request.max_turns for request in after.starts.plan(0, 0, drawn) if request.tags}
    assert limits == {start.key: 3 + len(start.responses) for start in starts}
    unlimited = [replace(request, max_turns=None) for request in drawn]
    assert {request.max_turns for request in after.starts.plan(0, 0, unlimited) if request.tags} == {9, 11, 12}
    assert {
        request.max_turns for request in with_starts(exit_with(share=1.0), *starts).starts.plan(0, 0, unlimited)
    } == {None}


def test_a_share_of_the_groups_is_asked_to_go_another_way_and_still_arrives():
    algorithm = with_starts(exit_with(share=1.0, diverge=0.5), *(start_at(2, task) for task in range(60)))
    run = ScriptedRun(tasks=60, samples=2)
    metrics = algorithm.unit(run, 0)
    prefaces = [request.preface for request in run.asked[0]]
    assert set(prefaces) == {"", ANOTHER_WAY} and 15 < sum(map(bool, prefaces)) < 45
    diverted = [group[0].episode for group, preface in zip(run.met[0], prefaces, strict=True) if preface]
    assert all(episode.messages[episode.start - 1]["content"].startswith(ANOTHER_WAY) for episode in diverted)
    assert (metrics["restarts/groups"], metrics["restarts/diverged_replays"]) == (60, 0)


def test_what_stands_before_the_first_observation_is_no_part_of_a_start():
    (plain,) = episodes_of(0.0)
    shown = replace(
        plain, preface="Rules.", messages=[{"role": "user", "content": "Rules.\n\nfirst"}, *plain.messages[1:]]
    )
    assert keys(shown) == keys(plain)


# which are kept


def offered(algorithm, *groups, number=0):
    """What is kept after groups of these episodes."""
    run = ScriptedRun()
    run.drawn = lambda _: []
    met = [[Rollout(episode=episode, group=f"{index}") for episode in group] for index, group in enumerate(groups)]
    run.batches = lambda *_, **__: iter([[rollout for group in met for rollout in group]])
    algorithm.unit(run, number)
    return algorithm.starts.kept


def test_scores_by_hand():
    algorithm = exit_with(share=0.5, rate=0.25)
    starts = offered(algorithm, episodes_of(1.0, 0.0, 0.0, 0.0))
    assert sorted(len(start.responses) for start in starts.values()) == [1, 2, 3]
    assert {(start.score, start.seen, start.max_turns) for start in starts.values()} == {(0.25, 0, 8)}
    first = next(start for start in starts.values() if len(start.responses) == 1)
    starts = offered(algorithm, episodes_of(1.0, 0.5, start=first.key, calls=1, responses=("a", "x", "y")), number=4)
    assert (starts[first.key].score, starts[first.key].seen) == (pytest.approx(0.75 * 0.25 + 0.25 * 0.125), 4)
    (deeper,) = (start for start in starts.values() if start.responses == ["a", "x"])
    assert (deeper.score, deeper.seen) == (0.125, 4)
    again = offered(algorithm, episodes_of(0.0, 0.0), number=5)
    assert next(start for start in again.values() if start.responses == ["a", "b"]).score == 0.25, "not played itself"


@pytest.mark.parametrize(("turns", "limit"), [(Limit.WHOLE, 8), (Limit.AFTER, 7)])
def test_a_start_within_an_episode_that_began_at_another_has_the_limit_of_the_task(turns, limit):
    """Of 8 turns that the episode might take, ``after`` gave it one for the turn that was replayed."""
    algorithm, first = exit_with(turns=turns), keys(episodes_of(0.0)[0])[1]
    starts = offered(algorithm, episodes_of(1.0, 0.0, start=first, calls=1))
    assert {start.max_turns for start in starts.values()} == {limit}


def test_the_best_are_kept_and_few_of_a_task():
    algorithm = exit_with(buffer=5, per_task=2, min_prefix=2)
    groups = [episodes_of(*rewards, task=task) for task, rewards in enumerate([(1, 0), (1, 0.5), (1, 1), (0.9, 0.5)])]
    starts = offered(algorithm, *groups)
    of_task = [start.task for start in starts.values()]
    assert of_task[:4] == ["corridor_0"] * 2 + ["corridor_1"] * 2 and len(of_task) == 5
    assert min(len(start.responses) for start in starts.values()) == 2
    assert [start.score for start in starts.values()] == sorted(start.score for start in starts.values())[::-1]


def test_the_order_in_which_groups_end_has_no_effect():
    """Two groups of a task offer the same starts with other scores."""

    class Twice(ScriptedRun):
        def drawn(self, number):
            return super().drawn(number)[:1] * 2

    class Backwards(Twice):
        def batches(self, *arguments, **named):
            yield from (batch[::-1] for batch in super().batches(*arguments, **named))

    states = []
    for run in (Twice(), Backwards()):
        algorithm = exit_with()
        algorithm.unit(run, 0)
        states.append(algorithm.starts.state())
    assert states[0] == states[1]


def test_equal_starts_are_kept_at_random():
    lengths = set()
    for task in range(30):
        (start,) = offered(exit_with(per_task=1), episodes_of(1.0, 0.0, task=task)).values()
        lengths.add(len(start.responses))
    assert lengths == {1, 2, 3}


def test_what_is_not_scored_for_long_is_dropped():
    algorithm = exit_with(max_age=3)
    offered(algorithm, episodes_of(1.0, 0.0))
    for number in (1, 2):
        assert offered(algorithm, number=number)
    assert not offered(algorithm, number=3), "it would be 4 steps old"


def test_a_response_without_text_is_not_replayed():
    starts = offered(exit_with(), episodes_of(1.0, 0.0, responses=("a", "", "c", "d")))
    assert [start.responses for start in starts.values()] == [["a"]]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.lists(st.sampled_from("ab"), max_size=5), st.booleans()), max_size=8),
    st.integers(1, 6),
    st.integers(1, 3),
)
def test_bounds_of_the_buffer_hold(episodes, buffer, per_task):
    groups = [episodes_of(1.0, float(tie), responses=responses, task=task) for task, responses, tie in episodes]
    starts = offered(exit_with(buffer=buffer, per_task=per_task), *groups)
    of_task = [start.task for start in starts.values()]
    assert len(of_task) <= buffer and all(of_task.count(task) <= per_task for task in of_task)
    offers = {key for group in groups for key in keys(group[0])[1:-1]}
    assert set(starts) <= offers
    assert starts or not offers


# demonstrations


def shown(*lengths):
    """Demonstrations of so many turns, whose file calls the environment otherwise."""
    replies = [[f"Action: {door}" for door in right(Task("corridor", task))] for task in range(len(lengths))]
    episodes = [episodes_of(1.0, task=task, responses=replies[task][:length])[0] for task, length in enumerate(lengths)]
    return [
        Rollout(episode=replace(episode, item_id=episode.item_id.replace("corridor", "hall"))) for episode in episodes
    ]


def demonstrated(rollouts, *numbers, **restarts):
    """The starts of steps in which nothing else is learned."""
    algorithm, run = exit_with(**{"source": "demonstrations", **restarts}), ScriptedRun()
    run.demonstrations, run.batches = rollouts, lambda *_, **__: iter([])
    for number in numbers:
        algorithm.unit(run, number)
    return algorithm.starts.kept


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 4), st.integers(0, 25))
def test_the_reverse_curriculum_moves_each_start_to_the_beginning(lengths, reverse_every, number):
    starts = demonstrated(shown(*lengths), *range(number + 1), reverse_every=reverse_every)
    expected = {f"corridor_{task}": max(0, length - 1 - number // reverse_every) for task, length in enumerate(lengths)}
    assert {start.task: len(start.responses) for start in starts.values()} == expected
    assert {start.score for start in starts.values()} == {0.25}


def test_without_a_schedule_demonstrations_are_starts_at_all_turns():
    starts = demonstrated(shown(6), 0, 1, per_task=9, min_prefix=2)
    assert sorted(len(start.responses) for start in starts.values()) == [2, 3, 4, 5]
    assert len(demonstrated(shown(6), 0, per_task=3)) == 3


@pytest.mark.parametrize(("source", "shares"), [("demonstrations", {True}), ("both", {True, False})])
def test_groups_begin_within_demonstrations(source, shares):
    algorithm, run = exit_with(share=1.0, source=source, reverse_every=1), ScriptedRun(samples=2, skill=0.8)
    run.demonstrations = walked(4)
    lengths = []
    for number in range(7):
        metrics = algorithm.unit(run, number)
        assert metrics["restarts/diverged_replays"] == 0
        lengths.append(metrics["restarts/prefix_turns"])
    assert {start.demonstrated for start in algorithm.starts.kept.values()} == shares
    if source == "demonstrations":
        assert lengths == [5, 4, 3, 2, 1, 0, 0]
        assert run.asked[-1][0].prefix is None, "the task itself"
        assert begun_at(run.asked[-1]) != [None] * 4


def walked(tasks):
    """The right way through the corridor of each task."""
    run = ScriptedRun(tasks=tasks, samples=1, skill=1.0)
    return [group[0] for group in asyncio.run(run.rollouts(0, run.drawn(0)))]


def test_scores_choose_among_demonstrations():
    algorithm, run = exit_with(share=1.0, source="demonstrations", staleness=0.0, rate=1.0), ScriptedRun(skill=1.0)
    run.demonstrations = walked(4)
    algorithm.unit(run, 0)
    played = {start.key for start in algorithm.starts.kept.values() if not start.score}
    assert set(begun_at(run.asked[0])) == played, "all succeed there"
    algorithm.unit(run, 1)
    assert not played & set(begun_at(run.asked[1]))


# replays


class Forgetful(Corridor):
    """From its second session on, other rooms."""

    sessions = 0

    async def _reset(self, task):
        type(self).sessions += 1
        self.session = type(self).sessions
        return await super()._reset(task)

    async def _step(self, action):
        step = await super()._step(action)
        drifts = self.session > 2 and self.session % 4 > 0
        return (
            Step(replace(step.observation, text=f"{step.observation.text} {self.session}"), 0.0, False)
            if drifts
            else step
        )


@pytest.mark.parametrize("base", ["grpo", "rloo", "gigpo"])
def test_a_replay_that_goes_another_way_leaves_the_batch_and_its_start_the_buffer(base):
    Forgetful.sessions = 2
    start = start_at(2)
    algorithm = with_starts(exit_with(base, share=0.25), start)
    run = ScriptedRun(env=Forgetful)
    metrics = algorithm.unit(run, 0)
    (group,) = (group for group in run.met[0] if START in group[0].episode.tags)
    assert [replayed(rollout.episode) for rollout in group].count(None) == 3
    assert metrics["restarts/diverged_replays"] == 3 and start.key not in algorithm.starts.kept
    assert metrics["restarts/groups"] == 0, "one episode is no group"
    ((rows, *_),) = run.learned
    assert len(rows) == 12 and not {row.segment for row in rows} & {rollout.kept[0] for rollout in group}
    assert {row.segment.partition(":")[0] for row in rows} == {"0"}


def test_an_episode_that_ends_where_it_should_begin_has_not_arrived():
    (episode,) = episodes_of(0.0, responses=("a", "b"), start=keys(episodes_of(0.0)[0])[2], calls=2)
    assert replayed(episode) is None, "there is nothing to learn from"
    (episode,) = episodes_of(0.0, responses=("a", "b", "c"), start=keys(episodes_of(0.0)[0])[2], calls=2)
    assert replayed(episode) == 2


def test_late_scores_of_starts_that_left_are_dropped():
    algorithm = with_starts(exit_with(share=0.5, buffer=2), start_at(1, 0), start_at(1, 1))
    run = ScriptedRun(ahead=2)
    algorithm.unit(run, 0)
    assert len(run.under_way) == 2, "planned ahead"
    late = [key for requests in run.under_way.values() for key in begun_at(requests) if key]
    algorithm.starts.kept = {}
    metrics = algorithm.unit(run, 1)
    assert late and not set(late) & set(algorithm.starts.kept) and metrics["restarts/groups"] == 2
    assert algorithm.starts.kept, "what its episodes went through is offered all the same"


# what is learned


def test_only_turns_after_the_start_have_credit():
    fresh, at_start = episodes_of(1.0, 0.0), keys(episodes_of(0.0)[0])[2]
    group = [
        *episodes_of(1.0, start=at_start, calls=2),
        *episodes_of(0.0, start=at_start, responses=("a", "b", "a"), calls=2),
    ]
    group[0].turns[3].reward = fresh[0].turns[3].reward = 1.0
    cut = [replace(episode, turns=episode.turns[2:]) for episode in group]
    credits = exit_with("gigpo").credit(group)
    assert [stream[:2] for stream in credits] == [[0.0, 0.0]] * 2
    assert [stream[2:] for stream in credits] == GiGPO(GiGPOConfig()).credit(cut)
    assert exit_with("gigpo").credit(fresh) == GiGPO(GiGPOConfig()).credit(fresh)
    assert exit_with("rloo").credit(group) == [1.0, -1.0]
    assert exit_with().credit(group) == GRPO(GRPOConfig()).credit(group)


@pytest.mark.parametrize(("length", "skill"), [(0, 0.7), (3, 0.7), (5, 0.6)])
def test_the_share_of_groups_with_a_gradient_is_the_closed_form(length, skill):
    """From the k-th room an episode succeeds with probability p = skill ** (6 - k), and of n episodes neither all nor
    none do with 1 - p^n - (1 - p)^n."""
    tasks, samples, p = 100, 4, skill ** (LENGTH - length)
    algorithm = exit_with(share=1.0)
    if length:
        with_starts(algorithm, *(start_at(length, task) for task in range(tasks)))
    metrics = algorithm.unit(ScriptedRun(tasks=tasks, samples=samples, skill=skill), 0)
    expected = 1 - p**samples - (1 - p) ** samples
    name = "restarts/gradient_share" if length else "restarts/fresh_gradient_share"
    assert metrics[name] == pytest.approx(expected, abs=3 * sqrt(expected * (1 - expected) / tasks))
    if length:
        assert (metrics["restarts/groups"], metrics["restarts/prefix_turns"]) == (tasks, length)


def test_starts_are_where_groups_have_a_gradient():
    """On tasks that 2% of the episodes solve."""
    algorithm, run, metrics_of_units = exit_with(share=0.5), ScriptedRun(tasks=24, skill=0.52), []
    for number in range(4):
        metrics_of_units.append(algorithm.unit(run, number))
    p = 0.52**LENGTH
    assert p < 0.02
    assert fmean(metrics["restarts/gradient_share"] for metrics in metrics_of_units[1:]) > 2 * (1 - p**4 - (1 - p) ** 4)
    assert metrics_of_units[-1]["restarts/score_mean"] == pytest.approx(
        fmean(start.score for start in algorithm.starts.kept.values())
    )


def test_diagnostics_are_of_what_is_learned():
    """The turns before a start are the same in all of its episodes."""
    fresh = episodes_of(0.0, 1.0)
    group = episodes_of(0.0, 1.0, start=keys(fresh[0])[2], calls=2)
    for episode in group:
        for turn, length in zip(episode.turns, (9, 9, 1, 1), strict=True):
            turn.tokens, turn.invalid = (0, length), length == 9
    rollouts = [Rollout(episode=episode, group="a") for episode in group]
    metrics = exit_with(share=1.0).metrics_of(rollouts, 100)
    assert (metrics["diagnostics/invalid_turns"], metrics["diagnostics/response_tokens"]) == (0.0, 1.0)
    assert metrics["diagnostics/gradient_share"] == 1.0


def test_groups_that_the_filter_leaves_out_have_scores_too():
    start = start_at(LENGTH - 1, score=0.2)
    algorithm = with_starts(exit_with(share=0.25), start)
    algorithm.config.groups = GroupsConfig(filter=True)
    run = ScriptedRun(skill=1.0)
    metrics = algorithm.unit(run, 0)
    assert algorithm.starts.kept[start.key].score == pytest.approx(0.1), "all succeed"
    assert (metrics["restarts/groups"], metrics["restarts/gradient_share"]) == (1, 0)
    assert run.learned[0][0] == []


def test_a_score_is_the_variance_of_the_environments_rewards():
    run, start = ScriptedRun(tasks=1, samples=8), start_at(4, score=0.0)
    algorithm = with_starts(exit_with(share=1.0, rate=1.0), start)
    algorithm.config.shaping.overlong_turns, algorithm.config.shaping.overlong_penalty = 8, 1.0
    algorithm.unit(run, 0)
    assert algorithm.starts.kept[start.key].score == variance(episode.episode.reward for episode in run.met[0][0]) > 0


# resuming


def test_a_resumed_run_draws_the_same_starts():
    first, run = exit_with(share=0.5, buffer=6), ScriptedRun(skill=0.6)
    for number in range(3):
        first.unit(run, number)
    second = exit_with(share=0.5, buffer=6)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    other = ScriptedRun(skill=0.6)
    other.begun = 3
    for number in (3, 4):
        assert first.unit(run, number) == second.unit(other, number)
    assert run.asked[3:] == other.asked and any(begun_at(other.asked[0]))
    assert repr(run.learned[3:]) == repr(other.learned)
    assert first.state_dict() == second.state_dict()


# keys


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"share": 1.5}, r"share must be in \[0, 1\], got 1.5"),
        ({"staleness": -0.1}, r"staleness must be in \[0, 1\], got -0.1"),
        ({"diverge": 2}, r"diverge must be in \[0, 1\], got 2"),
        ({"rate": 0.0}, "rate must be greater than 0, got 0.0"),
        ({"rate": 1.5}, r"rate must be in \[0, 1\], got 1.5"),
        ({"reverse_every": 0}, "reverse_every must be at least 1, got 0"),
        ({"temperature": 0.0}, "temperature must be greater than 0, got 0.0"),
        *(({key: 0}, f"{key} must be at least 1, got 0") for key in ("buffer", "per_task", "min_prefix", "max_age")),
    ],
)
def test_values_out_of_range_are_refused(keys, says):
    with pytest.raises(ValueError, match=says):
        RestartsConfig(**keys)


def test_keys_without_an_effect():
    def unused(**keys):
        return ExItConfig(**keys).unused(off_policy=False, environments=1)

    assert unused()["gamma"] == unused()["step_weight"] == "algorithm.base=grpo does not read it"
    assert not {"gamma", "step_weight", "normalise_by_std"} & unused(base="gigpo").keys()
    of_rloo = unused(base="rloo")
    assert {"gamma", "step_weight", "normalise_by_std"} <= of_rloo.keys()
    assert {key for key in of_rloo if key.startswith("restarts")} == {"restarts.reverse_every"}
    reverse = unused(restarts=RestartsConfig(source=Source.DEMONSTRATIONS, reverse_every=3))
    assert {key for key in reverse if key.startswith("restarts")} == {"restarts.min_prefix"}
    both = unused(restarts=RestartsConfig(source=Source.BOTH))
    assert not any(key.startswith("restarts") for key in both)
    without = unused(restarts=RestartsConfig(share=0.0))
    assert {key for key in without if key.startswith("restarts")} == {
        f"restarts.{key}" for key in vars(RestartsConfig()) if key != "share"
    }


def test_what_it_needs():
    needs = ExIt.needs(ExItConfig())
    assert needs.replays == needs.full_context == "algorithm=exit" and needs.samples_per_task == 2
    assert (
        not needs.demonstrations and ExIt.needs(ExItConfig(restarts=RestartsConfig(source=Source.BOTH))).demonstrations
    )
    assert ExIt.needs(ExItConfig(restarts=RestartsConfig(share=0.0))) == GRPO.needs(GRPOConfig())
