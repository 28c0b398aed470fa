"""From task indices to games.

Indices below 2620 are ALFWorld's own games as AgentGym numbers them. From 10,000 on the sizes of rooms take turns, then
the types of tasks. No game occurs in two splits. From 100,000 on are ALFWorld's games by the folders of its data, in
the order of their names.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random

from agentgym_rl.envs.alfworld.draw import SIZES, draw
from agentgym_rl.envs.alfworld.game import TYPES, Game
from agentgym_rl.envs.splits import Splits

OFFICIAL: Mapping[str, range] = {"train": range(2420), "test": range(2420, 2620)}
"""AgentGym's indices of ALFWorld's games."""

OWN: Mapping[str, range] = {
    "train": range(100_000, 103_553),
    "valid_seen": range(200_000, 200_140),
    "valid_unseen": range(300_000, 300_134),
}
"""Indices of the games in each folder of ALFWorld's data, as many as ALFWorld itself takes of it."""

SPLITS = Splits.read(__file__, "alfworld")

SEED = "alfworld 0"
"""Under this seed no game of ``train`` or ``test`` occurs twice."""


def is_alfworlds(index: int) -> bool:
    """Whether a game is in ALFWorld's data, by whichever numbers."""
    return index in SPLITS.official or any(index in indices for indices in OWN.values())


_KINDS = tuple((size, type) for type in TYPES for size in SIZES)


def kind(index: int) -> tuple[str, str]:
    """Size of the room and type of the task. Raises TaskNotFound: there is no such game."""
    return _KINDS[SPLITS.locate(index)[1] % len(_KINDS)]


@lru_cache(maxsize=1024)
def game(index: int) -> Game:
    """Lay out a game. Raises TaskNotFound: there is no such game."""
    split, _ = SPLITS.locate(index)
    size, type = kind(index)
    rng = Random(f"{SEED}:{index}")
    while True:
        drawn = draw(type, size, rng)
        if SPLITS.owns(split, drawn.fingerprint):
            return drawn


@lru_cache(maxsize=64)
def splits(size: str | None, types: tuple[str, ...]) -> Mapping[str, Sequence[int]]:
    """:data:`SPLITS` with the games of one size (of all where None) and of some types, in their order."""
    if size is None and types == TYPES:
        return SPLITS
    chosen = [(size is None or kind[0] == size) and kind[1] in types for kind in _KINDS]
    return {
        name: tuple(index for place, index in enumerate(indices) if chosen[place % len(chosen)])
        for name, indices in SPLITS.items()
    }
