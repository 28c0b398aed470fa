"""From task indices to games: numbering, splits, difficulty. Everything is a function of the index.

Indices below :data:`FIRST` are AgentGym's seeds, which need its vocabulary. From there on the sizes of the list take
turns; in ``train`` and ``test`` no task occurs twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.wordle import vocabulary
from agentgym_rl.envs.wordle.game import Game

SIZES = (10, 40, 160, None)
"""How many words the hidden one is among; they are listed. None: the whole vocabulary, which is not."""

FIRST = 10_000

SPLITS: Mapping[str, range] = {
    "train": range(FIRST, 10_400),
    "test": range(10_400, 10_500),
    "train_variants": range(10_500, 18_500),
    "val_variants": range(18_500, 19_300),
    "test_variants": range(19_300, 20_100),
}
"""Task indices of each split."""

SEEDS: Mapping[str, range] = {"train": range(9_000), "test": range(9_000, FIRST)}
"""The splits with AgentGym's vocabulary. It names none; lists of item ids do."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A task laid out."""

    words: tuple[str, ...]
    """What may be guessed."""
    hidden: str | None
    """None: see :class:`Game`."""
    seed: int
    listed: bool
    """Whether the agent is shown the words."""

    def __str__(self) -> str:
        name = hashlib.sha256(" ".join(self.words).encode()).hexdigest()[:8]
        return f"find {self.hidden or f'the word of seed {self.seed}'} among {len(self.words)} words, list {name}"

    def game(self) -> Game:
        """A new game."""
        return Game(self.hidden, self.words, self.seed)


def difficulty(index: int) -> str:
    """Among how many words the hidden one is, such as ``words 40`` or ``words all``.

    Raises:
        TaskNotFound: there is no such task.
    """
    return f"words {_size(index, _split(index)) or 'all'}"


@lru_cache(maxsize=8192)
def puzzle(index: int) -> Puzzle:
    """Lay out a task.

    Raises:
        TaskNotFound: there is no such task.
    """
    split = _split(index)
    size = _size(index, split)
    pool = vocabulary.pool(split)
    turn, place = divmod(index - SPLITS[split].start, len(SIZES))
    hidden = pool[(turn + place * len(pool) // len(SIZES)) % len(pool)]
    if size is None:
        return Puzzle(vocabulary.words(), hidden, index, listed=False)
    rng = Random(f"wordle 0:{index}")
    others = rng.sample([word for word in pool if word != hidden], size - 1)
    return Puzzle(tuple(sorted([hidden, *others])), hidden, index, listed=True)


def seeded(index: int, words: tuple[str, ...]) -> Puzzle:
    """AgentGym's game of a seed.

    Raises:
        TaskNotFound: the index is none of :data:`SEEDS`.
    """
    if index not in range(FIRST):
        raise TaskNotFound(f"wordle with a vocabulary of AgentGym has no task {index}: valid are 0 to {FIRST - 1}")
    return Puzzle(words, None, index, listed=True)


def _size(index: int, split: str) -> int | None:
    return SIZES[(index - SPLITS[split].start) % len(SIZES)]


def _split(index: int) -> str:
    for name, indices in SPLITS.items():
        if index in indices:
            return name
    if index in range(FIRST):
        raise TaskNotFound(
            f"wordle_{index} is a game of AgentGym and needs its words: give the option vocabulary=<path of LMRL-Gym's "
            f"tweet_words.txt>. Built-in tasks begin at {FIRST}"
        )
    raise TaskNotFound(f"wordle has no task {index}: valid are {FIRST} to {SPLITS['test_variants'][-1]}")
