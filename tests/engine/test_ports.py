"""Ports on which the workers of runs meet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.engine.verl.ports import meeting_ports


@given(st.integers(1, 2**22), st.integers(1, 100))
def test_runs_that_start_one_after_the_other_look_far_from_each_other(process, later):
    """Each launch of a process takes a port or two, and one that was in use stays taken for a minute."""
    (first, end), (other, _) = meeting_ports(process), meeting_ports(process + later)
    assert 20_000 <= first <= end - 500 and end == 32_768, "none that the system lends to connections"
    assert abs(first - other) >= 100
