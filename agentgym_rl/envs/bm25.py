"""An index of texts by BM25, made with bm25s (Lù 2024, arXiv:2407.03618)."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Iterable
from typing import Any

MAX_WORDS = 64
"""Number of different words of a query that are searched for; the others are ignored."""

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
    """Finds the texts that fit a query best. Of equal texts the first one wins, on every machine.

    Args:
        engine: a ``bm25s.BM25`` with an index.
        split: gives the words of a query, as those of the texts were given.
    """

    def __init__(self, engine: Any, split: Callable[[str], list[str]] = tokens) -> None:
        self.engine = engine
        self._split = split

    @classmethod
    def over(
        cls,
        texts: Iterable[str],
        show_progress: bool = False,
        split: Callable[[str], list[str]] = tokens,
        **settings: Any,
    ) -> Index:
        """Index the texts, which are read once; ``settings`` are those of ``bm25s.BM25``.

        Its own bars, with ``show_progress``, are for a terminal alone.

        Raises:
            ValueError: there is no text with a word in it.
        """
        import bm25s

        numbers: dict[str, int] = {}  # words as numbers of 4 bytes
        documents = [array("i", [numbers.setdefault(word, len(numbers)) for word in split(text)]) for text in texts]
        if not numbers:
            raise ValueError("there is nothing to index: no text has a word in it")
        engine = bm25s.BM25(**settings)
        engine.index((documents, numbers), show_progress=show_progress and sys.stderr.isatty())
        return cls(engine, split)

    def best(self, query: str, topk: int) -> list[int]:
        """Numbers of at most ``topk`` texts that share a word with the query, best first."""
        words = list(dict.fromkeys(self._split(query)))[:MAX_WORDS]
        known = self.engine.get_tokens_ids(words)
        if not known:
            return []
        scores = self.engine.get_scores_from_ids(known)
        numbers = scores.nonzero()[0]
        fit = scores[numbers]
        if topk < len(numbers):
            chosen = fit >= fit[fit.argpartition(-topk)[-topk:]].min()
            numbers, fit = numbers[chosen], fit[chosen]
        return [int(number) for number in numbers[(-fit).argsort(kind="stable")[:topk]]]
