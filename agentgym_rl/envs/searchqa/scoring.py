"""How right an answer is: exact match and F1 after SQuAD (Rajpurkar et al. 2016, arXiv:1606.05250)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalise(text: str) -> str:
    """Lower case, without punctuation, without articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golden: Sequence[str]) -> bool:
    """Whether the answer is one of the golden answers once both are normalised."""
    given = normalise(answer)
    return any(given == normalise(each) for each in golden)


def f1(answer: str, golden: Sequence[str]) -> float:
    """Harmonic mean of precision and recall over words, with the golden answer where it is highest; in [0, 1]."""
    given = Counter(normalise(answer).split())
    return max((_f1(given, Counter(normalise(each).split())) for each in golden), default=0.0)


def _f1(given: Counter[str], golden: Counter[str]) -> float:
    shared = (given & golden).total()
    return 2 * shared / (given.total() + golden.total()) if shared else 0.0
