"""Sheet: change a small workbook with the tools of a spreadsheet service."""

from agentgym_rl.envs.core import Step, Style
from agentgym_rl.envs.tools import to_command
from agentgym_rl.envs.tooluse import GeneratedTasks, ToolEnv
from agentgym_rl.envs.tooluse.sheet import changes
from agentgym_rl.envs.tooluse.sheet.book import Book
from agentgym_rl.envs.tooluse.sheet.draft import SheetDraft
from agentgym_rl.envs.tooluse.sheet.official import OfficialTasks

TASKS: GeneratedTasks[Book] = GeneratedTasks("sheet", SheetDraft, SheetDraft.texts.kinds(changes))


class Sheet(ToolEnv[Book]):
    """A workbook with AgentGym's tools, which are those of a client of Google Sheets (https://docs.gspread.org).

    A task is solved when at ``finish`` all cells, notes and merged areas of all sheets are as they must be; numbers
    may be rounded to two digits after the point. The answer of ``finish`` does not matter; it may be missing.

    Args:
        style: wording of instruction and observations.
        official: AgentGym's ``sheet.jsonl``; ``test`` then holds its tasks.
        workbook: the Excel file these tasks start with, AgentGym's ``Test Sheet-For Copy.xlsx``.
        tasks: a file of tasks that take the place of these, :mod:`agentgym_rl.envs.tooluse.written`.

    Raises:
        ValueError: only one of the two paths is given, or a file is malformed.
    """

    name = "sheet"

    def __init__(
        self,
        style: Style = "agentgym",
        official: str | None = None,
        workbook: str | None = None,
        tasks: str | None = None,
    ) -> None:
        if (official is None) != (workbook is None):
            raise ValueError("sheet's options official (sheet.jsonl) and workbook (.xlsx) go together: give both")
        own = TASKS if official is None or workbook is None else OfficialTasks.read(official, workbook, TASKS)
        super().__init__(style, SheetDraft, own, tasks)

    async def _step(self, action: str) -> Step:
        name, _, arguments = action.partition("with Action Input:")
        if name.strip() == "finish" and not arguments.strip():  # AgentGym's takes no arguments
            action = to_command(self.spec.tools, "finish", {})
        return await super()._step(action)
