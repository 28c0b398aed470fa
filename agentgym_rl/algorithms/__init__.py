"""Algorithms, mixtures of tasks, and the curriculum of turn limits. One concept a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym_rl.algorithms.base import Algorithm
from agentgym_rl.algorithms.installed import installed

__all__ = ["Algorithm", "algorithms"]


def algorithms() -> Mapping[str, type[Algorithm[Any]]]:
    """The classes of all installed algorithms by name: the entry-point group ``agentgym_rl.algorithms``.

    Raises:
        ValueError: an entry point is no :class:`Algorithm`, or two have one name.
    """
    return installed("agentgym_rl.algorithms", Algorithm)
