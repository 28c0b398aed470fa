"""The rules: how a guess is marked; and the oracle: it guesses the word that tells the most possible words apart."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from random import Random

GUESSES = 6
"""Guesses of a game; one outside the vocabulary counts, too."""

SOLVED = "ggggg"

MANY = 60
"""Of more words than this the oracle guesses the one with the most common letters."""
FEW = 12
"""Among at most so many, it may guess a word that cannot be the hidden one where that tells more of them apart."""


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


def solve(game: Game, words: tuple[str, ...]) -> list[str]:
    """The guesses of a whole game, the last of which is right. It sees nothing but the marks."""
    possible, guesses = words, []
    while True:
        guesses.append(choose(possible, words))
        seen = game.mark(guesses[-1])
        if seen == SOLVED:
            return guesses
        possible = consistent(possible, guesses[-1], seen)


@lru_cache(maxsize=4096)
def choose(possible: tuple[str, ...], words: tuple[str, ...]) -> str:
    """The next guess, when ``possible`` words of the vocabulary agree with all marks so far."""
    if len(possible) > MANY:
        return _most_common_letters(possible)
    guess = max(possible, key=lambda word: _classes(word, possible))
    if 2 < len(possible) <= FEW and _classes(guess, possible) < len(possible):
        return max((guess, *words), key=lambda word: _classes(word, possible))
    return guess


def _classes(guess: str, possible: Sequence[str]) -> int:
    """Into how many groups the marks on a guess divide the words."""
    return len({marks(guess, word) for word in possible})


def _most_common_letters(possible: Sequence[str]) -> str:
    anywhere = Counter(letter for word in possible for letter in set(word))
    here = Counter(placed for word in possible for placed in enumerate(word))
    return max(
        possible,
        key=lambda word: 2 * sum(anywhere[letter] for letter in set(word)) + sum(here[at] for at in enumerate(word)),
    )
