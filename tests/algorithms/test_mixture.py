"""Tasks of a step: the right shares, and the same tasks wherever a run resumes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.mixture import FixedMixture

POOLS = {"textcraft": range(1000, 1007), "babyai": range(50), "counter": [3]}
SHARES = st.fixed_dictionaries({env: st.floats(0, 10) for env in POOLS}).filter(lambda shares: sum(shares.values()) > 0)


@given(shares=SHARES, seed=st.integers(), step=st.integers(0, 10**6), n=st.integers(0, 80))
def test_counts_and_draws(shares, seed, step, n):
    mixture = FixedMixture(POOLS, shares, seed)
    counts = mixture.counts(n)
    assert sum(counts.values()) == n
    for env, share in mixture.shares.items():
        assert abs(counts[env] - share * n) < 1 + 1e-9
        assert share > 0 or counts[env] == 0
    tasks = mixture.draw(step, n)
    for env, pool in POOLS.items():
        drawn = [task.index for task in tasks if task.env == env]
        assert len(drawn) == counts[env]
        assert set(drawn) <= set(pool)
        most, least = max(drawn.count(index) for index in pool), min(drawn.count(index) for index in pool)
        assert most - least <= 1  # no task again before all others of the pool had their turn
    assert FixedMixture(POOLS, shares, seed).draw(step, n) == tasks


def test_steps_and_seeds_draw_differently():
    draws = {tuple(FixedMixture(POOLS, {"babyai": 1}, seed).draw(step, 10)) for seed in range(3) for step in range(3)}
    assert len(draws) == 9


def test_a_world_draws_the_same_tasks_whatever_is_drawn_beside_it():
    alone = FixedMixture(POOLS, {"babyai": 1}, seed=0).draw(3, 5)
    beside = FixedMixture(POOLS, {"textcraft": 1, "babyai": 1}, seed=0).draw(3, 10)
    assert [task for task in beside if task.env == "babyai"] == alone


def test_what_is_left_goes_to_the_largest_remainders():
    mixture = FixedMixture(POOLS, {"textcraft": 5, "babyai": 3, "counter": 2}, seed=0)
    assert mixture.counts(4) == {"textcraft": 2, "babyai": 1, "counter": 1}  # exactly 2.0, 1.2 and 0.8
    assert mixture.metrics() == {"env/textcraft/share": 0.5, "env/babyai/share": 0.3, "env/counter/share": 0.2}


@pytest.mark.parametrize("shares", [{"babyai": -1.0, "counter": 2.0}, {"babyai": 0.0, "counter": 0.0}, {}])
def test_bad_shares(shares):
    with pytest.raises(ValueError, match="shares must not be negative and not all 0"):
        FixedMixture(POOLS, shares, seed=0)


@pytest.mark.parametrize("pools", [{"babyai": []}, {}])
def test_a_share_without_tasks_is_refused(pools):
    with pytest.raises(ValueError, match="no training tasks for babyai"):
        FixedMixture({"counter": [3], **pools}, {"babyai": 1.0, "counter": 1.0}, seed=0)
    idle = FixedMixture({"counter": [3], **pools}, {"babyai": 0.0, "counter": 1.0}, seed=0)
    assert {task.env for task in idle.draw(0, 5)} == {"counter"}
