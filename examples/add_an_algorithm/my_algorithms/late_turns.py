r"""A weight for each turn: imitation of successes, in which late turns weigh more.

    .venv/bin/pip install --no-deps --no-build-isolation -e examples/add_an_algorithm
    agentgym-rl train experiment=smoke algorithm=late_turns

Each step rolls out its tasks and learns from the successes with the supervised loss; a token of turn :math:`t` of an
episode of :math:`T` turns has the weight :math:`r \gamma^{T - 1 - t}`, with the reward :math:`r`.
"""

from dataclasses import dataclass

from agentgym_rl.algorithms.base import Metrics, OnlineAlgorithm, Run
from agentgym_rl.algorithms.checks import share
from agentgym_rl.algorithms.config import OnlineConfig
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.data.episode import Episode


@dataclass(kw_only=True)
class LateTurnsConfig(OnlineConfig):
    """Keys of ``algorithm=late_turns``."""

    mini_batch_trajectories: int = 8
    """Successes of an update."""
    gamma: float = 0.9
    """How much less a turn weighs than the one after it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        share(self, "gamma")


class LateTurns(OnlineAlgorithm[LateTurnsConfig]):
    """Roll out, weigh the tokens of successes, learn."""

    Config = LateTurnsConfig

    def unit(self, run: Run, number: int) -> Metrics:
        rollouts = run.rollouts(run.requests(number), "rollouts")
        run.observe(rollouts)
        successes = [rollout for rollout in rollouts if rollout.segments and rollout.episode.success]
        metrics = run.learn(
            [
                row
                for rollout in successes
                for row in rollout.rows({"cross_entropy": weights(rollout.episode, self.config.gamma)})
            ],
            CROSS_ENTROPY,
            lr=self.rate(number),
            mini_batch=self.config.mini_batch_trajectories,
            seed=f"{run.seed}",
            first_epoch=run.step,
        )
        return metrics | {"late_turns/successes": float(len(successes))}


def weights(episode: Episode, gamma: float) -> list[float]:
    """One for each turn."""
    return [episode.reward * gamma**left for left in reversed(range(len(episode.turns)))]
