"""BM25 over passages, by bm25s (Lù 2024, arXiv:2407.03618)."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Lock
from typing import Any

from agentgym_rl.envs.core import in_thread
from agentgym_rl.envs.extras import missing

MAX_WORDS = 64
"""Number of different words of a query that are searched for; the others are ignored."""

SCHEME = "words 1"
"""Name of the way that texts are split into words, kept with a saved index: queries are split as passages are."""

_WORD = re.compile(r"\w+")
_COMMON_WORDS = (
    "a an and are as at be but by did do does for from had has have he her his how if in into is it its no not of on "
    "or s she such that the their then there these they this to was were what when where which who whom whose why "
    "will with"
)
_COMMON = frozenset(_COMMON_WORDS.split())


def tokens(text: str) -> list[str]:
    """The words of a text in lower case, in order, without the most common English words."""
    return [word for word in _WORD.findall(text.casefold()) if word not in _COMMON]


class Index:
    """Finds the passages that fit a query best. Of equal passages the first one wins, on every machine.

    Args:
        engine: a ``bm25s.BM25`` with an index.
    """

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    @classmethod
    def over(cls, texts: Iterable[str], show_progress: bool = False) -> Index:
        """Index the texts, which are read once.

        Raises:
            ValueError: there is no text with a word in it.
        """
        import bm25s

        numbers: dict[str, int] = {}  # words as numbers of 4 bytes
        documents = [array("i", [numbers.setdefault(word, len(numbers)) for word in tokens(text)]) for text in texts]
        if not numbers:
            raise ValueError("there is nothing to index: no text has a word in it")
        engine = bm25s.BM25()
        engine.index((documents, numbers), show_progress=show_progress)
        return cls(engine)

    def best(self, query: str, topk: int) -> list[int]:
        """Numbers of at most ``topk`` passages that share a word with the query, best first."""
        words = list(dict.fromkeys(tokens(query)))[:MAX_WORDS]
        known = self.engine.get_tokens_ids(words)
        if not known:
            return []
        scores = self.engine.get_scores_from_ids(known)
        found = scores.nonzero()[0]
        fit = scores[found]
        if topk < len(found):
            chosen = fit >= fit[fit.argpartition(-topk)[-topk:]].min()
            found, fit = found[chosen], fit[chosen]
        return [int(number) for number in found[(-fit).argsort(kind="stable")[:topk]]]


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
