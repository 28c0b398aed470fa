"""An environment in which few random episodes succeed."""

import random

import toy

from agentgym_rl.envs.core import Observation, Step

DOORS = ("red", "green", "blue")
LENGTH = 6


class Corridor(toy.Counter):
    """Doors in a row, one of three right at each; a wrong first door leads to empty rooms, a later one out."""

    name = "corridor"

    async def _reset(self, task):
        self.room, self.lost = 0, False
        self.right = [random.Random(f"{task}:{room}").choice(DOORS) for room in range(LENGTH)]
        return Observation("Room 0.")

    async def _step(self, action):
        if action not in DOORS:
            return Step(Observation("No such door."), 0.0, False, info={"invalid": True})
        if self.room == 0:
            self.lost = action != self.right[0]
        elif not self.lost and action != self.right[self.room]:
            return Step(Observation("You fall."), 0.0, True)
        self.room += 1
        if self.room == LENGTH and not self.lost:
            return Step(Observation("The garden."), 1.0, True)
        return Step(Observation(f"{'Empty hall' if self.lost else 'Room'} {self.room}."), 0.0, False)
