"""A model beside the policy whose log-probability ratio to the policy rewards turns, and which learns from outcomes.

Its rewards are the implicit ones of DPO (arXiv 2305.18290), over the tokens of a turn; see
:mod:`~agentgym_rl.algorithms.istar`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from agentgym_rl.algorithms.base import Metrics, Rollout, Run, groups
from agentgym_rl.algorithms.checks import above, at_least
from agentgym_rl.algorithms.losses.dpo import PreferenceConfig
from agentgym_rl.algorithms.losses.reward import REFERENCE_STREAM, ImplicitReward
from agentgym_rl.algorithms.model import START, Model
from agentgym_rl.algorithms.optimizer import OptimizerConfig
from agentgym_rl.algorithms.rows import PerToken, Row

PRM = "prm"
"""Its name, and the stream of its log-probabilities."""
CLIP = 5.0
"""Most nats that the log-ratio of a turn counts."""


@dataclass(kw_only=True)
class RewardModelConfig:
    """Keys of the reward model, under ``algorithm.prm``."""

    start: str = START
    """Where it begins: ``start`` (as the policy when the stage begins), ``loaded`` (the weights as loaded, before
    cloning), or the folder of a run, of a checkpoint or of a model."""
    learns_first: bool = False
    """It learns from a batch before it rewards it, not after."""
    lr: float = 1e-6
    """Learning rate, with the policy's schedule."""
    pairs_per_task: int = 4
    """Most pairs of a task and batch, drawn from all of a success and a failure."""
    mini_batch_pairs: int = 16
    """Pairs of an update."""
    epochs: int = 1
    """Passes over the pairs."""

    def __post_init__(self) -> None:
        above(self, 0, "lr")
        at_least(self, 1, "pairs_per_task", "mini_batch_pairs", "epochs")

    @property
    def model(self) -> Model:
        return Model(start=self.start, trained=True, key="algorithm.prm.start")


Ratios = list[list[float]]
"""Of each episode, in nats, one number a turn."""


@dataclass(slots=True)
class RewardModel:
    """Scores the rollouts of a batch, one row each, and learns from them."""

    config: RewardModelConfig
    optimizer: OptimizerConfig
    beta: float

    def referenced(self, run: Run, rollouts: Sequence[Rollout]) -> list[Row]:
        """The rows of the rollouts, with log-probabilities of the policy as it is."""
        return run.score([row for each in rollouts for row in each.rows({})], name=REFERENCE_STREAM, read=True)

    def ratios(self, run: Run, rows: Sequence[Row]) -> Ratios:
        """Log-ratios to the policy."""
        return [turn_ratios(row, PRM, REFERENCE_STREAM) for row in run.score(rows, by=PRM, name=PRM, read=True)]

    def learn(self, run: Run, rollouts: Sequence[Rollout], rows: Sequence[Row], number: int, units: int) -> Metrics:
        """Learn preferences in step ``number``; without pairs nothing changes."""
        config, seed = self.config, f"{run.seed}:{PRM}:{run.step}"
        row_of = {id(rollout): row for rollout, row in zip(rollouts, rows, strict=True)}
        chosen = [pair for group in groups(rollouts) for pair in pairs(group, config.pairs_per_task, seed)]
        metrics = {"prm/pairs": float(len(chosen))}
        if not chosen:
            return metrics
        return metrics | run.learn(
            [row_of[id(rollout)] for pair in chosen for rollout in pair],
            ImplicitReward(PreferenceConfig(beta=self.beta)),
            lr=self.optimizer.rate(config.lr, number, units),
            mini_batch=min(config.mini_batch_pairs, len(chosen)),
            epochs=config.epochs,
            seed=seed,
            model=PRM,
        )


def turn_ratios(row: Row, better: str, worse: str) -> list[float]:
    """The difference of two streams of log-probabilities over the tokens of each turn of an episode in one segment."""
    episode, above, below = row.episode, row.streams[better], row.streams[worse]
    assert episode is not None and isinstance(above, PerToken) and isinstance(below, PerToken)
    spans = [[episode.prompt_tokens + place for place in turn.tokens] for turn in episode.turns]
    return [sum(above[start:end]) - sum(below[start:end]) for start, end in spans]


def clipped(ratio: float) -> float:
    return max(-CLIP, min(CLIP, ratio))


def pairs(group: Sequence[Rollout], most: int, seed: str) -> list[tuple[Rollout, Rollout]]:
    """Pairs of a success and a failure of a task; ``seed`` and the task draw them."""
    won = [rollout for rollout in group if rollout.episode.success]
    lost = [rollout for rollout in group if not rollout.episode.success]
    candidates = [*product(won, lost)]
    return Random(f"{seed}:{group[0].episode.item_id}").sample(candidates, min(most, len(candidates)))
