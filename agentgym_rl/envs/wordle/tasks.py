"""From task indices to games.

Indices below 10,000 are AgentGym's seeds, which need its vocabulary. From there on the sizes of the list take turns.
No word is hidden in two splits; in ``train`` and ``test`` no task occurs twice.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from random import Random

from agentgym_rl.envs.splits import Splits, fingerprint, no_task
from agentgym_rl.envs.tables import read_utf8
from agentgym_rl.envs.wordle.game import Game

LENGTH = 5
"""Letters of a word."""

SIZES = (10, 40, 160, None)
"""How many words the hidden one is among; they are listed. None: the whole vocabulary, which is not."""

SPLITS = Splits.read(__file__, "wordle")

SEEDS: Mapping[str, range] = {"train": range(9_000), "test": range(9_000, 10_000)}
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
        hidden = self.hidden or f"the word of seed {self.seed}"
        return f"find {hidden} among {len(self.words)} words, list {fingerprint(' '.join(self.words), 8)}"

    def game(self) -> Game:
        """A new game."""
        return Game(self.hidden, self.words, self.seed)


def difficulty(index: int) -> str:
    """Among how many words the hidden one is, such as ``words 40`` or ``words all``.

    Raises:
        TaskNotFound: there is no such task.
    """
    return f"words {SIZES[SPLITS.locate(index)[1] % len(SIZES)] or 'all'}"


@lru_cache(maxsize=8192)
def puzzle(index: int) -> Puzzle:
    """Lay out a task. Raises TaskNotFound: there is no such task."""
    split, place = SPLITS.locate(index)
    choosable = pool(split)
    turn, kind = divmod(place, len(SIZES))
    hidden = choosable[(turn + kind * len(choosable) // len(SIZES)) % len(choosable)]
    size = SIZES[kind]
    if size is None:
        return Puzzle(words(), hidden, index, listed=False)
    rng = Random(f"wordle 0:{index}")
    others = rng.sample([word for word in choosable if word != hidden], size - 1)
    return Puzzle(tuple(sorted([hidden, *others])), hidden, index, listed=True)


def seeded(index: int, words: tuple[str, ...]) -> Puzzle:
    """AgentGym's game of a seed. Raises TaskNotFound: the index is none of :data:`SEEDS`."""
    if index not in SPLITS.official:
        raise no_task("wordle with a vocabulary of AgentGym", index, SEEDS.values())
    return Puzzle(words, None, index, listed=True)


@cache
def words() -> tuple[str, ...]:
    """Common English words of five letters, in alphabetical order, collected for this package."""
    return tuple((Path(__file__).parent / "words.txt").read_text(encoding="ascii").split())


@cache
def pool(split: str) -> tuple[str, ...]:
    """The words that may be hidden in a split, shuffled; no word is in two pools."""
    fingerprints = {word: fingerprint(word, 12) for word in words()}
    members = [word for word in words() if SPLITS.owns(split, fingerprints[word])]
    return tuple(sorted(members, key=fingerprints.__getitem__))


def read_words(path: str | Path) -> tuple[str, ...]:
    """The words of a vocabulary file of LMRL-Gym: one a line, in its order; lines of another length are skipped.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds no word of five letters, or something else of that length; the message names file and line.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"vocabulary {path} does not exist; give LMRL-Gym's tweet_words.txt")
    words_read = []
    for number, line in enumerate(read_utf8(Path(path)).splitlines(), start=1):
        word = line.strip()
        if len(word) != LENGTH:
            continue
        if not re.fullmatch("[a-z]+", word):
            raise ValueError(f"{path}, line {number}: {word!r} is no word in small letters a to z")
        words_read.append(word)
    if not words_read:
        raise ValueError(f"{path} holds no word of {LENGTH} letters")
    return tuple(words_read)
