"""The interval over seeds and tasks holds what it should hold as often as it says."""

from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from agentgym_rl.eval.crossed import SEEDS_ALONE, TaskVariance, crossed, crossed_p, holm, most_shared, task_variance
from agentgym_rl.eval.intervals import wilson

VALUES = st.lists(st.floats(-1, 1).map(lambda value: round(value, 3)), min_size=2, max_size=8)


def test_students_interval_by_hand():
    # mean 20, standard deviation 10, three values: 20 +- 4.3027 * 10 / sqrt(3)
    assert crossed([10.0, 20.0, 30.0], SEEDS_ALONE) == pytest.approx((-4.841, 44.841), abs=1e-3)
    assert crossed([0.5, 0.5], SEEDS_ALONE) == (0.5, 0.5)
    with pytest.raises(ValueError, match="over 1 values"):
        crossed([0.5], TaskVariance(0.1))


@pytest.mark.parametrize(
    ("df", "t"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (5, 2.5706), (9, 2.2622), (30, 2.0423), (120, 1.9799)],
)
def test_it_has_the_quantiles_of_the_printed_table(df, t):
    values = [float(place % 2) for place in range(df + 1)]
    low, high = crossed(values, SEEDS_ALONE)
    assert (high - low) / 2 == pytest.approx(t * stdev(values) / (df + 1) ** 0.5, abs=5e-5)


def test_tasks_widen_what_seeds_leave_narrow():
    # seeds alike: the variance of tasks alone, with as many degrees of freedom as there can be
    assert crossed([0.3, 0.3, 0.3], TaskVariance(0.01)) == pytest.approx((0.3 - 0.195996, 0.3 + 0.195996), abs=1e-5)
    # seeds 1/300 and tasks 1/300: (2/300)^2 / ((1/300)^2 / 2) = 8 degrees of freedom, 2.306 * sqrt(2/300) = 0.18828;
    # Student's over seeds alone is 4.3027 * sqrt(1/300) = 0.24842 and wider
    assert crossed([0.2, 0.3, 0.4], TaskVariance(1 / 300)) == pytest.approx((0.3 - 0.248414, 0.3 + 0.248414), abs=1e-5)
    # tasks 1/30: (11/300)^2 / ((1/300)^2 / 2) = 242, 1.9698 * sqrt(11/300) = 0.37720
    assert crossed([0.2, 0.3, 0.4], TaskVariance(1 / 30)) == pytest.approx((0.3 - 0.377196, 0.3 + 0.377196), abs=1e-5)


def test_the_variance_of_tasks_by_hand():
    # means of tasks 0.5, 1, 0: S * var = 2 * 0.25; rest is +-0.25 on the first task: 4 cells +-(1/6, 1/12) ...
    table = [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    of_rest = (2 * (1 / 3) ** 2 + 4 * (1 / 6) ** 2) / 2
    assert task_variance(table).shared == pytest.approx((2 * 0.25 - of_rest) / 6)
    assert task_variance(table).chance == pytest.approx(of_rest / 6)
    assert task_variance([[1.0, None, 1.0, 0.0], [0.0, 0.5, 1.0, 0.0]]) == task_variance(table), "of tasks of both"
    # means of tasks and seeds 0.5, four cells +-0.5 from it: 1 on one degree of freedom, of four cells
    assert task_variance([[1.0, 0.0], [0.0, 1.0]]) == TaskVariance(0.0, 0.25), "tasks are alike, chance is not"
    assert most_shared(0.5, 100) == 0.0025


@given(st.lists(st.booleans(), min_size=5, max_size=20).filter(lambda solved: len({*solved}) > 1), st.integers(2, 6))
def test_tasks_that_every_seed_solves_alike_add_the_most(solved, seeds):
    row = [float(success) for success in solved]
    bound = most_shared(fmean(row), len(row)) * len(row) / (len(row) - 1)
    assert task_variance([row] * seeds).shared == pytest.approx(bound, abs=1e-12)


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_outcomes_that_are_all_equal_have_wilsons_interval(outcome):
    tasks = task_variance([[outcome] * 100] * 3)
    low, high = crossed([outcome] * 3, tasks)
    bound = wilson(0, 100)[1]
    assert (low, high) == pytest.approx((outcome - bound, outcome + bound), abs=1e-6)
    assert tasks.shared == most_shared(outcome, 100)
    assert crossed_p([0.0] * 3, tasks) == 1.0


def test_two_seeds_that_agree_by_chance_show_nothing():
    """Each gains another of ten tasks, so that neither seeds nor tasks seem to differ."""
    table = [[1.0] + [0.0] * 9, [0.0, 1.0] + [0.0] * 8]
    tasks = task_variance(table)
    assert tasks.shared == 0.0 and tasks.chance > 0.0
    low, high = crossed([0.1, 0.1], tasks)
    assert high - low > 0.1 and crossed_p([0.1, 0.1], tasks) > 1e-3


@given(VALUES, st.builds(TaskVariance, st.floats(0, 0.1), st.floats(0, 0.1)))
def test_p_is_below_5_percent_where_the_interval_excludes_0(by_seed, tasks):
    low, high = crossed(by_seed, tasks)
    if min(abs(low), abs(high)) > 1e-6:
        assert (crossed_p(by_seed, tasks) < 0.05) == (not low <= 0 <= high)


def test_p_of_what_does_not_vary():
    assert crossed_p([0.0, 0.0], SEEDS_ALONE) == crossed_p([0.1, -0.1], SEEDS_ALONE) == 1.0
    assert crossed_p([0.1, 0.1], SEEDS_ALONE) == 0.0


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.6]) == [1.0, 1.0] and holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_lowers_nothing(p_values):
    corrected = holm(p_values)
    assert all(p <= mine <= 1 for p, mine in zip(p_values, corrected, strict=True))
    pairs = sorted(zip(p_values, corrected, strict=True))
    assert [mine for _, mine in pairs] == sorted(corrected)


def coverage(seeds, tasks, of_seeds, of_tasks, paired, draws, rng, middle=-0.5):
    """Share of intervals that hold the true mean, of success or of a difference, over new seeds and tasks.

    A seed solves a task with probability ``Phi(middle + seed + task + both)``, all normal; in the other arm 0.3 more,
    and seeds and tasks are partly others.

    Args:
        of_seeds, of_tasks: standard deviations.
    """

    def arm(mean, seed, task):
        both = rng.normal(0, 0.3, (draws, seeds, tasks))
        return (rng.random(both.shape) < norm.cdf(mean + seed + task + both)).astype(float)

    seed, task = rng.normal(0, of_seeds, (draws, seeds, 1)), rng.normal(0, of_tasks, (draws, 1, tasks))
    values, true = arm(middle, seed, task), norm.cdf(middle / (1 + of_seeds**2 + of_tasks**2 + 0.09) ** 0.5)
    if paired:
        seed = 0.7 * (seed + rng.normal(0, of_seeds, seed.shape))
        task = task + 0.4 * rng.normal(0, of_tasks, task.shape)
        values = arm(middle + 0.3, seed, task) - values
        true = norm.cdf((middle + 0.3) / (1 + 0.98 * of_seeds**2 + 1.16 * of_tasks**2 + 0.09) ** 0.5) - true
    held = 0
    for table in values:
        low, high = crossed(table.mean(axis=1).tolist(), task_variance(table.tolist()))
        held += low <= true <= high
    return held / draws


CASES = [
    (seeds, tasks, of_seeds, of_tasks, paired)
    for seeds, tasks in ((3, 100), (3, 400), (5, 100), (5, 400), (10, 100), (10, 200))
    for of_seeds in (0.0, 0.1, 0.3)
    for of_tasks in (0.2, 1.0)
    for paired in (False, True)
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_interval_holds_the_mean_as_often_as_it_says(case):
    assert 0.93 <= coverage(*case, draws=2000, rng=np.random.default_rng(0)) <= 0.97


@pytest.mark.parametrize(("middle", "paired"), [(-0.5, False), (-0.5, True), (-2.2, False)])
@pytest.mark.parametrize("seeds", [2, 3])
def test_few_seeds_on_few_tasks_are_not_surer_than_they_say(seeds, middle, paired):
    """Also where success is so rare that often no task is solved."""
    held = coverage(seeds, 20, 0.1, 0.2, paired, draws=400, rng=np.random.default_rng(0), middle=middle)
    assert 0.93 <= held <= (0.99 if middle == -0.5 else 1.0)


@pytest.mark.parametrize("paired", [False, True])
def test_the_intervals_of_a_few_cases_hold_the_mean(paired):
    """Over the cases of 100 tasks together, as few draws of each would say little."""
    rng = np.random.default_rng(0)
    shares = [coverage(*case, draws=60, rng=rng) for case in CASES if case[1] == 100 and case[-1] == paired]
    assert 0.93 <= fmean(shares) <= 0.97
