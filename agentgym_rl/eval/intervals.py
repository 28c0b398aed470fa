"""Intervals and p values of success rates, computed by scipy.

scipy is imported when a function is called: reading scores and listing commands must not wait for it.
"""

from collections.abc import Sequence
from typing import Any

from agentgym_rl.envs.extras import needs

DRAWS = 1000
"""Resamples of a bootstrap."""
EXACT = 16
"""Most differences other than 0 whose signs are flipped in every combination (2^16 sums)."""
FLIPS = 9_999
"""Random choices of signs beyond that."""

Interval = tuple[float, float]


def stats() -> Any:
    """``scipy.stats``, asked for before there is anything to compute.

    Raises:
        MissingExtra: scipy is not installed.
    """
    with needs("an interval", "eval"):
        from scipy import stats as found
    return found


def wilson(successes: int, n: int) -> Interval:
    """Wilson's 95% score interval of a proportion (Wilson 1927); (0, 1) when ``n`` is 0.

    Raises:
        ValueError: ``successes`` is not between 0 and ``n``.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} is impossible")
    if n == 0:
        return 0.0, 1.0
    low, high = stats().binomtest(successes, n).proportion_ci(method="wilson")
    return float(low), float(high)


def bootstrap(values: Sequence[float], seed: str, draws: int = DRAWS) -> Interval:
    """Percentile bootstrap 95% interval of a mean (Efron 1979): tasks are drawn with replacement.

    Args:
        values: one per task.
        seed: equal seeds draw the same tasks.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("a bootstrap needs at least one value")
    if len(set(values)) == 1:
        return values[0], values[0]
    result = stats().bootstrap(
        (values,),
        lambda drawn, axis: drawn.mean(axis=axis),
        n_resamples=draws,
        confidence_level=0.95,
        method="percentile",
        rng=_number(seed),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def share_interval(values: Sequence[float], seed: str) -> Interval:
    """95% interval of a mean over tasks of shares, or of rewards, which a faulty environment gives beyond [0, 1].

    Wilson's where every share is 0 or 1 (one sample per task), else the bootstrap over tasks. The bootstrap of equal
    values has no width, so equal shares also get Wilson's interval, of the nearest count. (0, 1) without values.
    """
    if not values:
        return 0.0, 1.0
    one_share = len(set(values)) == 1 and 0 <= round(values[0], 9) <= 1
    if one_share or all(value in (0, 1) for value in values):
        return wilson(round(sum(values)), len(values))
    return bootstrap(values, seed)


def mcnemar_p(better: int, worse: int) -> float:
    """Two-sided exact p value of McNemar's test (1947): of the pairs that differ, is either direction likelier?

    Args:
        better: pairs in which only the second succeeds.
        worse: pairs in which only the first succeeds.
    """
    return float(stats().binomtest(better, better + worse).pvalue) if better + worse else 1.0


def sign_flip_p(differences: Sequence[float], seed: str = "") -> float:
    """Two-sided p value of a mean of paired differences: their signs are flipped (Fisher 1935).

    Exact for at most ``EXACT`` differences other than 0; for n pairs of one sign it is 2 / 2^n, 0.25 for three. Beyond
    ``EXACT`` it is the share of ``FLIPS`` seeded choices of signs, with the observed one added, so that it is never 0
    (Phipson and Smyth 2010).
    """
    moved = [value for value in differences if value]
    if len(moved) < 2:
        return 1.0
    resamples = 2 ** len(moved) if len(moved) <= EXACT else FLIPS
    test = stats().permutation_test(
        (moved,), _rounded_sum, permutation_type="samples", n_resamples=resamples, batch=1000, rng=_number(seed)
    )
    return float(test.pvalue)


def _rounded_sum(values: Any, axis: int) -> Any:
    """Sums of the same numbers in another order are equal."""
    return values.sum(axis=axis).round(9)


def _number(seed: str) -> int:
    return int.from_bytes(seed.encode())
