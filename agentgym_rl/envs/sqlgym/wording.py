"""Everything the agent reads and writes, in each style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentgym_rl.envs.actions import Action
from agentgym_rl.envs.core import Style
from agentgym_rl.envs.sqlgym.question import Question
from agentgym_rl.envs.sqlgym.sandbox import Row, Table

INSTRUCTIONS: Mapping[Style, str] = {
    "agentgym": (
        "You are given the schema of a SQLite database and a question about its data. Think it through, explain your "
        "solution, then answer with one SQL query whose result is the answer.\n\n"
        "Reply in exactly this form:\n"
        "Thought: your reasoning\n\n"
        "Action: ```sql\nSELECT column FROM table WHERE condition;\n```\n\n"
        "The block must hold a single SQL statement on one line and nothing else."
    ),
    "compact": "Answer with one SQL query. Reply `Action: ```sql SELECT ...```.",
}

EXPLORE: Mapping[Style, str] = {
    "agentgym": (
        "\n\nYou have {n} queries to look around with first: their results are shown and not graded. The query after "
        "those is your answer, or an earlier one with `submit` in front of SELECT."
    ),
    "compact": " {n} tries, then the answer; `submit SELECT ...` answers at once.",
}

SHOWN: Mapping[Style, int] = {"agentgym": 1000, "compact": 200}
"""Characters of a result or an error that are shown."""


def read(reply: str) -> Action:
    """Read a reply as AgentGym's client does: the query is what the last ``sql`` block holds.

    Without a block it is what follows the last ``Action:``, and without that the whole reply.
    """
    before, fence, block = reply.rpartition("```sql")
    if fence:
        thought = before.rpartition("Action:")[0] if "Action:" in before else before
        query = block.split("```")[0]
    else:
        thought, _, query = reply.rpartition("Action:")
    return Action(query.strip(), thought.replace("Thought:", "", 1).strip())


def write(command: str, thought: str = "") -> str:
    """Write a query as the reply :func:`read` reads."""
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
    few = rows[: SHOWN[style]]  # a row takes a character at least
    if style == "compact":
        return cut("; ".join(", ".join(map(str, row)) for row in few) or "nothing", style)
    return cut(str(few), style)


def cut(text: str, style: Style) -> str:
    """At most :data:`SHOWN` characters of a text, and a note where more were there."""
    return text if len(text) <= SHOWN[style] else f"{text[: SHOWN[style]]}..."


def verdict(right: bool) -> str:
    """What the ``compact`` style says of an answer."""
    return "right" if right else "wrong"
