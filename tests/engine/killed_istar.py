"""iStar that is killed between the two models' updates; for ``test_models.py``."""

import os

from agentgym_rl.algorithms.istar import Istar


class KilledIstar(Istar):
    """With ``KILLED`` in the environment it ends in its second unit, when the reward model has learned."""

    def unit(self, run, number):
        self.killed = number == 1 and "KILLED" in os.environ
        return super().unit(run, number)

    def credit(self, group):
        if self.killed:
            raise SystemExit("killed")
        return super().credit(group)
