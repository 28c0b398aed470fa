"""Intervals and p values by drawing anew agree with what is known about them."""

from itertools import product
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.eval.intervals import sign_flip_p, wilson
from agentgym_rl.eval.resampling import EXACT, bootstrap, mcnemar, share, sign_flip

SHARES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=30)


@given(SHARES, st.text(max_size=5))
def test_a_bootstrap_is_the_seeds_and_stays_among_the_values(values, seed):
    low, high = bootstrap(values, seed, draws=200)
    assert (low, high) == bootstrap(values, seed, draws=200)
    assert min(values) <= low <= high <= max(values)


def test_a_bootstrap_is_as_wide_as_the_standard_error_says():
    values = [0.1 * (number % 11) for number in range(200)]
    spread = (sum((value - fmean(values)) ** 2 for value in values) / len(values)) ** 0.5
    low, high = bootstrap(values, "a", draws=4000)
    assert high - low == pytest.approx(2 * 1.96 * spread / len(values) ** 0.5, rel=0.1)


def test_a_bootstrap_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        bootstrap([], "a")


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_one_sample_a_task_has_wilsons_interval(values):
    assert share([float(value) for value in values], "a") == wilson(sum(values), len(values))


@given(SHARES)
def test_the_interval_of_shares_has_a_width_and_holds_the_mean(values):
    low, high = share(values, "a")
    assert 0 <= low <= fmean(values) + 1e-12 and fmean(values) - 1e-12 <= high <= 1
    assert low < high


def test_no_shares_say_nothing():
    assert share([], "a") == (0.0, 1.0)


@pytest.mark.parametrize(("better", "worse", "p"), [(0, 0, 1.0), (5, 0, 2 / 32), (1, 1, 1.0), (10, 2, 158 / 4096)])
def test_mcnemar(better, worse, p):
    assert mcnemar(better, worse) == mcnemar(worse, better) == pytest.approx(p)


@given(st.integers(0, 9), st.integers(0, 9))
def test_mcnemar_is_the_sign_test_on_pairs_that_differ(better, worse):
    differences = [1.0] * better + [-1.0] * worse
    observed = abs(sum(differences))
    every = [abs(sum(signs)) for signs in product((1, -1), repeat=len(differences))]
    assert mcnemar(better, worse) == pytest.approx(sum(total >= observed for total in every) / len(every))


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=1, max_size=8))
def test_few_differences_are_flipped_exactly(differences):
    assert sign_flip(differences, "a") == pytest.approx(sign_flip_p(differences))


def test_many_differences_are_flipped_at_random():
    balanced, lopsided = [0.5, -0.5] * EXACT, [0.5] * (2 * EXACT)
    assert sign_flip(balanced, "a") == 1.0
    assert 0 < sign_flip(lopsided, "a") < 0.001
    mixed = [0.5] * 16 + [-0.5] * 8
    assert sign_flip(mixed, "a") == sign_flip(mixed, "a") == pytest.approx(mcnemar(16, 8), abs=0.02)
