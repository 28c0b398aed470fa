"""Success with n and interval; what failed outside the agent is counted apart."""

import json
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.eval.intervals import wilson
from agentgym_rl.eval.score import score
from agentgym_rl.rollout.counted import Count, check_counted


def episode(ending=Ending.TERMINATED, success=False, turns=2, task=1):
    turn = Turn(response="", action="", observation="", reward=0.0, invalid=False)
    return Episode(
        env="counter",
        item_id=f"counter_{task}",
        ending=ending,
        reward=float(success),
        success=success,
        max_turns=5,
        turns=[turn] * turns,
    )


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        # Newcombe (1998), table I, score method without continuity correction.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (10, 10, 0.7225, 1.0),
    ],
)
def test_wilson_against_published_values(successes, n, low, high):
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(0, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_proportion_and_is_symmetric(counts):
    successes, n = counts
    low, high = wilson(successes, n)
    assert 0.0 <= low < high <= 1.0
    if n:
        assert low <= successes / n + 1e-12 and successes / n <= high + 1e-12
    assert wilson(n - successes, n) == pytest.approx((1 - high, 1 - low), abs=1e-12)
    wider, narrower = high - low, wilson(4 * successes, 4 * n)
    assert n == 0 or narrower[1] - narrower[0] < wider


@pytest.mark.parametrize(("successes", "n"), [(-1, 3), (4, 3), (1, 0)])
def test_impossible_counts(successes, n):
    with pytest.raises(ValueError, match="impossible"):
        wilson(successes, n)


def test_failed_episodes_enter_only_the_error_rate():
    played = [
        episode(Ending.TERMINATED, True, 3, task=1),
        episode(Ending.TURN_LIMIT, turns=5, task=2),
        episode(Ending.CONTEXT_LIMIT, task=3),
    ]
    failed = [episode(ending, turns=0) for ending in (Ending.ENV_ERROR, Ending.TIMEOUT, Ending.ABORTED)]
    clean, mixed = score(played, "a"), score([*played, *failed], "a")
    assert (clean.success, clean.n, clean.reward, clean.turns) == pytest.approx((1 / 3, 3, 1 / 3, 10 / 3))
    assert clean.ci95 == wilson(1, 3)
    assert (clean.error_rate, mixed.error_rate) == (0.0, 0.5)
    assert (clean.by_task, mixed.by_task) == ((1.0, 0.0, 0.0), (1.0, 0.0, 0.0))
    assert {**mixed.to_dict(), "error_rate": 0.0} == clean.to_dict()
    assert json.loads(json.dumps(mixed.to_dict())) == mixed.to_dict()


def test_a_task_without_an_episode_that_counts_keeps_its_place():
    failed = [episode(Ending.TIMEOUT, task=task) for task in (0, 1)]
    assert score([episode(Ending.TERMINATED, True, task=1), *failed], "a").by_task == (None, 1.0)


@pytest.mark.parametrize(("episodes", "errors"), [([], None), ([episode(Ending.TIMEOUT)], 1.0)])
def test_without_an_episode_that_counts_there_is_no_figure(episodes, errors):
    empty = score(episodes, "a")
    assert (empty.success, empty.ci95, empty.reward, empty.turns) == (None, None, None, None)
    assert (empty.n, empty.tasks, empty.error_rate) == (0, 0, errors)
    assert json.loads(json.dumps(empty.to_dict()))["ci95"] is None


@given(st.lists(st.tuples(st.sampled_from(Ending), st.booleans(), st.integers(0, 3)), min_size=1), st.randoms())
def test_bounds_whatever_the_order(drawn, rng):
    episodes = [episode(ending, success, task=task) for ending, success, task in drawn]
    result = score(episodes, "a")
    assert result.n == sum(ending.counts for ending, _, _ in drawn)
    assert result.error_rate == pytest.approx(1 - result.n / len(drawn))
    if result.n:
        assert 0.0 <= result.ci95[0] <= result.success + 1e-12
        assert result.success <= result.ci95[1] + 1e-12 <= 1.0 + 1e-11
    assert score(rng.sample(episodes, len(episodes)), "a") == result


def test_a_task_weighs_the_same_however_many_of_its_episodes_count():
    uneven = [episode(success=True, task=1), *(episode(task=2, turns=4) for _ in range(3)), episode(Ending.TIMEOUT)]
    scored = score(uneven, "a")
    assert (scored.success, scored.reward, scored.turns, scored.n, scored.tasks) == (0.5, 0.5, 3, 4, 2)
    assert scored.ci95 == wilson(1, 2), "two tasks, not four episodes"


def learner(rng, tasks, samples):
    """Episodes of an agent that solves some tasks nearly always and others hardly ever."""
    rates = [rng.betavariate(0.5, 0.5) for _ in range(tasks)]
    return [episode(success=rng.random() < rate, task=task) for task, rate in enumerate(rates) for _ in range(samples)]


@pytest.mark.parametrize("samples", [1, 2, 4])
def test_the_interval_holds_the_truth_as_often_as_it_says(samples):
    rng, runs = Random(f"{samples}"), 250
    scores = [score(learner(rng, 40, samples), f"{run}") for run in range(runs)]
    assert 0.92 <= fmean(score.ci95[0] <= 0.5 <= score.ci95[1] for score in scores) <= 0.98


def test_a_part_that_lacks_episodes_is_named_however_many_the_whole_has():
    parts = {"maze": Count(1000, 1000), "textcraft": Count(1, 8, "EnvTimeout: slow"), "babyai": Count(0, 2)}
    says = r"only 1 of 8 episodes of textcraft and 0 of 2 episodes of babyai count \(run.x=0.5\); .*: EnvTimeout: slow"
    with pytest.raises(EnvUnavailable, match=says):
        check_counted(parts, 0.5, "run.x")
    check_counted({"maze": Count(1000, 1000), "textcraft": Count(4, 8, "slow")}, 0.5)


@pytest.mark.parametrize("parts", [{}, {"maze": Count(0, 0)}, {"maze": Count(0, 3)}])
def test_one_episode_must_count_in_any_case(parts):
    with pytest.raises(EnvUnavailable, match=r"only 0 of \d episodes of (maze|any environment) count"):
        check_counted(parts, 0)


def test_episodes_that_did_not_come_back_do_not_count():
    back = [episode(), episode(Ending.TIMEOUT)]
    back[1].error = "EnvTimeout: slow"
    assert Count.of(back, asked=4) == Count(1, 4, "EnvTimeout: slow")
