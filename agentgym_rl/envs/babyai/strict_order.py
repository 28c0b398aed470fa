"""A repair of missions that minigrid makes impossible."""

from __future__ import annotations

from typing import Any

from minigrid.envs.babyai.core.verifier import AfterInstr, BeforeInstr, OpenInstr


class StrictOrder:
    """Keeps the action that fulfils the first clause of a sequence from failing the second.

    minigrid's verifier judges the second clause by the very action that fulfilled the first. A strict "open" then
    fails, since the door that was just opened is the wrong one: no behaviour could solve "open the grey door, then
    open the blue door" of OpenDoorsOrderN4Debug. Here the second clause becomes strict one action later.
    """

    def __init__(self, mission: Any) -> None:
        self._mission = mission
        clause = mission.instr_b if isinstance(mission, BeforeInstr) else None
        clause = mission.instr_a if isinstance(mission, AfterInstr) else clause
        self._second = clause if isinstance(clause, OpenInstr) and clause.strict else None

    def update(self) -> None:
        """To be called before every primitive action."""
        if self._second is not None:
            after = isinstance(self._mission, AfterInstr)
            self._second.strict = (self._mission.b_done if after else self._mission.a_done) == "success"
