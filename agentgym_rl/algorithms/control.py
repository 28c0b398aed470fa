"""The compute-matched control: as many updates as the algorithm took, on demonstrations alone.

It starts where the algorithm's updates started and repeats their number, learning rate and size, so that a gain from
exploration can be told from a gain of longer training.
"""

from __future__ import annotations

from agentgym_rl.algorithms.base import Algorithm, Metrics, Run, Weights
from agentgym_rl.algorithms.bc import demonstrated
from agentgym_rl.algorithms.config import AlgorithmConfig
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY


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
        rows, seed = demonstrated(run), f"{run.seed}:{self.stage}"
        return run.learn(rows, CROSS_ENTROPY, lr=lr, mini_batch=size, updates=count, seed=seed, first_epoch=number)
