"""The data of the page's list: every summary of a store, column by column."""

from __future__ import annotations

from typing import Any

from agentgym_rl.data.episode_store import EpisodeStore

NAMED = ("env", "item_id", "ending", "panel", "split", "decoding", "file", "error")
"""Columns of few distinct texts: codes into ``values``, -1 where there is none."""
PLAIN = (
    "success",
    "reward",
    "turns",
    "prompt_tokens",
    "response_tokens",
    "seconds",
    "step",
    "seed",
    "max_turns",
    "row",
)


def listing(store: EpisodeStore) -> dict[str, Any]:
    """``{"run", "count", "values": {column: texts}, "columns": {column: codes or numbers}}``."""
    table = store.table
    values: dict[str, list[str]] = {}
    columns: dict[str, list[Any]] = {}
    for name in NAMED:
        coded = table.column(name).combine_chunks().dictionary_encode()
        values[name] = coded.dictionary.to_pylist()
        columns[name] = coded.indices.fill_null(-1).to_pylist()
    for name in PLAIN:
        column = table.column(name)
        if name == "success":
            column = column.cast("int8")
        numbers = column.to_pylist()
        columns[name] = [_number(value) for value in numbers] if name in ("reward", "seconds") else numbers
    return {"run": store.place.resolve().name, "count": len(table), "values": values, "columns": columns}


def _number(value: float) -> float | None:
    """A number that JSON can carry, with four decimals."""
    return round(value, 4) if value - value == 0 else None
