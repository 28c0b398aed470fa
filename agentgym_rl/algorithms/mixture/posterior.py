r"""What is known of a success rate that changes while the agent learns.

With :math:`s` successes and :math:`f` failures at a step, evidence fades by the factor :math:`\gamma`,

.. math:: S \leftarrow \gamma S + s, \quad F \leftarrow \gamma F + f, \quad p \sim Beta(1 + S, 1 + F)

(discounted counts, arXiv 1707.09727, with the uniform prior). Two episodes move it less than two hundred; without new
episodes it returns to the prior. It takes episodes as independent, also those of one task.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any


@dataclass(slots=True)
class Posterior:
    """Faded counts of successes and failures, in episodes."""

    successes: float = 0.0
    failures: float = 0.0

    def add(self, successes: int, failures: int, decay: float) -> None:
        """Let the evidence fade by ``decay`` and add a step's."""
        self.successes = decay * self.successes + successes
        self.failures = decay * self.failures + failures

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

    def state_dict(self) -> list[float]:
        return [self.successes, self.failures]

    @classmethod
    def from_state(cls, state: Any) -> Posterior:
        """The inverse of :meth:`state_dict`.

        Raises:
            ValueError: it is not two counts.
        """
        match state:
            case [int() | float() as successes, int() | float() as failures] if (
                isfinite(successes) and isfinite(failures) and min(successes, failures) >= 0
            ):
                return cls(float(successes), float(failures))
        raise ValueError(f"{state!r} is not a count of successes and one of failures")
