"""The compute-matched control: as many updates as the algorithm took, on demonstrations alone.

It starts where the algorithm's updates started and repeats their number, learning rate and size, so that a gain from
exploration can be told from a gain of longer training.
"""

from __future__ import annotations

from agentgym_rl.algorithms.base import Algorithm, Metrics, Run, Supervised, Weights
from agentgym_rl.algorithms.config import AlgorithmConfig


class Control(Algorithm[AlgorithmConfig]):
    """A unit repeats one update of the algorithm's stage."""

    stage = "control"

    def __init__(self, learnt: Weights) -> None:
        """
        Args:
            learnt: the weights that the algorithm's stage ended with.
        """
        super().__init__(AlgorithmConfig(name=self.stage))
        self.learnt = learnt

    @property
    def units(self) -> int:
        return len(self.learnt.updates)

    def begin(self, run: Run) -> None:
        run.restore(Weights(checkpoint=self.learnt.origin, origin=self.learnt.origin))

    def unit(self, run: Run, number: int) -> Metrics:
        count, lr, size = self.learnt.updates[number]
        update = Supervised(examples=run.demonstrations, mini_batch=size, updates=count)
        return run.update(update, lr=lr, seed=f"{run.seed}:{self.stage}:{number}")
