"""ALFWorld: tasks of a household, such as putting a hot apple in the fridge."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from agentgym_rl.envs.actions import format_react, format_tags, parse_rest, parse_tags
from agentgym_rl.envs.alfworld import official, tasks, wording
from agentgym_rl.envs.alfworld.draw import SIZES
from agentgym_rl.envs.alfworld.game import TYPES, Game
from agentgym_rl.envs.alfworld.goals import goals, reached
from agentgym_rl.envs.alfworld.plan import plan
from agentgym_rl.envs.alfworld.session import BuiltIn
from agentgym_rl.envs.core import Achieved, Observation, Step, Style, Task, TextEnv, in_thread
from agentgym_rl.envs.knobs import Knob

MAX_STEPS = 50
"""Actions in an episode, the limit of AgentGym's server; the last one truncates."""


class ALFWorld(TextEnv):
    """ALFWorld (Shridhar et al. 2021, arXiv:2010.03768): its own games where they are installed, and games like them.

    Reaching the goal earns 1 and ends the episode. What is not possible is answered with "Nothing happens." and is
    ``invalid`` in ``info``. After :data:`MAX_STEPS` actions without success the episode is truncated.

    Args:
        style: wording of instruction and observations.
        size: let all splits have rooms of this size only: small, medium or large.
        types: let all splits have tasks of this type, or of these types, only.
        data: folder of ALFWorld's own data; the splits are then AgentGym's, 0 to 2419 and 2420 to 2619.
        splits: with ``data``, whose splits: ``agentgym``, or ``alfworld`` for the folders of the data itself:
            ``train`` (3,553 games), ``valid_seen`` (140) and ``valid_unseen`` (134), which is ``test``, too.

    Raises:
        ValueError: there is no such size, type or splits, the folder holds no such data, or it comes with a size.
    """

    name = "alfworld"
    styles: ClassVar[tuple[Style, ...]] = ("agentgym", "compact", "verl_agent")
    knobs = (Knob("size", tuple(SIZES)), Knob("types", TYPES, ordered=False))

    def __init__(
        self,
        style: Style = "agentgym",
        size: str | None = None,
        types: str | Sequence[str] | None = None,
        data: str | None = None,
        splits: Literal["agentgym", "alfworld"] = "agentgym",
    ) -> None:
        super().__init__(style)
        if size is not None and size not in SIZES:
            raise ValueError(f"size {size!r} is unknown; choose one of {', '.join(SIZES)}")
        if size is not None and data is not None:
            raise ValueError(f"size {size!r} is for built-in games; leave out either size or data")
        if splits == "alfworld" and data is None:
            raise ValueError("splits=alfworld are those of ALFWorld's data; give data=<folder>, too")
        self._own_splits = splits == "alfworld"
        self._data = None if data is None else official.check_folder(Path(data).expanduser())
        self._spec = wording.TEXTS.spec(
            self.name,
            self._splits(size, _checked(types)),
            read=partial(parse_tags, lower=True) if style == "verl_agent" else parse_rest,
            write=format_tags if style == "verl_agent" else format_react,
            prompt=wording.PROMPT if style == "verl_agent" else None,
            extra="alfworld" if data is not None else None,
        )
        self._session: BuiltIn | official.Official | None = None
        self._steps = 0

    async def _reset(self, task: Task) -> Observation:
        await self._close()
        folder = self._folder(task)
        if folder is None:
            self._session = BuiltIn(self._game(task), self.style)
            turn = self._session.first()
        else:
            self._session = await in_thread(official.Official, folder, task.index, self.style)
            turn = await in_thread(self._session.first)
        self._steps = 0
        return Observation(turn.text, turn.actions)

    async def _step(self, action: str) -> Step:
        session = self._session
        assert session is not None, "stepped before a reset"
        blocks = isinstance(session, official.Official)
        turn = await in_thread(session.act, action) if blocks else session.act(action)
        self._steps += 1
        truncated = self._steps == MAX_STEPS and not turn.won
        if turn.won or truncated:
            await self._close()
        observation = Observation(turn.text, () if turn.won or truncated else turn.actions)
        return Step(observation, float(turn.won), turn.won, truncated, {"invalid": turn.invalid})

    async def _close(self) -> None:
        session, self._session = self._session, None
        if isinstance(session, official.Official):
            session.close()

    def goal(self, task: Task) -> str:
        """The task's sentence, and which game it is. For one of ALFWorld's own games it reads the file."""
        folder = self._folder(task)
        return _described(self._game(task)) if folder is None else official.goal(folder, task.index)

    async def content(self, task: Task) -> str:
        """The layout, of which the first observation shows the receptacles; one of ALFWorld's own games by its name."""
        return self.goal(task) if self._folder(task) is not None else self._game(task).fingerprint

    def difficulty(self, task: Task) -> str:
        """Size of the room and type of the task, such as ``small look_at_obj_in_light``; ALFWorld's own: the type."""
        folder = self._folder(task)
        return " ".join(tasks.kind(task.index)) if folder is None else official.kind(folder, task.index)

    def oracle(self, task: Task) -> list[str]:
        """The shortest solution when all places are known. ALFWorld's own games record one."""
        folder = self._folder(task)
        if folder is not None:
            return official.walkthrough(folder, task.index, MAX_STEPS)
        return plan(tasks.game(task.index))

    @property
    def relabels(self) -> bool:
        """Built-in games only."""
        return self._data is None

    def achieved(self, task: Task, commands: Sequence[str]) -> Achieved | None:
        """See :func:`.goals.reached`."""
        if not self.relabels:
            return super().achieved(task, commands)
        game = tasks.game(self._index(task))
        if (goal_and_turn := reached(game, commands[:MAX_STEPS])) is None:
            return None
        goal, turn = goal_and_turn
        return Achieved(_described(replace(game, goal=goal)), turn)

    def _game(self, task: Task) -> Game:
        """A built-in game, with the goal of this session."""
        original = tasks.game(task.index)
        if not self._pursued:
            return original
        asked = self._pursued.rpartition(" in ")[0]
        games = (replace(original, goal=goal) for goal in goals(original) if wording.sentence(goal) == asked)
        if (game := next(games, None)) is None or _described(game) != self._pursued:
            raise self._no_such_goal(task)
        return game

    def _splits(self, size: str | None, types: tuple[str, ...]) -> Mapping[str, Sequence[int]]:
        data = self._data
        if data is None:
            return tasks.splits(size, types)
        splits = {**tasks.OWN, "test": tasks.OWN["valid_unseen"]} if self._own_splits else tasks.OFFICIAL
        if types == TYPES:
            return splits
        return {
            name: tuple(index for index in indices if official.kind(data, index) in types)
            for name, indices in splits.items()
        }

    def _folder(self, task: Task) -> Path | None:
        """The folder of ALFWorld's data if the task is one of its own games, None if it is built in."""
        return self._data if tasks.is_alfworlds(self._index(task)) else None


def _described(game: Game) -> str:
    """The sentence of a game, and which one it is."""
    return f"{wording.sentence(game.goal)} in {game.room}-{game.fingerprint}"


def _checked(types: str | Sequence[str] | None) -> tuple[str, ...]:
    chosen = TYPES if types is None else (types,) if isinstance(types, str) else tuple(types)
    for type in chosen:
        if type not in TYPES:
            raise ValueError(f"type {type!r} is unknown; choose among {', '.join(TYPES)}")
    if not chosen:
        raise ValueError(f"types is empty; choose among {', '.join(TYPES)}")
    return tuple(type for type in TYPES if type in chosen)
