"""From task indices to the built-in questions: numbering, splits, difficulty. Everything is a function of the index.

Indices below :data:`FIRST` are AgentGym's. In every split the levels take turns.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.searchqa.chains import LEVELS, Puzzle
from agentgym_rl.envs.searchqa.chains import puzzle as make_puzzle

FIRST = 300_000
SPLITS: Mapping[str, range] = {
    "train": range(300_000, 300_480),
    "test": range(300_480, 300_600),
    "train_variants": range(300_600, 312_600),
    "val_variants": range(312_600, 313_800),
    "test_variants": range(313_800, 315_000),
}
"""Task indices of each split."""


def difficulty(index: int) -> str:
    """One of :data:`LEVELS`.

    Raises:
        TaskNotFound: there is no such task.
    """
    return LEVELS[(index - _split(index)[1].start) % len(LEVELS)]


def puzzle(index: int) -> Puzzle:
    """The question of a task.

    Raises:
        TaskNotFound: there is no such task.
    """
    split, indices = _split(index)
    return make_puzzle(split, difficulty(index), (index - indices.start) // len(LEVELS))


def _split(index: int) -> tuple[str, range]:
    for name, indices in SPLITS.items():
        if index in indices:
            return name, indices
    hint = ""
    if 0 <= index < FIRST:
        hint = "; AgentGym's 0 to 221327 need its questions: questions=<folder with test.parquet and train.parquet>"
    raise TaskNotFound(f"searchqa has no task {index}: built in are {FIRST} to {SPLITS['test_variants'][-1]}{hint}")
