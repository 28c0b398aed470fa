"""Everything that the agent reads (``wording.toml``) and writes, in each style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_rl.envs import tables
from agentgym_rl.envs.actions import Action
from agentgym_rl.envs.core import Style
from agentgym_rl.envs.sqlgym.question import Question
from agentgym_rl.envs.sqlgym.sandbox import Row, Table


@dataclass(frozen=True, slots=True)
class Wording:
    """The texts of one style."""

    instruction: str
    explore: str
    """Added to the instruction where ``{n}`` queries may be tried first."""
    shown: int
    """Characters of a result or an error that are shown."""


WORDINGS: dict[Style, Wording] = tables.load(Path(__file__).with_suffix(".toml"), dict[Style, Wording])


def instructions(explore: int) -> dict[Style, str]:
    """The instruction in each style."""
    return {
        style: each.instruction + (each.explore.format(n=explore) if explore else "")
        for style, each in WORDINGS.items()
    }


def read(response: str) -> Action:
    """Read a response as AgentGym's client does: the query is the content of the last ``sql`` block.

    Without a block it is the text after the last ``Action:``, and without that the whole response.
    """
    before, fence, block = response.rpartition("```sql")
    if fence:
        thought = before.rpartition("Action:")[0] if "Action:" in before else before
        query = block.split("```")[0]
    else:
        thought, _, query = response.rpartition("Action:")
    return Action(query.strip(), thought.replace("Thought:", "", 1).strip())


def write(command: str, thought: str = "") -> str:
    """The response that :func:`read` reads as this query."""
    action = f"Action: ```sql\n{command}\n```"
    return f"Thought: {thought}\n\n{action}" if thought else action


def observe(question: Question, tables: Sequence[Table], style: Style) -> str:
    """Schema, question and, where there is one, evidence."""
    if style == "compact":
        listed = "; ".join(" ".join([table.name, *(column for column, _ in table.columns)]) for table in tables)
        return " | ".join(filter(None, [listed, question.evidence, question.text]))
    listed = "\n".join(f"- {table.name}: {', '.join(_columns(table))}" for table in tables)
    evidence = f"\nEvidence: {question.evidence}" if question.evidence else ""
    return f"The database {question.database} has these tables:\n{listed}\n\nQuestion: {question.text}{evidence}"


def _columns(table: Table) -> list[str]:
    notes = {column: ["primary key"] for column in table.key}
    for column, other, key in table.references:
        notes.setdefault(column, []).append(f"refers to {other}.{key}" if key else f"refers to {other}")
    return [
        " ".join(filter(None, [column, kind])) + (f" ({', '.join(notes[column])})" if column in notes else "")
        for column, kind in table.columns
    ]


def result(rows: Sequence[Row], style: Style) -> str:
    """The rows of a query."""
    few = rows[: WORDINGS[style].shown]  # a row takes at least one character
    if style == "compact":
        return cut("; ".join(", ".join(map(str, row)) for row in few) or "nothing", style)
    return cut(str(few), style)


def cut(text: str, style: Style) -> str:
    """The characters of a text that are shown, with a mark where the rest is missing."""
    shown = WORDINGS[style].shown
    return text if len(text) <= shown else f"{text[:shown]}..."


def verdict(right: bool) -> str:
    """The observation after an answer in the ``compact`` style."""
    return "right" if right else "wrong"
