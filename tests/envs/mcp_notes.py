"""A small MCP server for tests: notes, one pad a session, and ways to fail.

It talks on standard input and output, or over HTTP where it is given a port.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated, Literal

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel, Field

server = MCPServer("notes")
PADS: dict[str | None, dict[str, str]] = {}


def pad(ctx: Context) -> dict[str, str]:
    """The notes of the session."""
    request = ctx.request_context.request
    return PADS.setdefault(request and request.headers.get("mcp-session-id"), {})


class Note(BaseModel):
    """A note with its title."""

    title: str
    text: str = ""


@server.tool()
def add_note(ctx: Context, note: Note, when_there: Literal["replace", "fail"] = "fail") -> str:
    """Keep a note."""
    notes = pad(ctx)
    if note.title in notes and when_there == "fail":
        raise ValueError(f"there is a note {note.title!r} already")
    notes[note.title] = note.text
    return f"kept {note.title}"


@server.tool()
def notes(ctx: Context) -> dict[str, str]:
    """All notes, by title."""
    return pad(ctx)


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
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
