"""Numbered splits: where a task belongs, and what a split may use."""

import pytest

from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.splits import SHARES, Splits, fingerprint, no_task

SPLITS = Splits(
    "dice",
    {"train": range(10, 20), "test": range(20, 22), "hard": range(30, 33)},
    shares={"train": range(9), "test": (9,)},
    official=range(5),
    missing="give dice=<file>",
)


def test_splits_are_a_mapping() -> None:
    assert list(SPLITS) == ["train", "test", "hard"] and len(SPLITS) == 3
    assert SPLITS["test"] == range(20, 22)
    assert {"train": range(10, 20), "test": range(20, 22), "hard": range(30, 33)} == SPLITS


@pytest.mark.parametrize(
    ("index", "expected"), [(10, ("train", 0)), (19, ("train", 9)), (20, ("test", 0)), (32, ("hard", 2))]
)
def test_a_task_has_a_split_and_a_place(index: int, expected: tuple[str, int]) -> None:
    assert SPLITS.locate(index) == expected


def test_an_index_without_a_task() -> None:
    for index in (-1, 5, 22, 33, 10**15):
        with pytest.raises(TaskNotFound, match=f"dice has no task {index}: valid are 10 to 21 and 30 to 32"):
            SPLITS.locate(index)
    with pytest.raises(TaskNotFound, match="dice_4 is a task of AgentGym's: give dice=<file>"):
        SPLITS.locate(4)
    assert str(no_task("dice", 7, [range(0), range(3, 5), range(3)])) == "dice has no task 7: valid are 0 to 4"


def test_each_fingerprint_belongs_to_one_split() -> None:
    assert fingerprint("", 8) == "e3b0c442"
    assert [SPLITS.owns("train", content) for content in ("0", "8", "9", "13")] == [True, True, False, False]
    assert [SPLITS.owns("test", content) for content in ("0", "8", "9", "13")] == [False, False, True, True]
    assert sorted(digit for digits in SHARES.values() for digit in digits) == list(range(10))
