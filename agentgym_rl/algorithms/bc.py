r"""Behaviour cloning: maximum likelihood of the actions of demonstrations.

.. math:: J_{BC}(\theta) = E_{(e,u,\tau) \sim D_s} \log \pi_\theta(\tau | e, u)

over the tokens of the responses (arXiv 2406.04151, section 4.1); the mean is over the tokens of a mini-batch. Its keys
are those of ``cloning``: it is the first stage of a run with any algorithm, and ``algorithm=bc`` ends after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import cycle, islice
from math import inf
from random import Random

from agentgym_rl.algorithms.base import Algorithm, Metrics, Needs, Run
from agentgym_rl.algorithms.config import AlgorithmConfig
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.optimizer import SupervisedOptimizerConfig
from agentgym_rl.algorithms.rows import Row

EPOCHS = 3
"""Passes over demonstrations for which a recipe gives none."""


@dataclass(kw_only=True)
class CloningConfig:
    """Keys of ``cloning``."""

    epochs: int | None = None
    """Passes over demonstrations; 0 skips the stage, null takes 3 where an environment has demonstrations, else 0."""
    lr: float = 1e-5
    """Learning rate of the first pass; by default it falls linearly to a tenth."""
    mini_batch_trajectories: int = 16
    """Demonstrations of an update."""
    observation_weight: float = 0.0
    """Weight of the loss on observation tokens; above 0 the model also learns to predict observations."""
    learn_invalid: bool = True
    """Also learn responses whose action the parser refuses; false leaves them as context of those that mend them
    (AgentRefine, arXiv 2501.01702). What an environment refused stands in no file: ``loss: false`` marks it there."""
    mix_file: str | None = None
    """AgentTraj JSON of general conversations, from disk or the hub, whose responses are cloned beside demonstrations
    (AgentTuning, arXiv 2310.12823)."""
    mix_share: float = 0.5
    """Share of these among the conversations of a pass. AgentTuning has 0.8."""
    optimizer: SupervisedOptimizerConfig = field(default_factory=SupervisedOptimizerConfig)
    """Schedule of the learning rate, and AdamW's settings."""

    def __post_init__(self) -> None:
        if self.epochs is not None and self.epochs < 0:
            raise ValueError(f"cloning.epochs must not be negative, got {self.epochs}")
        if self.mini_batch_trajectories < 1:
            raise ValueError(f"cloning.mini_batch_trajectories must be at least 1, got {self.mini_batch_trajectories}")
        if not 0 < self.lr < inf:
            raise ValueError(f"cloning.lr must be greater than 0, got {self.lr}")
        if not self.observation_weight >= 0:
            raise ValueError(f"cloning.observation_weight must not be negative, got {self.observation_weight}")
        if not 0 < self.mix_share < 1:
            raise ValueError(f"cloning.mix_share must be between 0 and 1, got {self.mix_share}")


class Cloning(Algorithm[AlgorithmConfig]):
    """The cloning stage; a unit is one pass over the demonstrations."""

    stage = "bc"

    def __init__(self, keys: CloningConfig) -> None:
        super().__init__(AlgorithmConfig(name=self.stage))
        self.keys = keys

    @property
    def units(self) -> int:
        return self.keys.epochs or 0

    def unit(self, run: Run, number: int) -> Metrics:
        keys = self.keys
        return run.learn(
            [*demonstrated(run), *self.general(run, number)],
            CROSS_ENTROPY,
            lr=keys.optimizer.rate(keys.lr, number, self.units),
            mini_batch=keys.mini_batch_trajectories,
            seed=f"{run.seed}:{self.stage}",
            first_epoch=number,
        )

    def general(self, run: Run, number: int) -> list[Row]:
        """Rows of a pass's general conversations; each is drawn once before one is drawn again."""
        conversations, share = list(run.general), self.keys.mix_share
        Random(f"{run.seed}:general:{number}").shuffle(conversations)
        count = round(len(run.demonstrations) * share / (1 - share))
        return [row for conversation in islice(cycle(conversations), count) for row in conversation.imitation()]


def demonstrated(run: Run) -> list[Row]:
    """Rows of all demonstrations."""
    observations, learn_invalid = run.observation_weight, run.learn_invalid
    return [
        row
        for rollout in run.demonstrations
        for row in rollout.imitation(observations=observations, learn_invalid=learn_invalid)
    ]


class BC(Algorithm[AlgorithmConfig]):
    """Cloning alone: no stage after it."""

    units = 0

    @classmethod
    def needs(cls, config: AlgorithmConfig) -> Needs:
        return Needs(cloning=True)

    def unit(self, run: Run, number: int) -> Metrics:
        raise AssertionError("it has no unit")
