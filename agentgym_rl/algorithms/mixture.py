"""How the tasks of a step are shared among worlds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from agentgym_rl.envs import Task


class FixedMixture:
    """Fixed shares; the tasks of a step are a pure function of seed and step, so resuming anywhere draws the same."""

    def __init__(self, pools: Mapping[str, Sequence[int]], shares: Mapping[str, float], seed: int) -> None:
        """
        Args:
            pools: task indices by world.
            shares: relative share by world, not negative, not all 0.

        Raises:
            ValueError: a share is negative, or all are 0; a world with a share has no tasks.
        """
        total = sum(shares.values())
        if total <= 0 or min(shares.values()) < 0:
            raise ValueError(f"shares must not be negative and not all 0, got {dict(shares)}")
        idle = sorted(env for env, share in shares.items() if share > 0 and not len(pools.get(env, ())))
        if idle:
            raise ValueError(f"no training tasks for {', '.join(idle)}; give it tasks or a share of 0")
        self.pools = pools
        self.shares = {env: share / total for env, share in shares.items()}
        self.seed = seed

    def counts(self, n: int) -> dict[str, int]:
        """Tasks a world gets of ``n``: its share rounded down, what is left to the largest remainders."""
        exact = {env: share * n for env, share in self.shares.items()}
        counts = {env: int(value) for env, value in exact.items()}
        by_remainder = sorted(exact, key=lambda env: (counts[env] - exact[env], env))
        for env in by_remainder[: n - sum(counts.values())]:
            counts[env] += 1
        return counts

    def draw(self, step: int, n: int) -> list[Task]:
        """The ``n`` tasks of a step: no task twice while its pool has others."""
        tasks: list[Task] = []
        for env, count in self.counts(n).items():
            if not count:
                continue
            pool, rng = self.pools[env], Random(f"{self.seed}:{step}:{env}")
            positions: list[int] = []
            while len(positions) < count:
                positions += rng.sample(range(len(pool)), min(count - len(positions), len(pool)))
            tasks += [Task(env, pool[position]) for position in positions]
        return tasks

    def metrics(self) -> dict[str, float]:
        return {f"env/{env}/share": share for env, share in self.shares.items()}
