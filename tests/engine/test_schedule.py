"""Which steps' episodes start when."""

from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.engine.verl.schedule import Schedule


def starts(ahead, steps, numbers):
    schedule = Schedule(ahead)
    return [list(schedule.start(number, steps)) for number in numbers]


def test_a_step_after_the_other():
    assert starts(0, 3, [0, 1, 2]) == [[0], [1], [2]]


def test_ahead_of_the_step_that_is_learnt_from():
    assert starts(2, 4, [0, 1, 2, 3]) == [[0, 1, 2], [3], [], []]


def test_a_resumed_stage_and_the_next_stage_begin_with_nothing_under_way():
    assert starts(1, 5, [3, 4]) == [[3, 4], []]
    assert starts(1, 2, [0, 1, 0, 1]) == [[0, 1], [], [0, 1], []]


@given(st.integers(0, 4), st.integers(1, 12), st.data())
def test_every_step_starts_once_before_it_is_needed(ahead, steps, data):
    first = data.draw(st.integers(0, steps - 1))
    begun: list[int] = []
    for number, started in zip(range(first, steps), starts(ahead, steps, range(first, steps)), strict=True):
        begun += started
        assert number in begun and max(begun) <= number + ahead
    assert begun == list(range(first, steps))
