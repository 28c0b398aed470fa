"""ALFWorld's own games, from the folder that ``alfworld-download`` fills, run by TextWorld."""

import re
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from agentgym_rl.envs.alfworld.game import TYPES
from agentgym_rl.envs.alfworld.house import canonical
from agentgym_rl.envs.alfworld.session import Turn
from agentgym_rl.envs.alfworld.tasks import OFFICIAL, OWN
from agentgym_rl.envs.alfworld.wording import with_actions
from agentgym_rl.envs.bounds import cut
from agentgym_rl.envs.core import OracleUnavailable, Style, TaskNotFound
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.item_ids import alfworld_games
from agentgym_rl.envs.tables import json_object

FOLDERS = {"train": "json_2.1.1/train", "test": "json_2.1.1/valid_train"}
"""Where the games of AgentGym's splits are, as its server has it."""
OWN_FOLDERS = {split: f"json_2.1.1/{split}" for split in OWN}
_SOLVABLE = re.compile(rb'"solvable"\s*:\s*true')

FILE = "game.tw-pddl"

LIMIT = 4000
"""Longest observation, in characters."""
_CUT = " [...]"

_ONE_AT_A_TIME = Lock()
"""TextWorld's parser keeps state of its own: two games of a process must not be in it at once."""

_TASK = re.compile(r'Your task is to: ([^"]*?)\.?"')
_ARRIVAL = re.compile(r"You arrive at [^.]*\. ")
_MOVED = re.compile(r"You move the (.*) to the (.*)\.")


def check_folder(folder: Path) -> Path:
    """The folder, if it looks like ALFWorld's data. Raises ValueError: it does not."""
    known = {**FOLDERS, **OWN_FOLDERS}.values()
    if not any((folder / name).is_dir() for name in known):
        raise ValueError(
            f"no ALFWorld data at {folder}: it has none of {', '.join(known)}; "
            "give the folder that alfworld-download fills (ALFWORLD_DATA)"
        )
    return folder


@cache
def own_games(folder: Path, split: str) -> tuple[str, ...]:
    """The games that ALFWorld takes of a folder of its data, each as ``<task>/<trial>``, sorted.

    They are those of its six types without movable or sliced objects whose file says that they can be solved
    (``collect_game_files`` of ``alfred_tw_env.py``).

    Raises:
        TaskNotFound: they are not as many as in ALFWorld's release, so that they cannot be numbered.
    """
    place = folder / OWN_FOLDERS[split]
    names = sorted(file.parent.relative_to(place).as_posix() for file in place.glob(f"*/*/{FILE}") if _is_taken(file))
    if len(names) != len(OWN[split]):
        raise TaskNotFound(f"{place} has {len(names)} games, not {len(OWN[split])}; run alfworld-download again")
    return tuple(names)


def _is_taken(file: Path) -> bool:
    name = file.parent.parent.name
    return (
        name.partition("-")[0] in TYPES
        and "movable" not in name
        and "Sliced" not in name
        and file.with_name("traj_data.json").is_file()
        and _SOLVABLE.search(file.read_bytes()) is not None
    )


def name(folder: Path, index: int) -> str:
    """A game as ``<task>/<trial>``. Raises TaskNotFound: see :func:`own_games`."""
    for split, indices in OWN.items():
        if index in indices:
            return own_games(folder, split)[index - indices.start]
    return alfworld_games()[index]


def kind(folder: Path, index: int) -> str:
    """The type of a game's task."""
    return name(folder, index).partition("-")[0]


def path(folder: Path, index: int) -> Path:
    """The file of a game."""
    place = next(
        folders[split]
        for folders, splits in ((FOLDERS, OFFICIAL), (OWN_FOLDERS, OWN))
        for split, indices in splits.items()
        if index in indices
    )
    return folder / place / name(folder, index) / FILE


def read(folder: Path, index: int) -> dict[str, Any]:
    """What a game's file says.

    Raises:
        TaskNotFound: there is no such file.
        ValueError: it is not a game.
    """
    file = path(folder, index)
    if not file.is_file():
        raise TaskNotFound(f"alfworld_{index} needs the file {file}, which is not there; run alfworld-download")
    data = json_object(file)
    for key in ("pddl_domain", "grammar", "pddl_problem"):
        if not isinstance(data.get(key), str):
            raise ValueError(f"{file} is not a game: {key!r} is missing or no text")
    return data


def goal(folder: Path, index: int) -> str:
    """The task's sentence and the name of the game.

    Raises:
        TaskNotFound, ValueError: see :func:`read`; also where the grammar has no sentence.
    """
    match = _TASK.search(read(folder, index)["grammar"])
    if match is None:
        raise ValueError(f"{path(folder, index)} is not a game: its grammar has no 'Your task is to: '")
    return f"{' '.join(match[1].split())} in {name(folder, index)}"


def walkthrough(folder: Path, index: int, limit: int) -> list[str]:
    """The solution a game's file records.

    Raises:
        OracleUnavailable: it records none of at most ``limit`` commands.
        TaskNotFound, ValueError: see :func:`read`.
    """
    commands = read(folder, index).get("walkthrough")
    if not isinstance(commands, list) or not commands:
        raise OracleUnavailable(f"{path(folder, index)} records no walkthrough")
    if len(commands) > limit:
        raise OracleUnavailable(f"the walkthrough of {path(folder, index)} takes {len(commands)} of {limit} actions")
    return [canonical(str(command)) for command in commands]


class Official:
    """A game run by TextWorld, in the wording of AgentGym's server.

    Games of ALFWorld's later releases say ``move X to Y``; here they are ``put X in/on Y``, as in the release AgentGym
    pins. Where the agent arrives is left out, so is the greeting. In the style ``verl_agent`` all is as the game says
    it, and only the commands that it lists are possible. The command ``help`` is left out in all. Calls block, those of
    other games too.
    """

    def __init__(self, folder: Path, index: int, style: Style) -> None:
        """Load a game.

        Raises:
            MissingExtra: TextWorld or ALFWorld is not installed.
            TaskNotFound, ValueError: see :func:`read`.
        """
        read(folder, index)
        with needs("a game of ALFWorld's own", "alfworld"):
            import textworld
            from alfworld.agents.environment.alfred_tw_env import AlfredDemangler

        infos = textworld.EnvInfos(feedback=True, won=True, admissible_commands=True)
        wrappers = [AlfredDemangler(shuffle=False)]
        with _ONE_AT_A_TIME:
            self._game = textworld.start(str(path(folder, index)), infos, wrappers=wrappers)
        self._style = style
        self._commands: dict[str, str] = {}
        self._listed: tuple[str, ...] = ()

    def first(self) -> Turn:
        with _ONE_AT_A_TIME:
            state = self._game.reset()
        actions = self._list(state)
        if self._style == "verl_agent":
            return Turn(state.feedback, actions)
        text = "\n".join(state.feedback.split("\n\n")[1:])  # without the greeting
        text = text if self._style == "compact" else with_actions(text, actions)
        return Turn(cut(text, LIMIT, _CUT), actions)

    def act(self, action: str) -> Turn:
        exact = self._style == "verl_agent"
        command = (action if action in self._listed else None) if exact else self._commands.get(canonical(action))
        if command is None:
            return Turn("Nothing happens.", self._listed, invalid=True)
        with _ONE_AT_A_TIME:
            state, _, _ = self._game.step(command)
        text = state.feedback
        if self._style != "verl_agent":
            text = _MOVED.sub(r"You put the \1 in/on the \2.", _ARRIVAL.sub("", text, count=1))
        return Turn(cut(text, LIMIT, _CUT), self._list(state), bool(state.won))

    def close(self) -> None:
        self._game.close()

    def _list(self, state: Any) -> tuple[str, ...]:
        commands = [command for command in state.admissible_commands if command != "help"]
        self._commands = dict(sorted((canonical(command), command) for command in commands))
        self._listed = tuple(commands if self._style == "verl_agent" else self._commands)
        return self._listed
