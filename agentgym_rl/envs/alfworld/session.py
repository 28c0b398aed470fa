"""A built-in game under way."""

from dataclasses import dataclass

from agentgym_rl.envs.alfworld import wording
from agentgym_rl.envs.alfworld.game import Game
from agentgym_rl.envs.alfworld.house import NOTHING, House
from agentgym_rl.envs.core import Style


@dataclass(frozen=True, slots=True)
class Turn:
    """What a game shows, in either engine."""

    text: str
    actions: tuple[str, ...]
    """What can be done now."""
    won: bool = False
    invalid: bool = False
    """The action that led here could not be carried out."""


class BuiltIn:
    """A game run by :class:`~agentgym_rl.envs.alfworld.house.House`."""

    def __init__(self, game: Game, style: Style) -> None:
        self._house = House(game)
        self._style: Style = style

    def first(self) -> Turn:
        """What is read before the first action."""
        return Turn(wording.first(self._house, self._style), self._house.possible())

    def act(self, action: str) -> Turn:
        event = self._house.act(action)
        text = wording.tell(event, self._house, self._style)
        return Turn(text, self._house.possible(), self._house.solved(), event.verb == NOTHING)
