"""Which rows of raw results are of older code: each carries the commit and a digest of the code that made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym_rl.engine.recipe.digest import code


def why(row: Mapping[str, Any]) -> str | None:
    """Why a row is stale; None where the present code made it."""
    if "code" not in row:
        return "made before rows carried a code digest"
    if row["code"] != code(row["panels"]):
        return f"made by other code (commit {row['commit'][:7]})"
    return None


def told(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for a page, by reason; none where no row is stale."""
    reasons = Counter(reason for row in rows if (reason := why(row)) is not None)
    return [f"{number} of {len(rows)} rows are stale: {reason}." for reason, number in reasons.items()]
