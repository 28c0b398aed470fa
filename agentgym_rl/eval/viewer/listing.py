"""The data of the page's list: every summary of a store, column by column."""

from math import isfinite
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.eval import watching
from agentgym_rl.eval.viewer import notes

NAMED = ("env", "item_id", "ending", "panel", "split", "decoding", "file", "error")
"""Columns of few distinct texts: codes into ``values``, -1 where there is none."""
PLAIN = ("turns", "prompt_tokens", "response_tokens", "step", "seed", "max_turns", "row")
MEASURED = ("reward", "seconds")
"""Columns of numbers, rounded to four decimals; None where there is none, or JSON has no word for it."""


def listing(store: EpisodeStore) -> dict[str, Any]:
    """``{"run", "count", "values": {column: texts}, "columns": {column: codes or numbers}, "notes", "trained",
    "findings"}``; ``trained`` says whether there is a training page."""
    table = store.table
    values: dict[str, list[str]] = {}
    columns: dict[str, list[Any]] = {}
    for name in NAMED:
        coded = table.column(name).combine_chunks().dictionary_encode()
        values[name] = coded.dictionary.to_pylist()
        columns[name] = coded.indices.fill_null(-1).to_pylist()
    columns["success"] = table.column("success").cast("int8").to_pylist()
    columns |= {name: table.column(name).to_pylist() for name in PLAIN}
    for name in MEASURED:
        columns[name] = [
            None if value is None or not isfinite(value) else round(value, 4)
            for value in table.column(name).to_pylist()
        ]
    return {
        "run": store.place.resolve().name, "count": len(table), "values": values, "columns": columns,
        "notes": notes.read(store.place), "trained": watching.begun(store.place), "findings": findings(store.place),
    }  # fmt: skip


def findings(place: Path) -> list[str]:
    """Why stages of a run learned nothing, or why its metrics do not say; none where the place is not the folder of a
    run."""
    try:
        return [str(finding) for finding in watching.read(place).findings] if watching.begun(place) else []
    except ValueError as error:
        return [str(error)]
