"""Whether compared arms spent the same, and how it is shown when they did not."""

import pytest
from made_runs import unfinish, write_run

from agentgym_rl.eval.comparison.budgets import budget_of
from agentgym_rl.eval.comparison.compare import compare
from agentgym_rl.eval.comparison.forms import latex, markdown
from agentgym_rl.eval.comparison.page import page
from agentgym_rl.eval.comparison.rows import rows
from agentgym_rl.eval.comparison.runs import read
from agentgym_rl.eval.comparison.tables import remarks, tables


def runs(place, budget=None, **spent):
    """A run of each algorithm, that spent episodes, or tokens or updates by name."""
    config = {"budget": budget} if budget else {}
    return [
        read(write_run(place / name, algorithm=name, stages={"bc": 0.1, name: 0.5}, config=config,
                       episodes=of if isinstance(of, int) else 100, spent=of if isinstance(of, dict) else None))
        for name, of in spent.items()
    ]  # fmt: skip


def test_equal_budgets_are_told_below_the_cost(tmp_path):
    comparison = compare(runs(tmp_path, {"episodes": 560}, grpo=560, ppo=560))
    assert str(budget_of(comparison)) == "equal budgets: 560 training episodes"
    assert remarks(comparison) == []
    assert tables(comparison)[-1].notes == ("equal budgets: 560 training episodes.",)
    assert "equal budgets: 560 training episodes." in page(comparison) and "≠" not in page(comparison)


def test_an_arm_that_spent_another_is_marked_everywhere(tmp_path):
    comparison = compare(runs(tmp_path, {"episodes": 560}, grpo=560, ppo=640, dpo=560))
    remark = "unequal budgets, ≠: ppo 640, instead of 560 training episodes"
    assert remarks(comparison) == [remark]
    cost = {row.names[0]: row.names[2] for row in tables(comparison)[-1].rows}
    assert (cost["grpo"], cost["ppo"], cost["dpo"]) == ("560", "640 ≠", "560")
    assert "640 ≠" in page(comparison) and remark in page(comparison)
    assert "| 640 ≠ |" in markdown(tables(comparison)) and "640 $\\neq$" in latex(tables(comparison))
    standing = {row["arm"]: row["budget"] for row in rows(comparison) if row["kind"] == "success"}
    assert standing == {"bc": None, "grpo": "equal", "ppo": "unequal", "dpo": "equal"}


def test_without_a_budget_most_arms_say_what_is_usual(tmp_path):
    budget = budget_of(compare(runs(tmp_path, grpo=960, ppo=1280, dpo=960)))
    assert (budget.unit, budget.amount, budget.departing) == ("episodes", 960, ["ppo"])


@pytest.mark.parametrize("unit", ["tokens", "updates"])
def test_tokens_and_updates_may_go_over_by_a_step(tmp_path, unit):
    spent = {"grpo": 1000, "ppo": 1040, "dpo": 990, "rloo": 1200}
    amounts = {name: {unit: amount} for name, amount in spent.items()}
    comparison = compare(runs(tmp_path, {unit: 1000}, **amounts, gigpo=100))
    budget = budget_of(comparison)
    assert (budget.unit, budget.departing) == (unit, ["dpo", "gigpo", "rloo"])
    assert "gigpo unknown" in str(budget)
    assert tables(comparison)[-1].heads == ("arm", "runs", unit, "minutes")
    html = page(comparison)
    assert "<td>990 ≠</td>" in html and "<td>100 ≠</td>" not in html, "the sign stands beside what was not spent"


def test_different_budgets_are_compared_by_episodes(tmp_path):
    pair = runs(tmp_path / "a", {"tokens": 1000}, grpo=100) + runs(tmp_path / "b", {"episodes": 200}, ppo=200)
    assert str(budget_of(compare(pair))) == "unequal budgets, ≠: ppo 200, instead of 100 training episodes"


def test_one_arm_or_one_that_still_trains_has_nothing_to_be_equal_to(tmp_path):
    pair = runs(tmp_path, {"episodes": 560}, grpo=560, ppo=640)
    assert budget_of(compare(pair[:1])) is None
    going = unfinish(tmp_path / "ppo", "ppo")
    (going / "metrics.jsonl").write_text('{"step": 1, "stage/ppo": 1, "run/units": 2}\n')
    assert budget_of(compare([pair[0], read(going)])) is None
