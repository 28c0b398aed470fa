"""The interface of search engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a corpus."""

    title: str
    text: str

    @classmethod
    def of(cls, contents: str) -> Passage:
        """Read Search-R1's ``contents``: the title in quotes on the first line, then the text."""
        title, _, text = contents.partition("\n")
        return cls(title.strip().strip('"'), text.strip())


class Retriever(Protocol):
    """A search engine."""

    async def search(self, query: str, topk: int) -> list[Passage]:
        """At most ``topk`` passages, best first.

        Raises:
            EnvUnavailable: the engine cannot be reached.
            EnvTimeout: it did not answer in time.
            ProtocolError: its answer is malformed.
        """
