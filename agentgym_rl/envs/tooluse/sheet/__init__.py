"""Sheet: change a small workbook with the tools of a spreadsheet service."""

from agentgym_rl.envs.tooluse.sheet.env import Sheet

__all__ = ["Sheet"]
