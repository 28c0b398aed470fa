"""BM25 over passages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Lock

from agentgym_rl.envs.bm25 import Index
from agentgym_rl.envs.core import in_thread
from agentgym_rl.envs.extras import missing

SCHEME = "words 1"
"""Name of the way that texts are split into words, kept with a saved index: queries are split as passages are."""


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


class BM25:
    """A search engine over passages.

    Args:
        load: returns the index, and what gives the ``contents`` of a passage by its number; called once, in a thread,
            at the first search.
        threaded: search in threads, for an index so large that a search would delay other episodes.

    Raises:
        MissingExtra: bm25s is not installed.
    """

    def __init__(self, load: Callable[[], tuple[Index, Callable[[int], str]]], threaded: bool = False) -> None:
        if find_spec("bm25s") is None:
            raise missing("BM25 search", "bm25s", "searchqa")
        self._load = load
        self._threaded = threaded
        self._lock = Lock()
        self._loaded: tuple[Index, Callable[[int], str]] | None = None

    async def search(self, query: str, topk: int) -> list[Passage]:
        """At most ``topk`` passages, best first."""
        if self._threaded or self._loaded is None:
            return await in_thread(self._search, query, topk)
        return self._search(query, topk)

    def _search(self, query: str, topk: int) -> list[Passage]:
        if self._loaded is None:
            with self._lock:
                self._loaded = self._loaded or self._load()
        index, contents = self._loaded
        return [Passage.of(contents(number)) for number in index.best(query, topk)]
