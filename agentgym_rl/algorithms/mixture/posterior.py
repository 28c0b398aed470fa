r"""Posterior of a success rate that changes while the agent learns.

With :math:`s` successes and :math:`f` failures at a step, evidence fades by the factor :math:`\gamma`,

.. math:: S \leftarrow \gamma S + s, \quad F \leftarrow \gamma F + f, \quad p \sim Beta(1 + S, 1 + F)

(discounted counts, arXiv 1707.09727, with the uniform prior). Two episodes move it less than two hundred; without new
episodes it returns to the prior. It takes episodes as independent, also those of one task.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from math import isfinite
from typing import Any, Self


@dataclass(slots=True)
class Faded:
    """Sums of evidence, none negative; what a step adds is worth less with each step after it."""

    def fade(self, decay: float, *added: float) -> None:
        """Multiply each sum by ``decay`` and add a step's, in the order of the fields."""
        for field, new in zip(fields(self), added, strict=True):
            setattr(self, field.name, decay * getattr(self, field.name) + new)

    def state_dict(self) -> list[float]:
        return list(astuple(self))

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """The inverse of :meth:`state_dict`.

        Raises:
            ValueError: it is not one number for each sum.
        """
        names = [field.name for field in fields(cls)]
        if not isinstance(state, list) or len(state) != len(names) or not all(map(_is_sum, state)):
            raise ValueError(f"{state!r} is not a sum each of {', '.join(names)}")
        return cls(*map(float, state))


def _is_sum(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value) and value >= 0


@dataclass(slots=True)
class Posterior(Faded):
    """Faded counts of successes and failures, in episodes."""

    successes: float = 0.0
    failures: float = 0.0

    def add(self, successes: int, failures: int, decay: float) -> None:
        """Let the evidence fade by ``decay`` and add a step's."""
        self.fade(decay, successes, failures)

    @property
    def known(self) -> bool:
        """True if there is evidence, so that it says more than the prior."""
        return self.successes + self.failures > 0

    @property
    def mean(self) -> float:
        return (1 + self.successes) / (2 + self.successes + self.failures)

    @property
    def variance(self) -> float:
        """Of the success rate: what more episodes would settle."""
        return self.outcome_variance / (2 + self.successes + self.failures)

    @property
    def outcome_variance(self) -> float:
        """E[p(1-p)], in (0, 1/4): the variance of an episode's outcome; 1/6 before any episode."""
        n = 2 + self.successes + self.failures
        return (1 + self.successes) * (1 + self.failures) / (n * (n + 1))
