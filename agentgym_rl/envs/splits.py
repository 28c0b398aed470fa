"""Numbered, frozen splits of generated tasks, none of which repeats the content of another.

An environment that generates its tasks numbers them: a split is a range of indices, and the index alone seeds the
draw of a task. Two rules keep difficulties balanced and splits apart:

* Kinds of tasks (sizes, levels, families) take turns by the task's place in its split, see :meth:`Splits.locate`.
* The last decimal digit of the fingerprint of what is drawn decides which split may use it. The environment draws until
  the draw belongs to the task's split, see :meth:`Splits.owns`; so no content occurs in two splits.

TextCraft and BabyAI have tasks that no draw decides (goals, AgentGym's seeds), so splits come in an order there: a task
that would repeat one of an earlier split is drawn again (``LAYERS`` of :mod:`.textcraft.catalogue` and
:mod:`.babyai.levels`).

Ranges, digits and draws are frozen: ``tests/envs/test_every_env.py`` compares a digest of each split.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.tables import load

SHARES: Mapping[str, Collection[int]] = {
    "train": range(0, 2),
    "test": range(2, 3),
    "train_variants": range(3, 8),
    "val_variants": range(8, 9),
    "test_variants": range(9, 10),
}
"""The last decimal digits of fingerprints (read as numbers) that belong to each split."""


def fingerprint(content: str, digits: int) -> str:
    """The first hexadecimal digits of the content's SHA-256."""
    return hashlib.sha256(content.encode()).hexdigest()[:digits]


@dataclass(frozen=True, slots=True)
class _File:
    ranges: dict[str, tuple[int, ...]]
    """First index of each split, and the one after its last."""
    shares: dict[str, tuple[int, ...]] = field(default_factory=dict)
    official: int = 0
    missing: str = ""


@dataclass(frozen=True, eq=False)
class Splits(Mapping[str, range]):
    """The splits of one environment: a mapping from their names to the indices of their tasks.

    Args:
        env: name of the environment.
        ranges: indices of each split.
        shares: digits of each split, see :data:`SHARES`.
        official: AgentGym's indices that need something else to be installed or given.
        missing: what those need; ends the error that such an index raises.
    """

    env: str
    ranges: Mapping[str, range]
    shares: Mapping[str, Collection[int]] = field(default_factory=lambda: SHARES)
    official: range = range(0)
    missing: str = ""

    @classmethod
    def read(cls, module: str, env: str) -> Self:
        """The splits in the file ``splits.toml`` beside a module, whose ``__file__`` is given."""
        file = load(Path(module).with_name("splits.toml"), _File)
        ranges = {split: range(*bounds) for split, bounds in file.ranges.items()}
        return cls(env, ranges, file.shares or SHARES, range(file.official), file.missing)

    def __getitem__(self, split: str) -> range:
        return self.ranges[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self.ranges)

    def __len__(self) -> int:
        return len(self.ranges)

    def locate(self, index: int) -> tuple[str, int]:
        """The split of a task, and the task's place in it, from 0. Raises TaskNotFound: no split has such a task."""
        for split, indices in self.ranges.items():
            if index in indices:
                return split, index - indices.start
        if index in self.official:
            raise TaskNotFound(f"{self.env}_{index} is a task of AgentGym's: {self.missing}")
        raise no_task(self.env, index, self.ranges.values())

    def owns(self, split: str, content: str) -> bool:
        """Whether a split may use what has this fingerprint."""
        return int(content, 16) % 10 in self.shares[split]


def no_task(env: str, index: int, valid: Iterable[range]) -> TaskNotFound:
    """The error about an index that no task has; it names the indices that are valid."""
    merged: list[range] = []
    for indices in sorted(filter(len, valid), key=lambda indices: indices.start):
        if merged and merged[-1].stop == indices.start:
            indices = range(merged.pop().start, indices.stop)
        merged.append(indices)
    spans = " and ".join(f"{indices[0]} to {indices[-1]}" for indices in merged)
    return TaskNotFound(f"{env} has no task {index}: valid are {spans}")
