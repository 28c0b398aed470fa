"""Success of several seeds, and differences of it, task by task where tasks are known."""

import pytest

from agentgym_rl.eval.by_seed import Panel, difference, mean_of, of_tasks, value
from agentgym_rl.eval.crossed import TaskVariance, alike, task_variance

FIRST, SECOND = (1.0, 1.0, 0.0, None), (0.0, 1.0, 0.0, 1.0)


def panel(by_task, weight=1.0, known=True):
    scores = [score for score in by_task if score is not None]
    return Panel.of(sum(scores) / len(scores), len(scores), by_task if known else None, weight)


def test_differences_are_of_the_tasks_that_both_have():
    (panels_apart,) = difference((panel(SECOND),), (panel(FIRST),))
    assert (panels_apart.mean, panels_apart.by_task) == (pytest.approx(0.5 - 2 / 3), (-1.0, 0.0, 0.0, None))
    assert panels_apart.most == pytest.approx(0.25 / 4 + 2 / 9 / 3)
    assert difference((panel(SECOND),), (panel(FIRST, known=False),))[0].by_task is None


def test_runs_of_a_seed_are_averaged_task_by_task():
    (averaged,) = mean_of([(panel(FIRST),), (panel(SECOND),)])
    assert averaged.by_task == (0.5, 1.0, 0.0, None) and averaged.mean == pytest.approx((2 / 3 + 0.5) / 2)


def test_the_part_of_tasks_is_estimated_where_they_are_known():
    with_tasks, unknown = ([(panel(scores, known=so),) for scores in (FIRST, SECOND)] for so in (True, False))
    assert of_tasks(with_tasks) == task_variance([FIRST, SECOND])
    assert of_tasks(unknown) == of_tasks([with_tasks[0], unknown[1]])
    assert of_tasks(unknown) == TaskVariance(pytest.approx((2 / 9 / 3 + 0.25 / 4) / 2))
    assert of_tasks([(panel((1.0,)),)] * 2) == TaskVariance(alike(1)), "one task says nothing of others"


def test_panels_add_up_with_their_weights():
    seeds = [(panel(scores, 0.25), panel(scores, 0.75)) for scores in (FIRST, SECOND)]
    assert value(seeds[1]) == 0.5
    tasks, both = task_variance([FIRST, SECOND]), 0.25**2 + 0.75**2
    assert of_tasks(seeds) == TaskVariance(pytest.approx(both * tasks.shared), pytest.approx(both * tasks.chance))
