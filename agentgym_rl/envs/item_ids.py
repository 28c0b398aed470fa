"""ALFWorld's own games in AgentGym's order: from the long form of an item id to its index.

``alfworld/games.txt.gz`` has one line ``<task>/<trial>`` a game: 0 to 2419 are AgentGym's training games, 2420 to 2619
its test games. The names are ALFRED's and ALFWorld's, their order is a fact of AgentGym (all MIT).
"""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path


@cache
def games() -> tuple[str, ...]:
    """The games by index, such as ``look_at_obj_in_light-AlarmClock-None-DeskLamp-301/trial_T20190907_174127_043461``.

    Task and trial are also the folders that hold a game in ALFWorld's data.
    """
    path = Path(__file__).parent / "alfworld" / "games.txt.gz"
    return tuple(gzip.decompress(path.read_bytes()).decode("ascii").split())


def index_of(item_id: str) -> int | None:
    """The index of a game given as ``<task>_<trial>``, or None where the text is not the name of one of them."""
    return _indices().get(item_id) if "_trial_T" in item_id else None


@cache
def _indices() -> dict[str, int]:
    return {game.replace("/", "_"): index for index, game in enumerate(games())}
