"""Curated groups: pool, turn limits, turns of high entropy, importance weights."""

import asyncio
import json
import random
from dataclasses import replace
from math import exp

import pytest
from corridor import LENGTH
from hypothesis import given
from hypothesis import strategies as st
from test_exit import ScriptedRun, episodes_of

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.dart import DART, DARTConfig, ratios
from agentgym_rl.algorithms.groups import GroupsConfig
from agentgym_rl.algorithms.grpo import GRPO, GRPOConfig, relative
from agentgym_rl.algorithms.losses.vanilla import VanillaConfig
from agentgym_rl.algorithms.pool import POOLED, Pool, PoolConfig, When
from agentgym_rl.algorithms.restarts import Source
from agentgym_rl.algorithms.rows import PerToken
from agentgym_rl.algorithms.task_limits import LimitConfig, Limits, Played
from agentgym_rl.algorithms.turn_selection import By, EntropyConfig, sampled, selected, threshold
from agentgym_rl.rollout.supervised import Example

KEYS = {"tasks_per_step": 4, "mini_batch_tasks": 4, "lr": 0.1, "steps": 9}


class TokenRun(ScriptedRun):
    """A run that draws the same tasks in each step, and has the tokens of its rollouts."""

    present = -1.0
    """Log-probability of every token."""

    def __init__(self, **keys):
        super().__init__(**keys)
        self.step = 0

    def requests(self, number):
        self.step = number + 1
        return self.drawn(0)

    def rollouts(self, requests, label):
        self.asked.append(requests)
        self.met.append(asyncio.run(ScriptedRun.rollouts(self, self.step, requests)))
        return [tokenized(rollout) for group in self.met[-1] for rollout in group]

    def score(self, rows, *, name, entropy=False, read):
        """Late tokens have the most entropy, though they look the surest."""
        assert read
        streams = []
        for row in rows:
            width = len(row.tokens.input_ids)
            scores = {name: PerToken([self.present] * width)}
            streams.append(scores | ({f"{name}_entropy": PerToken(range(width))} if entropy else {}))
        return [replace(row, streams={**row.streams, **scores}) for row, scores in zip(rows, streams, strict=True)]

    def observe(self, rollouts): ...


def tokenized(rollout):
    """With two tokens before the first response, three a response and one an observation, and surer late turns."""
    turns = rollout.episode.turns
    for number, turn in enumerate(turns):
        turn.tokens, turn.log_prob = (4 * number, 4 * number + 3), -3.0 / (1 + number)
    weights = [0.0, 0.0, *[1.0, 1.0, 1.0, 0.0] * len(turns)]
    return replace(rollout, key=rollout.kept[0], kept=(), segments=[Example([7] * len(weights), weights, 2)])


def dart(pool=None, limit=None, entropy=None, **keys):
    return DART(
        DARTConfig(
            name="dart", pool=PoolConfig(**(pool or {"size": 0})), limit=LimitConfig(**(limit or {"slack": None})),
            entropy=EntropyConfig(**(entropy or {"keep": 1.0})), **KEYS, **keys,
        )
    )  # fmt: skip


def group_of(*rewards, name="g", **keys):
    return [
        tokenized(Rollout(episode=episode, group=name, kept=[f"{name}:{at}"]))
        for at, episode in enumerate(episodes_of(*rewards, **keys))
    ]


REQUEST = ScriptedRun(limit=7).drawn(0)[0]


# limits


@pytest.mark.parametrize("off", [{}, {"limit": {"after": 10_000}}, {"limit": {"probe": 1}}])
def test_with_all_off_it_is_grpo_draw_for_draw_and_bit_for_bit(off):
    """Limits that no task reaches, or that every group probes, change nothing either."""
    runs = [ScriptedRun(), ScriptedRun()]
    ours, theirs = dart(**off), GRPO(GRPOConfig(**KEYS))
    for number in range(3):
        metrics = [each.unit(run, number) for each, run in zip((ours, theirs), runs, strict=True)]
        assert {key: value for key, value in metrics[0].items() if not key.startswith("dart/")} == metrics[1]
    assert runs[0].asked == runs[1].asked and repr(runs[0].learned) == repr(runs[1].learned)


def test_its_own_defaults_are_those_of_grpo():
    ours, theirs = vars(DARTConfig()), vars(GRPOConfig())
    assert {key: ours[key] for key in theirs} == theirs


@pytest.mark.parametrize("part", [{"pool": {"size": 1}}, {"entropy": {"keep": 0.5}}])
def test_each_part_alone_leaves_the_advantages_of_grpo(part):
    """An empty pool changes no row, and a selection of turns the tokens that count alone."""
    run, plain = TokenRun(), ScriptedRun()
    dart(**part).unit(run, 0)
    plain.drawn, plain.rollouts = run.drawn, lambda number, requests: ScriptedRun.rollouts(plain, 1, requests)
    GRPO(GRPOConfig(**KEYS)).unit(plain, 0)
    ours, theirs = run.learned[0][0], plain.learned[0][0]
    assert [row.streams for row in ours] == [row.streams for row in theirs]
    assert [repr(row.episode.messages) for row in ours] == [repr(row.episode.messages) for row in theirs]
    all_counted = [sum(row.segment.loss_weight) == 3 * len(row.episode.turns) for row in ours]
    assert all(all_counted) == ("pool" in part)
    assert run.learned[0][2]["mini_batch"] == 16


def test_a_step_makes_as_many_updates_as_its_groups_are_worth_each_in_an_order_of_its_own():
    """16 episodes fill an update; the number of updates is the nearest."""
    sizes, seeds = [], set()
    for tasks in (3, 4, 5, 7):
        algorithm, run = dart(pool={"size": 1}), TokenRun(tasks=tasks)
        for number in range(2):
            algorithm.unit(run, number)
        sizes.append(run.learned[0][2]["mini_batch"])
        seeds |= {passes["seed"] for *_, passes in run.learned}
    assert sizes == [12, 16, 20, 14] and len(seeds) == 2


# pool


def official(group, successes):
    """What ``filter_fn`` of verl/utils/dataset/trainable_filter.py makes of a group, the oldest first: names that
    begin with s of a success, f of a failure."""
    solved = any(name.startswith("s") for name in group)
    return group if solved or not successes else [successes[-1], *group[1:]]


def test_groups_are_those_of_the_official_rule():
    rng = random.Random(5)
    for _ in range(500):
        rewards = [rng.choice([0.0, 0.0, 0.0, 1.0]) for _ in range(rng.randint(2, 8))]
        group = group_of(*rewards)
        names = {id(each.segments): f"{'s' if each.episode.success else 'f'}{at}" for at, each in enumerate(group)}
        pool, old = Pool(PoolConfig(size=9)), group_of(*[1.0] * rng.randint(0, 3))
        for number, success in enumerate(old):
            names[id(success.segments)] = f"sold{number}"
            pool.take(success, number, [PerToken([-1.0])])
        expected = official([names[id(each.segments)] for each in group], [names[id(each.segments)] for each in old])
        assert [names[id(each.segments)] for each in pool.fill(group)] == expected


def test_a_success_stands_in_a_group_once_and_as_a_copy():
    pool, (success,) = Pool(PoolConfig(size=3, when=When.BELOW, least=3)), group_of(1.0)
    pool.take(success, 1, [PerToken([-1.0])])
    filled = [pool.fill(group_of(0.0, 0.0, 1.0, name=name)) for name in "ab"]
    assert [[POOLED in each.episode.tags for each in group] for group in filled] == [[True, False, False]] * 2
    assert [group[0].group for group in filled] == ["a", "b"]
    assert len({id(each.episode) for group in filled for each in group[:1]} | {id(success.episode)}) == 3


def test_a_success_of_another_task_or_prompt_takes_no_place():
    pool = Pool(PoolConfig())
    pool.take(group_of(1.0, task=1)[0], 1, [PerToken([-1.0])])
    (other,) = group_of(1.0)
    other.episode.messages[0]["content"] = "another first observation"
    pool.take(other, 1, [PerToken([-1.0])])
    assert not any(POOLED in each.episode.tags for each in pool.fill(group_of(0.0, 0.0)))


def test_the_newest_successes_are_kept():
    pool = Pool(PoolConfig(size=2))
    for step in range(4):
        pool.take(group_of(1.0)[0], step, [PerToken([-1.0])])
    assert [entry.step for entry in pool.kept["corridor_0"]] == [2, 3]


def test_demonstrations_stand_in_after_own_successes():
    pool, shown, successes = Pool(PoolConfig(source=Source.BOTH)), group_of(1.0), group_of(1.0)
    pool.demonstrate(shown)
    assert pool.fill(group_of(0.0, 0.0))[0].episode.tags[POOLED] == ""
    pool.take(successes[0], 2, [PerToken([-1.0])])
    assert pool.fill(group_of(0.0, 0.0))[0].episode.tags[POOLED] == "2:g:0"


def test_a_demonstration_has_the_turn_limit_of_its_group():
    """Its own is its length, at which it would be penalised as overlong."""
    pool, (shown,) = Pool(PoolConfig(source=Source.DEMONSTRATIONS)), group_of(1.0)
    shown.episode.max_turns = len(shown.episode.turns)
    pool.demonstrate([shown])
    failed = group_of(0.0, 0.0)
    assert pool.fill(failed)[0].episode.max_turns == failed[0].episode.max_turns > shown.episode.max_turns


def solved_then_failed(**keys):
    """A first step that solves all tasks, and a second that solves none."""
    algorithm, run = dart(pool={"size": 1}, **keys), TokenRun(skill=1.0)
    algorithm.unit(run, 0)
    run.skill, run.present = 0.0, -1.5
    return algorithm, run, algorithm.unit(run, 1)


def test_a_success_of_the_pool_gives_dead_groups_a_gradient_by_hand():
    _, run, metrics = solved_then_failed(importance_cap=5.0)
    rows = run.learned[1][0]
    pooled = [row for row in rows if POOLED in row.episode.tags]
    assert (metrics["dart/injected"], metrics["dart/pool"], metrics["dart/pool_age"]) == (4, 4, 1)
    assert len(rows) == 16 and len(pooled) == 4
    best, others = relative([1.0, 0.0, 0.0, 0.0], True)[:2]
    assert {row.streams["advantage"] for row in rows if row not in pooled} == {others}
    assert pooled[0].streams["advantage"] == pytest.approx([best * exp(-0.5)] * len(pooled[0].segment.input_ids))
    assert metrics["dart/importance_cut"] == 0


def test_an_episode_that_is_the_only_one_of_its_group_is_not_learned_from():
    class Lossy(TokenRun):
        def rollouts(self, requests, label):
            return super().rollouts(requests, label)[3:]

    run = Lossy()
    dart(pool={"size": 1}).unit(run, 0)
    assert len(run.learned[0][0]) == 12


def test_importance_weights_are_cut():
    algorithm, run, _ = solved_then_failed(importance_cap=0.5)
    (weight,) = {value for row in run.learned[1][0] if POOLED in row.episode.tags for value in row.streams["advantage"]}
    assert weight == pytest.approx(1.5 * 0.5, abs=1e-4), "1.5 is GRPO's advantage of one success among four"
    run.present = 0.0
    assert algorithm.unit(run, 2)["dart/importance_cut"] == 1
    assert ratios([-1.0, -2.0], [-2.0, -1.0]) == pytest.approx([exp(1), exp(-1)])
    assert ratios([-1.0], [-1e4]) == [exp(20)], "as far as losses look"


def test_demonstrations_weigh_as_the_present_policy():
    algorithm, run = dart(pool={"size": 1, "source": Source.DEMONSTRATIONS}), TokenRun(skill=0.0)
    best = TokenRun(skill=1.0)
    run.demonstrations = [each for each in best.rollouts(best.requests(0), "")][::4]
    metrics = algorithm.unit(run, 0)
    assert metrics["dart/injected"] == 4 and metrics["dart/pool"] == 0
    (advantage,) = {
        value for row in run.learned[0][0] if POOLED in row.episode.tags for value in row.streams["advantage"]
    }
    assert advantage == pytest.approx(1.5, abs=1e-4)


# turn limits


def played(*lengths, config=None):
    """Limits after groups of an episode each, a success of so many turns or a failure of 8 (None)."""
    limits = Limits(config or LimitConfig())
    for length in lengths:
        limits.observe([group_of(float(bool(length)), responses="abcdefghij"[: length or 8])])
    return limits


def test_limits_by_hand():
    lengths, config = (3, 2, 5, None, 1, None, None), LimitConfig(slack=1.5, after=2, probe=4)
    limits = [played(*lengths[:number], config=config).plan([REQUEST])[0].max_turns for number in range(7)]
    assert limits == [7, 7, 5, 7, 7, 7, 7], (
        "none yet, none yet, 1.5 x 3, the fourth, 1.5 x 5 is above, the same, a probe"
    )
    assert played(3, 3).plan([replace(REQUEST, max_turns=2)])[0].max_turns == 2, "of the curriculum"
    assert played(3, 3).plan([replace(REQUEST, max_turns=None)])[0].max_turns == 3
    assert played(3, 3, config=LimitConfig(slack=None)).plan([REQUEST]) == [REQUEST]
    assert Played(successes=2, longest=10).limit(LimitConfig(slack=1.1), 99) == 11


def test_a_task_that_is_drawn_twice_a_step_has_its_probes():
    limits = played(*[3] * 8)
    assert [request.max_turns for request in limits.plan([REQUEST, REQUEST])] == [3, 7]


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), max_size=12), st.floats(1, 3), st.integers(1, 9))
def test_limits_hold_for_all_successes_and_are_never_above_the_environments(groups, slack, full):
    longest = max((turns for group in groups for turns in group), default=0)
    limits = Limits(LimitConfig(slack=slack))
    limits.observe([group_of(*map(float, map(bool, group))) for group in groups])
    for turns in {turns for group in groups for turns in group} - {0}:
        limits.observe([group_of(1.0, responses="abcdefghi"[:turns])])
    (planned,) = limits.plan([replace(REQUEST, max_turns=full)])
    longest_played = limits.played.get("corridor_0", Played()).longest
    assert longest_played >= longest and min(full, longest_played) <= planned.max_turns <= full


def test_limits_of_solved_tasks_are_asked_for():
    algorithm, run = dart(pool={"size": 1}, limit={"slack": 1.0}), TokenRun(skill=1.0, limit=LENGTH + 4)
    for number in range(2):
        metrics = algorithm.unit(run, number)
    assert [{request.max_turns for request in requests} for requests in run.asked] == [{LENGTH + 4}, {LENGTH}]
    assert metrics["dart/limit_mean"] == LENGTH


def test_limits_alone_work_while_later_steps_are_under_way():
    algorithm, run = dart(limit={"slack": 1.0}), ScriptedRun(skill=1.0, limit=LENGTH + 4, ahead=1)
    run.drawn = lambda number: ScriptedRun.drawn(run, 0)
    metrics = [algorithm.unit(run, number)["dart/limit_mean"] for number in range(3)]
    assert metrics == [LENGTH + 4, LENGTH + 4, LENGTH], "the second step began before the first one's end"


def test_groups_that_the_filter_leaves_out_count_for_limits():
    algorithm, run = dart(limit={"slack": 1.0}, groups=GroupsConfig(filter=True)), ScriptedRun(skill=1.0)
    algorithm.unit(run, 0)
    assert run.learned[0][0] == [] and {each.successes for each in algorithm.limits.played.values()} == {4}


# turns


def test_the_quantile_by_hand():
    assert threshold([5.0, 1.0, 4.0, 2.0, 3.0], 0.8) == 2.0
    assert threshold([5.0, 1.0, 4.0, 2.0, 3.0], 1.0) == 1.0
    assert threshold([5.0, 1.0, 4.0, 2.0, 3.0], 1e-12) == 5.0
    assert threshold([], 0.8) == 0.0


def counted(group, keep):
    """Of each turn of a group, whether its tokens count."""
    rows = [row for rollout in group for row in rollout.rows({})]
    counted_rows, share = selected(group, rows, sampled(rows), keep)
    counts = [[bool(row.tokens.loss_weight[start]) for _, (start, _) in row.responses()] for row in counted_rows]
    assert share == sum(map(sum, counts)) / sum(len(rollout.episode.turns) for rollout in group)
    return counts


def test_turns_of_the_highest_entropy_count_by_hand():
    group = group_of(1.0, 0.0)
    assert counted(group, 0.5) == [[True, True, False, False]] * 2
    group[0].episode.turns[3].log_prob = -30.0
    assert counted(group, 0.25) == [[True, False, False, True], [True, False, False, False]], "equal ones all count"
    group[1].episode.turns[2].log_prob = None
    assert counted(group, 0.25)[1][2], "not known"


def test_an_episode_without_a_turn_that_counts_leaves():
    group = group_of(1.0, 0.0)
    for turn in group[1].episode.turns:
        turn.log_prob = -0.1
    assert counted(group, 0.25) == [[True, True, False, False]]


def test_turns_that_do_not_count_are_no_observations():
    (rollout,) = group_of(1.0)
    rows = rollout.rows({"observation": 0.5})
    ((row,), _) = selected([rollout], rows, sampled(rows), 0.5)
    tokens = rows[0].tokens
    behind = [0.5 * (1 - weight) for weight in tokens.loss_weight[tokens.prompt :]]
    assert tokens.prompt and [*row.of_tokens("observation")] == [0.0] * tokens.prompt + behind, "nor is the prompt"
    assert sum(row.tokens.loss_weight) == 6


@given(st.lists(st.floats(0, 9), min_size=1, max_size=30), st.floats(0.01, 1))
def test_at_least_the_share_is_kept(values, keep):
    count = sum(value >= threshold(values, keep) for value in values)
    assert count >= keep * len(values) - 1e-6


def test_turns_that_do_not_count_leave_the_mask():
    run = TokenRun()
    metrics = dart(entropy={"keep": 0.5}).unit(run, 0)
    rows = run.learned[0][0]
    counted = [sum(row.segment.loss_weight) / 3 for row in rows]
    assert metrics["dart/turns_kept"] == sum(counted) / sum(len(row.episode.turns) for row in rows) < 0.8
    assert all(row.segment.loss_weight[2:5] == [1.0, 1.0, 1.0] for row in rows), "the first turn is the least sure"


def test_exact_entropies_are_those_of_the_tokens_distributions():
    run = TokenRun()
    dart(entropy={"keep": 0.5, "by": By.EXACT}).unit(run, 0)
    for row in run.learned[0][0]:
        assert not any(row.segment.loss_weight[2:5]) and row.streams.keys() == {"advantage"}


# resuming


def test_a_resumed_run_learns_the_same():
    def full():
        return dart(pool={"size": 2}, limit={"probe": 3}, entropy={"keep": 0.8})

    first, run = full(), TokenRun(skill=0.6)
    for number in range(3):
        first.unit(run, number)
    second, other = full(), TokenRun(skill=0.6)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    run.skill = other.skill = 0.3
    for number in (3, 4):
        assert first.unit(run, number) == second.unit(other, number)
    assert run.asked[3:] == other.asked and repr(run.learned[3:]) == repr(other.learned)
    assert first.state_dict() == second.state_dict()
    assert any(POOLED in row.episode.tags for row in other.learned[0][0])


# keys


@pytest.mark.parametrize(
    ("config", "keys", "says"),
    [
        (PoolConfig, {"size": -1}, "size must be at least 0, got -1"),
        (PoolConfig, {"least": 0}, "least must be at least 1, got 0"),
        (LimitConfig, {"slack": 0.9}, "slack must be at least 1, got 0.9"),
        (LimitConfig, {"after": 0}, "after must be at least 1, got 0"),
        (LimitConfig, {"probe": 0}, "probe must be at least 1, got 0"),
        (EntropyConfig, {"keep": 0.0}, "keep must be greater than 0, got 0.0"),
        (EntropyConfig, {"keep": 1.5}, r"keep must be in \[0, 1\], got 1.5"),
        (DARTConfig, {"importance_cap": 0.0}, "importance_cap must be greater than 0, got 0.0"),
        (DARTConfig, {"loss": VanillaConfig(kl=0.1)}, "loss.kl=0.1 needs rows that stay with the engine"),
    ],
)
def test_values_that_cannot_work_are_refused(config, keys, says):
    with pytest.raises(ValueError, match=says):
        config(**keys)


def test_keys_without_an_effect():
    def unused(**keys):
        return DARTConfig(**keys).unused(off_policy=False, environments=1).keys()

    assert "pool.least" in unused() and "pool.least" not in unused(pool=PoolConfig(when=When.BELOW))
    for size, source, idle in (
        (2, Source.DEMONSTRATIONS, True),
        (1, Source.DEMONSTRATIONS, False),
        (2, Source.BOTH, False),
    ):
        assert ("pool.size" in unused(pool=PoolConfig(size=size, source=source))) is idle
    assert "entropy.by" in unused(entropy=EntropyConfig(keep=1.0)) and "entropy.by" not in unused()
    assert {"correction.kind", "groups.refills"} <= unused() and "importance_cap" not in unused()
    off = {"pool": PoolConfig(size=0), "limit": LimitConfig(slack=None), "entropy": EntropyConfig(keep=1.0)}
    of_off = {"pool.source", "pool.when", "pool.least", "limit.after", "limit.probe", "entropy.by", "importance_cap"}
    assert unused(**off) - GRPOConfig().unused(off_policy=False, environments=1).keys() == of_off


def test_what_it_needs():
    key = "algorithm.pool.size=1"
    assert DART.needs(DARTConfig()) == replace(GRPO.needs(GRPOConfig()), whole_steps=key)
    assert DART.needs(DARTConfig(pool=PoolConfig(size=0))).whole_steps == "algorithm.entropy.keep=0.8"
    assert DART.needs(dart().config) == GRPO.needs(GRPOConfig(**KEYS))
    assert DART.needs(DARTConfig(pool=PoolConfig(source=Source.BOTH))).demonstrations
