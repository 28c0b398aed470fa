"""Two results, task by task."""

import pytest

from agentgym_rl.eval.evaluation.comparison import compare
from agentgym_rl.eval.evaluation.result import Result
from agentgym_rl.eval.evaluation.scores import Outcome
from agentgym_rl.eval.evaluation.tables import comparison_tables
from agentgym_rl.eval.intervals import mcnemar_p, wilson


def result(successes, digest="abc", policy="one", **plan):
    """``successes``: by item id."""
    outcomes = tuple(
        Outcome(name, "easy", tuple(solved), (None,) * len(solved), (None,) * len(solved))
        for name, solved in successes.items()
    )
    envs = {name.rpartition("_")[0]: {"name": "test", "digest": digest, "n": 1} for name in successes}
    facts = {"policy": policy, "panel": {"digest": digest, "envs": envs}, "samples": 1, "seed": 0, **plan}
    return Result(facts, outcomes, (), {})


def test_flips_and_mcnemar_with_one_sample():
    before = {"maze_1": [True], "maze_2": [False], "maze_3": [False], "maze_4": [True], "maze_5": [False]}
    after = {"maze_1": [False], "maze_2": [True], "maze_3": [True], "maze_4": [True], "maze_5": [False]}
    comparison = compare(result(before), result(after, policy="two"))
    (difference,) = comparison.differences
    assert (difference.gained, difference.lost) == (("maze_2", "maze_3"), ("maze_1",))
    assert difference.p == mcnemar_p(2, 1)
    assert (difference.first, difference.second, difference.difference.value) == (0.4, 0.6, pytest.approx(0.2))
    assert difference.difference.ci95[0] <= 0.2 <= difference.difference.ci95[1]
    assert (comparison.left_out, comparison.departures) == ((), ())
    assert "McNemar" in comparison.test


@pytest.mark.parametrize("solved", [False, True])
def test_tasks_that_differ_alike_have_an_interval_with_a_width(solved):
    """Three tasks say little of others, whether all are gained (p 0.25) or none has changed."""
    before, after = ({f"maze_{n}": [solution] for n in range(3)} for solution in (False, solved))
    (difference,) = compare(result(before), result(after)).differences
    low, high = difference.difference.ci95
    share = wilson(0, 3)[1]  # of tasks that differ otherwise, at most
    assert (low, high) == pytest.approx((1 - 2 * share, 1.0) if solved else (-share, share))
    assert low < 0 and difference.p > 0.05


def test_several_samples_are_compared_by_their_means():
    before = {f"maze_{n}": [False, False, True] for n in range(8)}
    after = {f"maze_{n}": [True, True, n % 2 == 0] for n in range(8)}
    comparison = compare(result(before, samples=3), result(after, samples=3))
    (difference,) = comparison.differences
    assert difference.p == pytest.approx(2 / 2**8)
    assert len(difference.gained) == 8 and "signs" in comparison.test


def test_worlds_apart_and_together_and_what_failed_is_left_out():
    before = {"maze_1": [True], "maze_2": [None], "textcraft_1": [False]}
    after = {"maze_1": [True], "maze_2": [True], "textcraft_1": [True]}
    comparison = compare(result(before), result(after))
    assert [(difference.env, difference.difference.n) for difference in comparison.differences] == [
        ("maze", 1),
        ("textcraft", 1),
        ("all", 2),
    ]
    assert comparison.left_out == ("maze_2",)
    tables = comparison_tables(comparison, "a", "b")
    assert [table.row_count for table in tables] == [3, 2]


def test_all_is_over_all_environments_or_absent():
    before = {"maze_1": [True], "maze_2": [True], "textcraft_1": [None]}
    after = {"maze_1": [True], "maze_2": [False], "textcraft_1": [True]}
    comparison = compare(result(before), result(after))
    assert [(difference.env, difference.difference.n) for difference in comparison.differences] == [("maze", 2)]
    assert comparison.left_out == ("textcraft_1",)


def test_other_tasks_are_refused():
    with pytest.raises(ValueError, match=r"different panels, abc \(maze test, n=1\) and abd"):
        compare(result({"maze_1": [True]}), result({"maze_1": [True]}, digest="abd"))
    with pytest.raises(ValueError, match="no task has an episode that counts in both"):
        compare(result({"maze_1": [None]}), result({"maze_1": [True]}))


def test_other_rules_are_told():
    rules = {"settings": {"style": "compact", "max_new_tokens": 9}, "max_turns": {}}
    others = {"settings": {"style": "agentgym", "max_new_tokens": 9}, "max_turns": {"maze": 3}}
    comparison = compare(
        result({"maze_1": [True]}, rules=rules), result({"maze_1": [True]}, policy="two", rules=others)
    )
    assert comparison.departures == ("rules.max_turns.maze: None, 3", "rules.settings.style: compact, agentgym")
