"""Figures over tasks, estimators of pass@k and pass^k, the mean over envs."""

from itertools import combinations
from math import sqrt
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.eval.evaluation.scores import Measure, Outcome, Score, ks, macro, pass_at_k, pass_hat_k, passes, score
from agentgym_rl.eval.intervals import wilson


def outcome(*successes, item_id="maze_1", difficulty="easy"):
    rewards = tuple(None if success is None else float(success) for success in successes)
    turns = tuple(None if success is None else 2 + success for success in successes)
    return Outcome(item_id, difficulty, tuple(successes), rewards, turns)


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_pass_estimators_are_averages_over_all_choices_of_k(successes, data):
    k = data.draw(st.integers(1, len(successes)))
    choices = list(combinations(successes, k))
    n, c = len(successes), sum(successes)
    assert pass_at_k(n, c, k) == pytest.approx(fmean(any(choice) for choice in choices))
    assert pass_hat_k(n, c, k) == pytest.approx(fmean(all(choice) for choice in choices))


@pytest.mark.parametrize(("samples", "expected"), [(1, [1]), (2, [1, 2]), (4, [1, 2, 4]), (6, [1, 2, 4, 6])])
def test_ks(samples, expected):
    assert ks(samples) == expected


def test_one_sample_a_task():
    scored = score([outcome(True), outcome(False), outcome(False), outcome(None)], "a")
    assert scored.success == Measure(pytest.approx(1 / 3), wilson(1, 3), 3)
    assert scored.reward == scored.success
    assert (scored.turns.value, scored.turns.n) == (pytest.approx(7 / 3), 3)
    assert scored.error_rate == Measure(0.25, wilson(1, 4), 4)
    assert (scored.tasks, scored.episodes) == (4, 3)


def test_a_task_weighs_the_same_however_many_of_its_samples_count():
    scored = score([outcome(True, None, None, None), outcome(False, False, False, True)], "a")
    assert scored.success.value == pytest.approx((1 + 0.25) / 2)
    assert scored.error_rate.value == pytest.approx(0.375)
    assert scored.episodes == 5


def test_where_nothing_counts_there_is_no_success():
    scored = score([outcome(None), outcome(None)], "a")
    assert scored.success is scored.reward is scored.turns is None
    assert scored.error_rate.value == 1.0


def test_passes_leave_out_tasks_with_too_few_episodes():
    outcomes = [outcome(True, False, False, True), outcome(False, False, None, None)]
    pass_rates = passes(outcomes, 4, "a")
    assert [(k, measure.n) for k, measure in pass_rates["pass@k"].items()] == [(1, 2), (2, 2), (4, 1)]
    assert pass_rates["pass@k"][2].value == pytest.approx((5 / 6 + 0) / 2)
    assert pass_rates["pass^k"][2].value == pytest.approx((1 / 6 + 0) / 2)
    assert pass_rates["pass@k"][1].value == pass_rates["pass^k"][1].value == pytest.approx(0.25)


def test_the_mean_over_worlds_weighs_them_the_same():
    def env(value, low, high, tasks):
        measure = Measure(value, (low, high), tasks)
        return Score(measure, measure, measure, Measure(0.0, (0.0, 0.1), tasks), tasks, tasks)

    mean = macro([env(0.2, 0.1, 0.4, 10), env(0.8, 0.7, 0.9, 1000)])
    assert mean.success.value == pytest.approx(0.5)
    assert mean.success.ci95 == pytest.approx((0.5 - sqrt(0.02) / 2, 0.5 + sqrt(0.05) / 2))
    assert (mean.success.n, mean.tasks) == (2, 1010)


def test_a_mean_over_environments_is_over_all_of_them_or_absent():
    solved, empty = score([outcome(True), outcome(True)], "a"), score([outcome(None)], "a")
    mean = macro([solved, empty])
    assert mean.success is mean.reward is mean.turns is None, "100% of one environment is no mean of two"
    assert (mean.error_rate.value, mean.error_rate.n, mean.tasks) == (0.5, 2, 3)


def test_an_outcome_of_episodes():
    def episode(ending, success):
        turn = Turn(response="", action="", observation="", reward=float(success), invalid=False)
        return Episode(
            env="maze",
            item_id="maze_1",
            ending=ending,
            reward=float(success),
            success=success,
            max_turns=9,
            turns=[turn],
        )

    summary = Outcome.of("maze_1", "easy", [episode(Ending.TERMINATED, True), episode(Ending.TIMEOUT, False)])
    assert (summary.success, summary.reward, summary.turns) == ((True, None), (1.0, None), (1, None))
    assert (summary.env, summary.mean, summary.counted) == ("maze", 1.0, [True])
