"""The oracle: at each guess it takes the word that tells the most possible words apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from agentgym_rl.envs.wordle.game import SOLVED, Game, consistent, marks

MANY = 60
"""Of more words than this the one with the most common letters is guessed."""
FEW = 12
"""Among at most so many, a word that cannot be the hidden one may be guessed where it tells more of them apart."""


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
