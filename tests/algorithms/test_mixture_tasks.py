"""Within an environment: tasks that are always or never solved come up less and get fewer episodes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.mixture import By, Fixed, Mixture, MixtureConfig, Pools
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs import Task

NEVER, ALWAYS, SOMETIMES = range(20), range(20, 40), range(40, 60)


def kind(index: int) -> str:
    return ("never", "always", "sometimes")[index % 60 // 20]


def mixture(pool: Sequence[int] = range(60), tasks: str = "task", **keys) -> Mixture:
    pools = Pools(tasks={"w": pool}, shares={"w": 1.0}, seed=0, difficulty=lambda task: kind(task.index))
    return Fixed(MixtureConfig(tasks=By(tasks), **keys), pools)


def outcomes(index: int, wins: int, losses: int) -> list[Episode]:
    return [
        Episode(env="w", item_id=f"w_{index}", ending=Ending.TERMINATED, reward=float(won), success=won, max_turns=9)
        for won in [True] * wins + [False] * losses
    ]


def taught(tasks: str = "task", pool: Sequence[int] = range(60), **settings) -> Mixture:
    """A mixture that saw each of the first 60 tasks eight times, twice."""
    mixed = mixture(pool, tasks, **settings)
    for _ in range(2):
        for index in range(60):
            mixed.observe(outcomes(index, *{"never": (0, 8), "always": (8, 0), "sometimes": (4, 4)}[kind(index)]))
    return mixed


@pytest.mark.parametrize("tasks", ["task", "difficulty"])
@pytest.mark.parametrize("floor", [0.02, 0.5])
def test_the_hopeless_and_the_solved_are_drawn_less_and_none_is_lost(tasks, floor):
    mixed = taught(tasks, floor=floor)
    drawn = Counter(draw.task.index for step in range(400) for draw in mixed.draw(step, 6, 1))
    by_kind = Counter(
        {name: sum(drawn[index] for index in range(60) if kind(index) == name) for name in map(kind, drawn)}
    )
    assert set(drawn) == set(range(60))
    if floor < 0.1:
        assert by_kind["sometimes"] > 2 * max(by_kind["never"], by_kind["always"])
    assert by_kind["sometimes"] > max(by_kind["never"], by_kind["always"])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_draws_follow_the_weights(temperature):
    """One task out of two has the chance w / (w + w') of being drawn."""
    mixed = mixture(range(2), floor=0.1, temperature=temperature)
    mixed.observe(outcomes(0, 0, 30))
    never, unknown = (0.1 + 0.9 * (4 * variance) ** (1 / temperature) for variance in (31 / (32 * 33), 1 / 6))
    drawn = Counter(draw.task.index for step in range(3000) for draw in mixed.draw(step, 1, 1))
    assert drawn[0] / 3000 == pytest.approx(never / (never + unknown), abs=0.025)


def test_samples_follow_the_uncertainty_of_the_outcome():
    mixed = taught(min_samples=2, max_samples=12)
    draws = mixed.draw(0, 60, 4)
    by_kind = {name: [d.samples for d in draws if kind(d.task.index) == name] for name in map(kind, range(60))}
    assert sum(map(sum, by_kind.values())) == 240
    assert min(by_kind["sometimes"]) > max(by_kind["never"] + by_kind["always"])
    assert min(map(min, by_kind.values())) >= 2


def test_nothing_known_is_nothing_preferred():
    assert {draw.samples for draw in mixture().draw(0, 30, 4)} == {4}


@given(
    n=st.integers(1, 150),
    samples=st.integers(2, 6),
    step=st.integers(0, 1000),
    size=st.integers(1, 60),
    tasks=st.sampled_from(["task", "difficulty"]),
)
def test_no_task_again_before_its_pool_is_through(n, samples, step, size, tasks):
    mixed = taught(tasks, min_samples=2, max_samples=6)
    mixed.pools = replace(mixed.pools, tasks={"w": range(size)})
    draws = mixed.draw(step, n, samples)
    drawn = Counter(draw.task.index for draw in draws)
    assert max(drawn.values()) - min(drawn[index] for index in range(size)) <= 1
    assert sum(draw.samples for draw in draws) == n * samples
    assert all(2 <= draw.samples <= 6 for draw in draws)


class Huge(Sequence):
    """A pool too large to look through; counts how often it is looked into."""

    def __init__(self) -> None:
        self.looks = 0

    def __len__(self) -> int:
        return 10**12

    def __getitem__(self, position):
        self.looks += 1
        return range(10**12)[position]


def test_a_huge_pool_is_not_looked_through():
    pool = Huge()
    mixed = taught("difficulty", pool)
    kinds = Counter(kind(draw.task.index) for step in range(40) for draw in mixed.draw(step, 8, 2))
    assert pool.looks <= 40 * 8 * 16
    assert kinds["sometimes"] > 2 * max(kinds["never"], kinds["always"])
    assert sorted(mixed.state_dict()["tasks"]["w"]) == ["always", "never", "sometimes"]


def test_a_task_that_begins_to_be_solved_comes_back():
    mixed = taught(decay=0.5)
    state = mixed.state_dict()["tasks"]["w"]
    assert state["w_0"] == [0.0, 12.0]
    before = mixed.tasks.samples([Task("w", 0), Task("w", 40)], 8, 1, 99)
    for _ in range(3):
        mixed.observe(outcomes(0, 4, 4))
    after = mixed.tasks.samples([Task("w", 0), Task("w", 40)], 8, 1, 99)
    assert before[0] < before[1]
    assert abs(after[0] - after[1]) <= 1
