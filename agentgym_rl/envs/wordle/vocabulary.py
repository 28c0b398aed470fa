"""The words: ours, dealt to the splits, or those of a file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

LENGTH = 5
"""Letters of a word."""

SHARES: Mapping[str, str] = {
    "train": "01",
    "test": "9",
    "train_variants": "2345",
    "val_variants": "67",
    "test_variants": "8",
}
"""The last decimal digits of fingerprints that belong to each split."""


@cache
def words() -> tuple[str, ...]:
    """Common English words of five letters, in alphabetical order, collected for this package."""
    return tuple(files(__package__).joinpath("words.txt").read_text(encoding="ascii").split())


@cache
def pool(split: str) -> tuple[str, ...]:
    """The words that may be hidden in a split, shuffled; no word is in two pools."""
    own = (word for word in words() if str(_fingerprint(word))[-1] in SHARES[split])
    return tuple(sorted(own, key=_fingerprint))


def _fingerprint(word: str) -> int:
    return int(hashlib.sha256(word.encode()).hexdigest()[:12], 16)


def read(path: str | Path) -> tuple[str, ...]:
    """The words of a vocabulary file of LMRL-Gym: one a line, in its order; lines of another length are passed over.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds no word of five letters, or something else of that length; names file and line.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"vocabulary {path} does not exist; give LMRL-Gym's tweet_words.txt")
    found = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        word = line.strip()
        if len(word) != LENGTH:
            continue
        if not re.fullmatch("[a-z]+", word):
            raise ValueError(f"{path}, line {number}: {word!r} is no word in small letters a to z")
        found.append(word)
    if not found:
        raise ValueError(f"{path} holds no word of {LENGTH} letters")
    return tuple(found)
