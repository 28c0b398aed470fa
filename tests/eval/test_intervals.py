"""Intervals and p values agree with what is known about them."""

import subprocess
import sys
from itertools import product
from math import nextafter
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.envs.core import MissingExtra
from agentgym_rl.eval.intervals import EXACT, bootstrap, mcnemar_p, share_interval, sign_flip_p, wilson

SHARES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=30)


def test_sign_flips_by_hand():
    assert sign_flip_p([1.0, 2.0, 3.0]) == 2 / 8
    assert sign_flip_p([1.0, 2.0, -3.0]) == 1.0  # their sum is 0
    assert sign_flip_p([0.1, 0.2, -0.3]) == 1.0  # 0 but for rounding
    assert sign_flip_p([3.0, 2.0, -1.0]) == 4 / 8  # 4 or more: 6, 4, -4, -6
    assert sign_flip_p([0.1, 0.2, 0.3, 0.4, 0.5]) == 2 / 32
    assert sign_flip_p([]) == sign_flip_p([0.0, 0.0]) == sign_flip_p([0.5]) == 1.0


@given(st.lists(st.integers(-100, 100).map(lambda percent: percent / 100), min_size=1, max_size=6))
def test_few_differences_are_flipped_exactly(differences):
    observed = abs(round(sum(differences), 9))
    flips = product((1, -1), repeat=len(differences))
    sums = [abs(sum(sign * value for sign, value in zip(signs, differences, strict=True))) for signs in flips]
    p = sign_flip_p(differences)
    assert p == pytest.approx(sum(round(total, 9) >= observed for total in sums) / len(sums))
    assert p == pytest.approx(sign_flip_p([-value for value in differences]))
    assert 2 / 2 ** len(differences) <= p <= nextafter(1, 2)


def test_many_differences_are_flipped_at_random():
    balanced, lopsided = [0.5, -0.5] * EXACT, [0.5] * (2 * EXACT)
    assert sign_flip_p(balanced, "a") == 1.0
    assert 0 < sign_flip_p(lopsided, "a") < 0.001
    mixed = [0.5] * 16 + [-0.5] * 8
    assert sign_flip_p(mixed, "a") == sign_flip_p(mixed, "a") == pytest.approx(mcnemar_p(16, 8), abs=0.02)


@given(SHARES, st.text(max_size=5))
def test_a_bootstrap_depends_on_its_seed_only_and_stays_among_the_values(values, seed):
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
def test_one_sample_per_task_has_wilsons_interval(values):
    assert share_interval([float(value) for value in values], "a") == wilson(sum(values), len(values))


@given(SHARES)
def test_the_interval_of_shares_has_a_width_and_holds_the_mean(values):
    low, high = share_interval(values, "a")
    assert 0 <= low <= fmean(values) + 1e-12 and fmean(values) - 1e-12 <= high <= 1
    assert low < high


@pytest.mark.parametrize("reward", [-1.0, -0.1, 10.0])
def test_equal_rewards_beyond_a_share_are_their_own_interval(reward):
    assert share_interval([reward] * 3, "a") == (reward, reward)
    rounded = nextafter(1.0, 2.0)
    assert share_interval([rounded] * 3, "a") == wilson(3, 3)


def test_no_shares_say_nothing():
    assert share_interval([], "a") == (0.0, 1.0)


@pytest.mark.parametrize(("better", "worse", "p"), [(0, 0, 1.0), (5, 0, 2 / 32), (1, 1, 1.0), (10, 2, 158 / 4096)])
def test_mcnemar(better, worse, p):
    assert mcnemar_p(better, worse) == mcnemar_p(worse, better) == pytest.approx(p)


@given(st.integers(0, 9), st.integers(0, 9))
def test_mcnemar_is_the_sign_test_on_pairs_that_differ(better, worse):
    differences = [1.0] * better + [-1.0] * worse
    observed = abs(sum(differences))
    totals = [abs(sum(signs)) for signs in product((1, -1), repeat=len(differences))]
    assert mcnemar_p(better, worse) == pytest.approx(sum(total >= observed for total in totals) / len(totals))


def test_scores_are_imported_without_scipy():
    code = "import sys, agentgym_rl.eval.score, agentgym_rl.eval.comparison.compare; print('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_without_scipy_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtra, match=r"agentgym-rl\[eval\]"):
        wilson(1, 2)
