"""Task indices of the variants of goals, without listing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload


class VariantIndices(Sequence[int]):
    """``goal + stride * version`` for every version and every goal, version by version.

    Args:
        goals: goal indices, each below ``stride``.
        versions: a range of version numbers.
        stride: what one version adds to an index.
    """

    def __init__(self, goals: Sequence[int], versions: range, stride: int) -> None:
        self._goals = goals
        self._members = goals if isinstance(goals, range) else frozenset(goals)
        self._versions = versions
        self._stride = stride

    def __len__(self) -> int:
        return len(self._goals) * len(self._versions)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"place {place} is outside {len(self)} variants")
        version, goal = divmod(place % len(self), len(self._goals))
        return self._goals[goal] + self._stride * self._versions[version]

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            return False
        version, goal = divmod(index, self._stride)
        return version in self._versions and goal in self._members
