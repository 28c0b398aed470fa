"""What every installed environment does."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentgym_rl.envs import Task, available, make

FROZEN = json.loads((Path(__file__).parent / "frozen_splits.json").read_text())
"""Size and digest of each split of each environment. After a change, old and new runs are not comparable."""

OVERLAPPING = {"sciworld": {"agentgym"}}
"""Splits that repeat the tasks of others."""


def spread(indices: Sequence[int], n: int = 100) -> list[int]:
    """At most ``n`` indices at equal distances."""
    return [indices[len(indices) * place // n] for place in range(n)] if len(indices) > n else list(indices)


def digest(name: str, split: str) -> str:
    """Start of the SHA-256 over all indices of a split, and over goals and difficulties of some."""
    env = make(name)
    indices = env.spec.splits[split]
    found = hashlib.sha256(json.dumps(list(indices)).encode())
    for task in (Task(name, index) for index in spread(indices)):
        found.update(f"{task}\t{env.goal(task)}\t{env.difficulty(task)}\n".encode())
    return found.hexdigest()[:16]


def test_every_environment_has_frozen_splits() -> None:
    assert {name: list(make(name).spec.splits) for name in available()} == {
        name: list(splits) for name, splits in FROZEN.items()
    }


@pytest.mark.parametrize(("name", "split"), [(name, split) for name, splits in FROZEN.items() for split in splits])
def test_splits_are_frozen(name: str, split: str) -> None:
    assert [len(make(name).spec.splits[split]), digest(name, split)] == FROZEN[name][split]


@pytest.mark.parametrize("name", FROZEN)
def test_splits_are_disjoint(name: str) -> None:
    splits = {
        split: indices for split, indices in make(name).spec.splits.items() if split not in OVERLAPPING.get(name, ())
    }
    assert len({index for indices in splits.values() for index in indices}) == sum(map(len, splits.values()))
