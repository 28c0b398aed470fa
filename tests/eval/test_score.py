"""Success with n and interval; what failed outside the agent is counted apart."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.eval.intervals import wilson
from agentgym_rl.eval.score import score


def episode(ending, success=False, turns=2):
    turn = Turn(response="", action="", observation="", reward=0.0, invalid=False)
    return Episode(
        env="counter",
        item_id="counter_1",
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
    played = [episode(Ending.TERMINATED, True, 3), episode(Ending.TURN_LIMIT, turns=5), episode(Ending.CONTEXT_LIMIT)]
    failed = [episode(ending, turns=0) for ending in (Ending.ENV_ERROR, Ending.TIMEOUT, Ending.ABORTED)]
    clean, mixed = score(played), score([*played, *failed])
    assert (clean.success, clean.n, clean.reward, clean.turns) == pytest.approx((1 / 3, 3, 1 / 3, 10 / 3))
    assert clean.ci95 == wilson(1, 3)
    assert (clean.error_rate, mixed.error_rate) == (0.0, 0.5)
    assert {**mixed.to_dict(), "error_rate": 0.0} == clean.to_dict()
    assert json.loads(json.dumps(mixed.to_dict())) == mixed.to_dict()


@pytest.mark.parametrize(("episodes", "errors"), [([], 0.0), ([episode(Ending.TIMEOUT)], 1.0)])
def test_nothing_that_counts(episodes, errors):
    empty = score(episodes)
    assert (empty.n, empty.success, empty.ci95, empty.error_rate) == (0, 0.0, (0.0, 1.0), errors)


@given(st.lists(st.tuples(st.sampled_from(Ending), st.booleans())))
def test_bounds(drawn):
    result = score([episode(ending, success) for ending, success in drawn])
    assert 0.0 <= result.ci95[0] <= result.success + 1e-12 and result.success <= result.ci95[1] + 1e-12 <= 1.0 + 1e-11
    assert 0.0 <= result.error_rate <= 1.0
    assert result.n == pytest.approx(len(drawn) * (1 - result.error_rate)) or not drawn
