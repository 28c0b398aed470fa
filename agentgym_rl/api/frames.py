"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agentgym_rl.envs.extras import needs

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(rows: Iterable[Mapping[str, Any]], columns: Iterable[str] | None = None) -> DataFrame:
    """A ``pandas.DataFrame`` of rows.

    Args:
        columns: in their order, also where there are no rows; None takes those of the rows.

    Raises:
        MissingExtra: pandas is not installed.
    """
    with needs("a table", "data"):
        import pandas
    return pandas.DataFrame(list(rows), columns=None if columns is None else list(columns))


def episode_frame(rows: Iterable[Mapping[str, Any]], columns: Iterable[str]) -> DataFrame:
    """A frame of :class:`agentgym_rl.data.episode_schema.Summary`.

    ``success`` and ``reward`` are missing where the ending does not count, so that means are over the others.

    Raises:
        MissingExtra: pandas is not installed.
    """
    return frame(rows, columns).astype({"success": "boolean", "reward": float})
