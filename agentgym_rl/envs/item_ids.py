"""AgentGym's item ids, as text.

An item id is ``<env>_<index>``, such as ``textcraft_12``. AgentGym has two other forms: ids with a prefix
(``lmrlgym_maze_3``, ``tool_weather_7``) and the names of ALFWorld's games.
"""

import gzip
import re
from functools import cache
from pathlib import Path

ITEM_ID = re.compile(r"(?:(?:lmrlgym|tool)_)?([a-z][a-z0-9_-]*)_([0-9]{1,18})")


def read(item_id: str) -> tuple[str, int] | None:
    """Environment and index of an item id of any form, or None where the text is no item id."""
    if match := ITEM_ID.fullmatch(item_id):
        return match[1], int(match[2])
    if "_trial_T" in item_id and item_id in _alfworld_indices():
        return "alfworld", _alfworld_indices()[item_id]
    return None


@cache
def alfworld_games() -> tuple[str, ...]:
    """ALFWorld's own games in AgentGym's order.

    A game is ``<task>/<trial>``, such as
    ``look_at_obj_in_light-AlarmClock-None-DeskLamp-301/trial_T20190907_174127_043461``; these are also the folders that
    hold it in ALFWorld's data. Games 0 to 2419 are AgentGym's training games, 2420 to 2619 its test games. The names
    are ALFRED's and ALFWorld's, their order is a fact of AgentGym (all MIT).
    """
    path = Path(__file__).parent / "alfworld" / "games.txt.gz"
    return tuple(gzip.decompress(path.read_bytes()).decode("ascii").split())


@cache
def _alfworld_indices() -> dict[str, int]:
    """Index by the long form of an item id, ``<task>_<trial>``."""
    return {game.replace("/", "_"): index for index, game in enumerate(alfworld_games())}
