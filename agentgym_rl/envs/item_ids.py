"""AgentGym's item ids, as text.

An item id is ``<env>_<index>``, such as ``textcraft_12``. AgentGym has two other forms: ids with a prefix
(:data:`PREFIXED`) and the names of ALFWorld's games.
"""

import gzip
import re
from functools import cache
from pathlib import Path

ITEM_ID = re.compile(r"([a-z][a-z0-9_-]*)_([0-9]{1,18})")
PREFIXED = {
    "lmrlgym_maze": "maze",
    "lmrlgym_wordle": "wordle",
    "tool_weather": "weather",
    "tool_movie": "movie",
    "tool_academia": "academia",
    "tool_todo": "todo",
    "tool_sheet": "sheet",
}
"""AgentGym's names of environments that have another name here."""


def read(item_id: str) -> tuple[str, int] | None:
    """Environment and index of an item id of any form, or None where the text is no item id."""
    if match := ITEM_ID.fullmatch(item_id):
        return PREFIXED.get(match[1], match[1]), int(match[2])
    if "_trial_T" in item_id and item_id in _alfworld_indices():
        return "alfworld", _alfworld_indices()[item_id]
    return None


def check_name(name: str) -> None:
    """Raises ValueError: ids of an environment of this name cannot be read, or are those of another one."""
    if read(f"{name}_0") != (name, 0):
        raise ValueError(
            f"ids such as {name}_0 are not read as those of {name!r}; give small letters, digits, _ and -, a letter "
            f"first, and none of {', '.join(PREFIXED)}"
        )


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
