"""A small MCP server for tests, on standard input and output: notes, and ways to fail."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated, Literal

from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel, Field

server = MCPServer("notes")
NOTES: dict[str, str] = {}


class Note(BaseModel):
    """A note with its title."""

    title: str
    text: str = ""


@server.tool()
def add_note(note: Note, when_there: Literal["replace", "fail"] = "fail") -> str:
    """Keep a note."""
    if note.title in NOTES and when_there == "fail":
        raise ValueError(f"there is a note {note.title!r} already")
    NOTES[note.title] = note.text
    return f"kept {note.title}"


@server.tool()
def notes() -> dict[str, str]:
    """All notes, by title."""
    return NOTES


@server.tool()
def process(wait: Annotated[float, Field(ge=0)] = 0.0) -> int:
    """The number of the server's process, after a number of seconds."""
    time.sleep(wait)
    return os.getpid()


@server.tool()
def crash() -> str:
    """End the server in the middle of a call."""
    print("the disk is full", file=sys.stderr, flush=True)
    os._exit(3)


if __name__ == "__main__":
    server.run()
