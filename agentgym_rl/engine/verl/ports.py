"""The port on which the workers of a run meet."""

from __future__ import annotations

import os

FIRST, END = 20_000, 32_768
"""Of the range; the system lends ports from the end on to every new connection."""
STARTS, APART = 12_000, 7_309
"""How many ports processes begin at, and how far those of consecutive ids are apart: by the golden section, so that no
two processes of close ids begin near each other."""


def meeting_ports(process: int | None = None) -> list[int]:
    """The range in which verl takes the first free port, long before the workers listen on it.

    Two runs that start at the same time would take the same port, so each process begins elsewhere.

    Args:
        process: its id; that of this one without it.
    """
    return [FIRST + (os.getpid() if process is None else process) * APART % STARTS, END]
