"""From task indices to games: numbering, splits, difficulty. Everything is a function of the index.

Indices below :data:`OFFICIAL` are ALFWorld's own games as AgentGym numbers them. From :data:`FIRST` on sizes of rooms
take turns, then the types of tasks. The fingerprint of a game decides which split may use it, so no game is in two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random

from agentgym_rl.envs.alfworld.draw import SIZES, draw
from agentgym_rl.envs.alfworld.game import TYPES, Game
from agentgym_rl.envs.core import TaskNotFound

OFFICIAL: Mapping[str, range] = {"train": range(2420), "test": range(2420, 2620)}
"""AgentGym's indices of ALFWorld's games."""

FIRST = 10_000
"""The first game drawn by this package."""

SPLITS: Mapping[str, range] = {
    "train": range(10_000, 10_540),
    "test": range(10_540, 10_720),
    "train_variants": range(10_720, 28_720),
    "val_variants": range(28_720, 30_520),
    "test_variants": range(30_520, 32_320),
}

SEED = "alfworld 0"
"""Under this seed no game of ``train`` or ``test`` occurs twice."""

SHARES: Mapping[str, range] = {
    "train": range(0, 2),
    "test": range(2, 3),
    "train_variants": range(3, 8),
    "val_variants": range(8, 9),
    "test_variants": range(9, 10),
}
"""The last decimal digits of fingerprints (read as numbers) that belong to each split."""

_KINDS = tuple((size, type) for type in TYPES for size in SIZES)


def kind(index: int) -> tuple[str, str]:
    """Size of the room and type of the task.

    Raises:
        TaskNotFound: there is no such game.
    """
    _split(index)
    return _KINDS[(index - FIRST) % len(_KINDS)]


@lru_cache(maxsize=1024)
def game(index: int) -> Game:
    """Lay out a game.

    Raises:
        TaskNotFound: there is no such game.
    """
    split = _split(index)
    size, type = kind(index)
    rng = Random(f"{SEED}:{index}")
    while True:
        drawn = draw(type, size, rng)
        if int(drawn.fingerprint, 16) % 10 in SHARES[split]:
            return drawn


@lru_cache(maxsize=64)
def splits(size: str | None, types: tuple[str, ...]) -> Mapping[str, Sequence[int]]:
    """:data:`SPLITS` with the games of one size (of all where None) and of some types, in their order."""
    if size is None and types == TYPES:
        return SPLITS
    places = [place for place, kind in enumerate(_KINDS) if (size is None or kind[0] == size) and kind[1] in types]
    return {
        name: tuple(index for index in indices if (index - FIRST) % len(_KINDS) in places)
        for name, indices in SPLITS.items()
    }


def _split(index: int) -> str:
    for name, indices in SPLITS.items():
        if index in indices:
            return name
    raise TaskNotFound(
        f"alfworld has no task {index}: 0 to {OFFICIAL['test'][-1]} are ALFWorld's games, "
        f"{FIRST} to {SPLITS['test_variants'][-1]} those built in"
    )
