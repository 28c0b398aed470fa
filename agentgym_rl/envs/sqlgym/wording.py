"""Everything that the agent reads (``env.toml``) and writes, in each style."""

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_rl.envs.actions import Action
from agentgym_rl.envs.core import Style
from agentgym_rl.envs.sqlgym.question import Question
from agentgym_rl.envs.sqlgym.sandbox import Row, Table
from agentgym_rl.envs.texts import EnvTexts, read_texts


@dataclass(frozen=True, kw_only=True)
class Texts(EnvTexts):
    """The texts of ``env.toml``."""

    licence_of_bird: str
    explore: dict[str, str]
    """Added to the instruction where ``{n}`` queries may be tried first."""
    shown: dict[str, int]
    """Characters of a result or an error that are shown."""


TEXTS = read_texts(__file__, Texts)


def instructions(explore: int) -> dict[str, str]:
    """The instruction in each style."""
    if not explore:
        return TEXTS.instructions
    return {style: text + TEXTS.explore[style].format(n=explore) for style, text in TEXTS.instructions.items()}


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
    few = rows[: TEXTS.shown[style]]  # a row takes at least one character
    if style == "compact":
        return cut("; ".join(", ".join(map(str, row)) for row in few) or "nothing", style)
    return cut(str(few), style)


def cut(text: str, style: Style) -> str:
    """The characters of a text that are shown, with a mark where the rest is missing."""
    shown = TEXTS.shown[style]
    return text if len(text) <= shown else f"{text[:shown]}..."


def verdict(right: bool) -> str:
    """The observation after an answer in the ``compact`` style."""
    return "right" if right else "wrong"
