"""Values relative to their group: what GRPO does with episodes and GiGPO with turns as well."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from statistics import fmean, stdev

EPSILON = 1e-6
"""Keeps the division by a standard deviation of 0 finite; verl's GRPO has the same."""


def lone(groups: Sequence[Hashable]) -> list[int]:
    """Indices of the members whose group has no other: nothing can be said about them relative to others."""
    size = Counter(groups)
    return [index for index, group in enumerate(groups) if size[group] == 1]


def relative(values: Sequence[float], groups: Sequence[Hashable], by_std: bool) -> list[float]:
    """Each value less the mean of its group, divided by the group's standard deviation if ``by_std``.

    The standard deviation is the sample's (n - 1), as in verl. A group of one gives 0.
    """
    members: dict[Hashable, list[float]] = defaultdict(list)
    for value, group in zip(values, groups, strict=True):
        members[group].append(value)
    mean = {group: fmean(own) for group, own in members.items()}
    scale = {group: stdev(own) + EPSILON if by_std and len(own) > 1 else 1.0 for group, own in members.items()}
    return [(value - mean[group]) / scale[group] for value, group in zip(values, groups, strict=True)]
