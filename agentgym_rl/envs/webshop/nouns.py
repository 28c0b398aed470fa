"""The nouns of a product's title, by rules that take no model.

WebShop asks a model of spaCy, which takes most words of a title for (proper) nouns. So does this: every word is a noun
that does not begin with a digit, is not listed in ``nouns.toml`` (function words, and common adjectives, adverbs and
verbs of titles) and does not end as adjectives and adverbs do.
"""

import re
from functools import lru_cache
from pathlib import Path

from agentgym_rl.envs.tables import load

_WORD = re.compile("[^\\W\\d_][^\\W_]*(?:[.'\u2019&][^\\W_]+)*|\\w+")
_OTHERS = frozenset(
    word for words in load(Path(__file__).with_name("nouns.toml"), dict[str, str]).values() for word in words.split()
)
_ENDINGS = ("able", "ible", "ful", "less", "ous", "ly")


@lru_cache(maxsize=4096)
def nouns(title: str) -> tuple[str, ...]:
    """The nouns in lower case, in order, with repetitions."""
    words = (word.lower() for word in _WORD.findall(title))
    return tuple(word for word in words if _noun(word))


def _noun(word: str) -> bool:
    return word[0].isalpha() and word not in _OTHERS and not (len(word) > 5 and word.endswith(_ENDINGS))
