"""Student's quantiles and intervals, and the exact sign-flip test."""

from itertools import product
from math import inf, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.eval.intervals import MAX_FLIPS, Z95, sign_flip_p, student, student_quantile


@pytest.mark.parametrize(
    ("df", "t"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (5, 2.5706), (9, 2.2622), (30, 2.0423), (120, 1.9799)],
)
def test_quantiles_of_the_printed_table(df, t):
    assert student_quantile(df) == pytest.approx(t, abs=5e-5)


def test_other_levels_and_the_limit():
    assert student_quantile(1, 0.5) == pytest.approx(1.0)  # Cauchy's quartile
    assert student_quantile(2, 0.9) == pytest.approx(2.9200, abs=5e-5)
    assert student_quantile(10**5) == pytest.approx(Z95, abs=1e-4)


@pytest.mark.parametrize(("df", "level"), [(0, 0.95), (3, 0.0), (3, 1.0)])
def test_quantiles_that_do_not_exist(df, level):
    with pytest.raises(ValueError, match=f"df={df}, level={level}"):
        student_quantile(df, level)


def test_an_interval_by_hand():
    # mean 20, standard deviation 10, three values: 20 +- 4.3027 * 10 / sqrt(3)
    assert student([10.0, 20.0, 30.0]) == pytest.approx((-4.841, 44.841), abs=1e-3)
    assert student([0.5, 0.5]) == (0.5, 0.5)
    with pytest.raises(ValueError, match="over 1 values"):
        student([0.5])


def test_sign_flips_by_hand():
    assert sign_flip_p([1.0, 2.0, 3.0]) == 2 / 8
    assert sign_flip_p([1.0, 2.0, -3.0]) == 1.0  # their sum is 0
    assert sign_flip_p([3.0, 2.0, -1.0]) == 4 / 8  # 4 or more: 6, 4, -4, -6
    assert sign_flip_p([0.1, 0.2, 0.3, 0.4, 0.5]) == 2 / 32
    assert sign_flip_p([]) is None and sign_flip_p([1.0] * (MAX_FLIPS + 1)) is None


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=7))
def test_sign_flips_are_symmetric_shares_of_all_signs(differences):
    p = sign_flip_p(differences)
    assert 2 / 2 ** len(differences) <= p <= nextafter(1, inf)
    for signs in product((1, -1), repeat=len(differences)):
        if len(set(signs)) == 1:
            assert sign_flip_p([sign * value for sign, value in zip(signs, differences, strict=True)]) == p
