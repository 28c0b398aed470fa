"""Whether the algorithms of a comparison spent as much as each other."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym_rl.eval.comparison.arms import Arm
from agentgym_rl.eval.comparison.compare import Comparison
from agentgym_rl.eval.comparison.learning import online

UNITS = ("episodes", "tokens", "updates")
"""What a recipe's ``budget`` is counted in."""
OVER = 1.05
"""A stage ends after the step that spends its tokens or updates: so much of them is still the budget."""
MARK = "≠"


@dataclass(frozen=True, slots=True)
class Budget:
    """What arms were to spend on training."""

    unit: str
    """episodes, tokens or updates."""
    amount: float
    spent: Mapping[str, float | None]
    """What each arm spent, by label; None where it is not known."""

    @property
    def departing(self) -> list[str]:
        """The arms that did not spend it."""
        most = self.amount if self.unit == "episodes" else OVER * self.amount
        return [label for label, spent in self.spent.items() if spent is None or not self.amount <= spent <= most]

    def standing(self, label: str) -> str | None:
        """Whether an arm spent it, in a word; None of an arm that has none, such as cloning."""
        return None if label not in self.spent else "unequal" if label in self.departing else "equal"

    def mark(self, label: str) -> str:
        """The sign beside what an arm spent."""
        return f" {MARK}" if label in self.departing else ""

    def __str__(self) -> str:
        what = f"{self.amount:,.0f} training {self.unit}" if self.unit != "updates" else f"{self.amount:,.0f} updates"
        if not self.departing:
            return f"equal budgets: {what}"
        spent = "; ".join(f"{label} {_said(self.spent[label])}" for label in self.departing)
        return f"unequal budgets, {MARK}: {spent}, instead of {what}"


def budget_of(comparison: Comparison) -> Budget | None:
    """The budget that the recipes of all arms give; without one, the commonest number of episodes that an arm spent.

    Returns:
        None where there are not two arms that finished training by an algorithm.
    """
    arms = [arm for arm in online(comparison) if any(run.stages[arm.stage]["panels"] for run in arm.runs)]
    if len(arms) < 2:
        return None
    costs = {arm.label: cost for arm, cost in zip(comparison.arms, comparison.costs, strict=True)}
    common = _given(arms)
    unit = common[0] if common else "episodes"
    spent: dict[str, float | None] = {arm.label: getattr(costs[arm.label], unit) for arm in arms}
    amount = common[1] if common else Counter(costs[arm.label].episodes for arm in arms).most_common(1)[0][0]
    return Budget(unit, amount, spent)


def _given(arms: Sequence[Arm]) -> tuple[str, float] | None:
    """Unit and amount, where all arms have the same."""
    budgets = {
        tuple((unit, arm.config[f"budget.{unit}"]) for unit in UNITS if arm.config.get(f"budget.{unit}") is not None)
        for arm in arms
    }
    budget = budgets.pop()
    return budget[0] if not budgets and budget else None


def _said(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"
