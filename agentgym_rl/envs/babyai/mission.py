"""Which clause of a mission is next, and the objects it is about."""

from __future__ import annotations

from typing import Any

from minigrid.envs.babyai.core.verifier import AfterInstr, AndInstr, BeforeInstr, GoToInstr, ObjDesc

from agentgym_rl.envs.babyai.geometry import Cell
from agentgym_rl.envs.babyai.known_map import KnownMap


def next_clause(instruction: Any) -> Any:
    """The first clause that minigrid's verifier does not hold fulfilled, in the order the mission demands."""
    if isinstance(instruction, AfterInstr):
        first, second, first_done = instruction.instr_b, instruction.instr_a, instruction.b_done
    elif isinstance(instruction, (BeforeInstr, AndInstr)):
        first, second, first_done = instruction.instr_a, instruction.instr_b, instruction.a_done
    else:
        return instruction
    return next_clause(second if first_done == "success" else first)


def targets(known: KnownMap, description: ObjDesc) -> list[Cell]:
    """The cells of the described objects whose places are known; minigrid counts walls as grey objects."""
    wanted = {id(thing) for thing in description.obj_set}
    return [cell for cell, thing in known.things() if id(thing) in wanted and thing.type != "wall"]


def goal_places(known: KnownMap, clause: GoToInstr) -> list[Cell]:
    """The cells a ``go to`` clause accepts: where its objects lay at the start or were dropped since."""
    return [cell for x, y in clause.desc.obj_poss if (cell := (int(x), int(y))) in known.cells]
