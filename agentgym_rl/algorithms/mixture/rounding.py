r"""Whole numbers out of parts.

Environments: with shares :math:`q_i`, :math:`n` tasks and a phase :math:`u` in [0, 1),

.. math:: c_i = \lfloor Q_i + u \rfloor - \lfloor Q_{i-1} + u \rfloor, \quad Q_i = n \sum_{j \le i} q_j

(systematic sampling, Madow 1949). A count is :math:`n q_i` rounded up or down, the sum is n, and over a uniform phase
the mean is :math:`n q_i` exactly. The phase of step t is :math:`u_0 + t (\sqrt 5 - 1) / 2` modulo 1, which fills [0, 1)
evenly in any run of steps: an environment whose exact count is 1/20 of a task gets one in about every twentieth step.
The largest remainder would never give it one.

Samples: one at a time to the task with the greatest :math:`w_i / (n_i + 1/2)` among those below their limit (the
divisor method of Webster and Sainte-Lague), so the numbers follow the weights as closely as whole numbers can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from math import floor, sqrt
from random import Random

GOLDEN = (sqrt(5) - 1) / 2


def phase(seed: int, step: int) -> float:
    """Where the rounding of a step begins, in [0, 1)."""
    return (Random(f"{seed}:rounding").random() + step * GOLDEN) % 1


def counts(shares: Mapping[str, float], n: int, phase: float) -> dict[str, int]:
    """Tasks of each environment, ``n`` in all."""
    *inner, _ = (min(n, floor(n * part + phase)) for part in accumulate(shares.values()))
    edges = [0, *inner, n]
    return {env: end - start for env, start, end in zip(shares, edges, edges[1:], strict=False)}


def allot(weights: Sequence[float], total: int, low: int, high: int) -> list[int]:
    """``total`` samples by weight, between ``low`` and ``high`` each.

    Raises:
        ValueError: the limits leave no such numbers.
    """
    if not low * len(weights) <= total <= high * len(weights):
        raise ValueError(f"{total} samples do not go into {len(weights)} tasks with {low} to {high} each")
    numbers = [low] * len(weights)
    queue = [(-weight / (low + 0.5), index) for index, weight in enumerate(weights) if low < high]
    heapify(queue)
    for _ in range(total - low * len(weights)):
        _, index = heappop(queue)
        numbers[index] += 1
        if numbers[index] < high:
            heappush(queue, (-weights[index] / (numbers[index] + 0.5), index))
    return numbers
