"""Games for sessions: made when needed, taken back, used again."""

import os
import threading
from dataclasses import dataclass, field

from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.envs.sciworld.engine import Engine, Simulation


@dataclass(slots=True)
class Member:
    """A Java process and those of its games that are not leased."""

    engine: Engine
    leases: int = 0
    idle: list[Simulation] = field(default_factory=list)


class Pool:
    """Java processes whose games are leased; another process is started when all are full.

    Args:
        engines: most Java processes.
        games: most leased games of one; all of them take turns.
    """

    def __init__(self, engines: int = 8, games: int = 16) -> None:
        self.members: list[Member] = []
        self._engines, self._games = engines, games
        self._lock = threading.Lock()

    def lease(self) -> Simulation:
        """A game for one session until :meth:`give_back`, from the process with the fewest leases.

        Raises:
            JavaMissing: see :class:`.engine.Engine`.
            EnvUnavailable: all games are leased, or Java does not start.
        """
        with self._lock:
            self.members = [member for member in self.members if not member.engine.dead]
            free = [member for member in self.members if member.leases < self._games]
            if not free and len(self.members) == self._engines:
                raise EnvUnavailable(
                    f"all {self._engines * self._games} games of ScienceWorld in this process are in use; close "
                    "sessions, or use more processes"
                )
            if not free:
                free.append(Member(Engine()))
                self.members += free
            member = min(free, key=lambda member: member.leases)
            simulation = member.idle.pop() if member.idle else Simulation(member.engine)
            member.leases += 1
            return simulation

    def give_back(self, simulation: Simulation) -> None:
        """End a lease."""
        with self._lock:
            for member in self.members:
                if member.engine is simulation.engine:
                    member.leases -= 1
                    member.idle.append(simulation)

    def forget(self) -> None:
        """Start with new processes: after a fork those there are belong to the parent."""
        for member in self.members:
            member.engine.forget()
        self.members, self._lock = [], threading.Lock()


POOL = Pool()
"""That of this process."""
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=POOL.forget)
