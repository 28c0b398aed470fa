"""Sheet: change a small workbook with the tools of a spreadsheet service."""

from __future__ import annotations

from agentgym_rl.envs.core import Step, Style
from agentgym_rl.envs.tools import to_command
from agentgym_rl.envs.tooluse import ToolWorld
from agentgym_rl.envs.tooluse.sheet import wording
from agentgym_rl.envs.tooluse.sheet.book import Book
from agentgym_rl.envs.tooluse.sheet.official import Official
from agentgym_rl.envs.tooluse.sheet.tasks import TASKS
from agentgym_rl.envs.tooluse.sheet.tools import FUNCTIONS


class Sheet(ToolWorld[Book]):
    """A workbook with AgentGym's tools, which are those of a client of Google Sheets (https://docs.gspread.org).

    A task is solved when at ``finish`` all cells, notes and merged areas of all sheets are as they must be; numbers
    may be rounded to two digits after the point. What ``finish`` is given does not matter; it may be nothing.

    Args:
        style: wording of instruction and observations.
        official: AgentGym's ``sheet.jsonl``; ``test`` then holds its tasks.
        workbook: the Excel file these tasks start with, AgentGym's ``Test Sheet-For Copy.xlsx``.

    Raises:
        ValueError: only one of the two paths is given, or a file is not what it should be.
    """

    name = "sheet"

    def __init__(self, style: Style = "agentgym", official: str | None = None, workbook: str | None = None) -> None:
        if (official is None) != (workbook is None):
            raise ValueError("sheet's options official (sheet.jsonl) and workbook (.xlsx) go together: give both")
        super().__init__(
            style,
            functions=FUNCTIONS,
            tasks=TASKS if official is None or workbook is None else Official.read(official, workbook),
            about=wording.ABOUT,
            hint=wording.HINT,
            example=wording.EXAMPLE,
            max_turns=15,
            licence="Apache-2.0; tables are drawn from lists written for this package, tools are facts of AgentGym",
        )

    async def _step(self, action: str) -> Step:
        name, _, arguments = action.partition("with Action Input:")
        if name.strip() == "finish" and arguments.strip() in ("", "{}"):  # AgentGym's takes no answer
            action = to_command(self.spec.tools, "finish", {"answer": "done"})
        return await super()._step(action)
