"""What CI leaves out of many slow cases."""

from types import SimpleNamespace

import pytest
from hooks import beyond_the_sweep


@pytest.mark.parametrize(("sweep", "tried"), [(3, 15), (10, 100)])
def test_of_many_slow_cases_some_are_tried(monkeypatch, sweep, tried):
    monkeypatch.setattr("sweep.SWEEP", sweep)

    def cases(test, n, slow):
        return [SimpleNamespace(nodeid=f"{test}[{case}]", get_closest_marker=lambda _: slow) for case in range(n)]

    many, few, fast = cases("a::many", 100, True), cases("a::few", 10, True), cases("a::fast", 100, False)
    left_out = beyond_the_sweep([*many, *few, *fast])
    assert len(left_out) == 100 - tried and {case.nodeid for case in left_out} <= {case.nodeid for case in many}
