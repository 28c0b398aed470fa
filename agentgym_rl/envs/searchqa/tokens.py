"""Texts as words to search by."""

from __future__ import annotations

import re

SCHEME = "words 1"
"""Name of this way to cut texts, kept with a saved index: queries must be cut as the passages were."""

_WORD = re.compile(r"\w+")
_COMMON_WORDS = (
    "a an and are as at be but by did do does for from had has have he her his how if in into is it its no not of on "
    "or s she such that the their then there these they this to was were what when where which who whom whose why "
    "will with"
)
_COMMON = frozenset(_COMMON_WORDS.split())


def tokens(text: str) -> list[str]:
    """Words in lower case, in order, without the most common English ones."""
    return [word for word in _WORD.findall(text.casefold()) if word not in _COMMON]
