"""Other missions that a level can have: go to an object, pick it up, or open a door."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minigrid.core.actions import Actions
from minigrid.envs.babyai.core.verifier import GoToInstr, ObjDesc, OpenInstr, PickupInstr

from agentgym_rl.envs.babyai.commands import PORTABLE
from agentgym_rl.envs.babyai.level import Level
from agentgym_rl.envs.core import Achieved, Step


def missions(level: Level) -> dict[str, Any]:
    """The missions with one object that a level can have before anything was done, by their words."""
    things = [level.at(cell) for cell in sorted(level.all_cells())]
    kinds = dict.fromkeys((thing.type, thing.color) for thing in things if thing is not None)
    instructions = {}
    for kind, colour in kinds:
        for instruction in _instructions(kind, colour):
            instruction.reset_verifier(level.minigrid)
            instructions[str(instruction.surface(level.minigrid))] = instruction
    return instructions


def _instructions(kind: str, colour: str) -> Iterator[Any]:
    if kind == "door":
        yield OpenInstr(ObjDesc(kind, colour))
    elif kind in PORTABLE:
        yield PickupInstr(ObjDesc(kind, colour))
    else:
        return
    yield GoToInstr(ObjDesc(kind, colour))


def achieved(level: Level, step: Callable[[str], Step], commands: Sequence[str]) -> Achieved | None:
    """The mission that commands fulfil last, of those to pick up or to open if there are any.

    Args:
        level: before anything was done.
        step: carries out a command in it.
    """
    waiting, task_mission = missions(level), level.mission
    fulfilled: dict[str, int] = {}
    executed: list[str] = []

    def watch(action: Actions) -> None:
        for mission, instruction in [*waiting.items()]:
            if action == Actions.drop:
                instruction.update_objs_poss()
            if instruction.verify(action) == "success":
                fulfilled[mission] = len(executed)
                del waiting[mission]

    level.watchers.append(watch)
    for command in commands:
        executed.append(command)
        if step(command).done:
            break
    others = [mission for mission in fulfilled if mission != task_mission]
    if not others:
        return None
    goal = max(others, key=lambda mission: (not mission.startswith("go to"), fulfilled[mission]))
    return Achieved(goal, fulfilled[goal])
