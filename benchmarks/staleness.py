"""Which rows of raw results are of older code: each carries the commit and a digest of the code that made it.

Most changes of code change no numbers. Where a row that was made again has them all as before, rows that the same code
made of the same arm are confirmed: their numbers are as good as those of the present code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from agentgym_rl.engine.recipe.digest import code

Row = Mapping[str, Any]
CONFIRMED = "confirmed"
"""Key of a row: the digest of the last code that gave the same numbers to another row of its arm and code."""
UNKNOWN = "made before rows carried a code digest"
NOT_COMPARED = {"minutes", "curve_spent", "commit", "code", "versions", CONFIRMED}


def why(row: Row) -> str | None:
    """Why a row is stale; None where the present code made it, or confirmed it."""
    if "code" not in row:
        return UNKNOWN
    if present(tuple(row["panels"])) not in (row["code"], last_code(row)):
        return f"made by other code (commit {row['commit'][:7]})"
    return None


@cache
def present(envs: tuple[str, ...]) -> str:
    """The digest of the present code, which reads it once a process."""
    return code(envs)


def last_code(row: Row) -> str | None:
    """The digest of the last code that is known to give a row's numbers; None of a row without one."""
    return row.get(CONFIRMED, row.get("code"))


def remarks(rows: Sequence[Row]) -> Iterator[str]:
    """Sentences for a page: how many rows are stale, by reason, and how many are confirmed."""
    stale = [row for row in rows if why(row) is not None]
    if without := [row for row in stale if "code" not in row]:
        yield f"{len(without)} of {len(rows)} rows are stale: {UNKNOWN}."
    if others := [row for row in stale if "code" in row]:
        commits = dict.fromkeys(row["commit"][:7] for row in others)
        yield f"{len(others)} of {len(rows)} rows are stale: made by other code ({', '.join(commits)})."
    confirmed = [row for row in rows if why(row) is None and row["code"] != present(tuple(row["panels"]))]
    if confirmed:
        yield (
            f"{len(confirmed)} of {len(rows)} rows are of older code; the present one gave another seed of their arms "
            "the same numbers, to the bit."
        )


def differing(row: Row, again: Row) -> list[str]:
    """The keys whose numbers are not those of a row that was made again, which may have more."""
    return [key for key in row if key not in NOT_COMPARED and row[key] != again.get(key)]


def confirmed(rows: Sequence[Row], again: Row) -> list[Row]:
    """The rows, with one made again in its place and those of its arm, engine and code marked as confirmed."""
    of_arm = [row for row in rows if row["arm"] == again["arm"] and row.get("engine") == again.get("engine")]
    (known,) = (last_code(row) for row in of_arm if row["seed"] == again["seed"])
    marked = [{**row, CONFIRMED: again["code"]} if row in of_arm and last_code(row) == known else row for row in rows]
    return [again if (row["arm"], row["seed"]) == (again["arm"], again["seed"]) else row for row in marked]
