"""The rules: how a guess is marked."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

GUESSES = 6
"""Guesses of a game; one outside the vocabulary counts, too."""

SOLVED = "ggggg"


def marks(guess: str, hidden: str) -> str:
    """One letter a position: ``g`` right, ``y`` elsewhere in the hidden word, ``b`` not in it.

    As in LMRL-Gym, ``y`` is all that is said of a letter in a wrong place: how often the hidden word has it is not
    counted, so a letter guessed twice may be marked twice.
    """
    return "".join(
        "g" if letter == there else "y" if letter in hidden else "b"
        for letter, there in zip(guess, hidden, strict=True)
    )


def consistent(words: Sequence[str], guess: str, seen: str) -> tuple[str, ...]:
    """The words that would have been marked so."""
    return tuple(word for word in words if marks(guess, word) == seen)


class Game:
    """A hidden word that marks guesses.

    Args:
        hidden: the word. None does as LMRL-Gym: before each guess a word is drawn from those that agree with all marks
            so far, so the answer depends on the guesses.
        words: what is drawn from.
        seed: of the draws.
    """

    def __init__(self, hidden: str | None, words: Sequence[str], seed: int) -> None:
        self._hidden = hidden
        self._possible = words
        self._rng = Random(seed)

    def mark(self, guess: str) -> str:
        """Mark a guess of the vocabulary."""
        if self._hidden is not None:
            return marks(guess, self._hidden)
        seen = marks(guess, self._rng.choice(self._possible))
        self._possible = consistent(self._possible, guess, seen)
        return seen
