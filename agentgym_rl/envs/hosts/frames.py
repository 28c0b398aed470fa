"""Python objects over a byte stream: length (4 bytes, big-endian), then the pickle. Only for one's own processes."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

HEAD = 4


def pack(content: Any) -> bytes:
    """A frame with the content."""
    data = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(HEAD) + data


async def unpack(reader: asyncio.StreamReader) -> Any:
    """The content of the next frame.

    Raises:
        asyncio.IncompleteReadError: the stream ended.
    """
    size = int.from_bytes(await reader.readexactly(HEAD))
    return pickle.loads(await reader.readexactly(size))
