"""Checks of the values of a block of keys."""

from __future__ import annotations

from math import inf
from typing import Any


def at_least(config: Any, least: float, *keys: str) -> None:
    """Each value must be ``least`` or more, and finite.

    Raises:
        ValueError: one is not; names the key.
    """
    for key in keys:
        if not least <= getattr(config, key) < inf:
            raise ValueError(f"{key} must be at least {least}, got {getattr(config, key)}")


def above(config: Any, bound: float, *keys: str) -> None:
    """Each value must be greater than ``bound``, and finite.

    Raises:
        ValueError: one is not; names the key.
    """
    for key in keys:
        if not bound < getattr(config, key) < inf:
            raise ValueError(f"{key} must be greater than {bound}, got {getattr(config, key)}")


def share(config: Any, *keys: str) -> None:
    """Each value must be a share.

    Raises:
        ValueError: one is outside [0, 1]; names the key.
    """
    for key in keys:
        if not 0 <= getattr(config, key) <= 1:
            raise ValueError(f"{key} must be in [0, 1], got {getattr(config, key)}")
