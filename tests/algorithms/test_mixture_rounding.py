"""Whole numbers of tasks and samples: exact sums, and nobody starves."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.mixture.rounding import allot, counts, phase

SHARES = st.lists(st.floats(0.001, 1), min_size=1, max_size=6).map(
    lambda parts: {f"world{index}": part / sum(parts) for index, part in enumerate(parts)}
)


@given(shares=SHARES, n=st.integers(0, 200), phase=st.floats(0, 1, exclude_max=True))
def test_counts_round_up_or_down_and_sum_to_n(shares, n, phase):
    numbers = counts(shares, n, phase)
    assert sum(numbers.values()) == n
    assert all(numbers[env] >= 0 and abs(numbers[env] - n * share) < 1 + 1e-9 for env, share in shares.items())


@given(shares=SHARES, n=st.integers(1, 20), seed=st.integers(), start=st.integers(0, 10**6))
def test_over_steps_every_world_gets_its_share(shares, n, seed, start):
    steps = 300
    got = dict.fromkeys(shares, 0)
    for step in range(start, start + steps):
        for env, count in counts(shares, n, phase(seed, step)).items():
            got[env] += count
    for env, share in shares.items():
        assert abs(got[env] - steps * n * share) < 8  # independent phases would stray by about sqrt(300) / 2


@pytest.mark.parametrize("seed", range(5))
def test_a_small_share_has_its_turn_in_time(seed):
    shares = {"large": 0.96, "small": 0.04}
    turns = [step for step in range(1000) if counts(shares, 2, phase(seed, step))["small"]]
    assert max(later - earlier for earlier, later in pairwise(turns)) <= 2 / (2 * 0.04)
    assert turns[0] <= 2 / (2 * 0.04)


def test_whole_numbers_stay():
    shares = {"textcraft": 0.5, "babyai": 0.25, "counter": 0.25}
    assert {tuple(counts(shares, 8, phase(0, step)).values()) for step in range(50)} == {(4, 2, 2)}


@given(
    weights=st.lists(st.integers(1, 100), min_size=1, max_size=30),
    low=st.integers(1, 3),
    room=st.integers(0, 6),
    data=st.data(),
)
def test_allotted_samples(weights, low, room, data):
    high = low + room
    total = data.draw(st.integers(low * len(weights), high * len(weights)))
    numbers = allot(weights, total, low, high)
    assert sum(numbers) == total
    assert all(low <= number <= high for number in numbers)
    ordered = sorted(zip(weights, numbers, strict=True))
    for (lighter, fewer), (heavier, more) in pairwise(ordered):
        assert fewer <= more or lighter == heavier  # more weight never means fewer samples


def test_equal_weights_share_alike_and_others_in_proportion():
    assert allot([0.3] * 5, 20, 1, 100) == [4] * 5
    assert allot([0.1, 0.2, 0.5], 80, 1, 100) == [10, 20, 50]
    assert allot([0.1, 0.2, 0.5], 80, 1, 40) == [13, 27, 40]
    assert allot([], 0, 1, 4) == []


def test_impossible_limits():
    with pytest.raises(ValueError, match="9 samples do not go into 2 tasks with 1 to 4 each"):
        allot([1.0, 1.0], 9, 1, 4)
