"""benchmarks/search.py: the ratio of its arms, from made-up results."""

import sys
from math import inf, isnan
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

search = pytest.importorskip("search")


def repeat(tree, afresh):
    """A task that failed; whether each arm solves it with 10 calls."""
    arms = {"tree": {"a": (tree, 10)}, "afresh": {"a": (afresh, 10)}}
    return {"failed": ["a"], **arms, "tree_lost": 0, "afresh_lost": 0}


def test_the_ratio_of_arms_that_solve_nothing_is_no_number(capsys):
    assert search.ratio(2, 10, 1, 10) == 2.0 and search.ratio(0, 0, 1, 10) == 0.0
    assert search.ratio(1, 10, 0, 10) == inf and isnan(search.ratio(0, 10, 0, 10))
    assert search.report("some", [repeat(1, 1)])["ratio"] == {"value": 1.0, "ci95": [1.0, 1.0]}
    search.report("nothing solved", [repeat(0, 0)])
    nothing = {"failed": [], "tree": {}, "afresh": {}, "tree_lost": 0, "afresh_lost": 0}
    search.report("nothing failed", [nothing])
    assert capsys.readouterr().out.count("calls: nan, 95% interval [nan, nan]") == 2
