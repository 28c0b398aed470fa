r"""Loss weights of its own: imitation of successes, in which late turns weigh more.

    .venv/bin/pip install --no-deps --no-build-isolation -e examples/add_an_algorithm
    agentgym-rl train experiment=smoke algorithm=late_turns

Each step rolls out its tasks and learns from the successes with the supervised loss; a token of turn :math:`t` of an
episode of :math:`T` turns has the weight :math:`r \gamma^{T - 1 - t}`, with the reward :math:`r`. Observation tokens
have the weight 0.
"""

from dataclasses import dataclass

from agentgym_rl.algorithms.base import Algorithm, Metrics, Needs, Rollout, Run, Supervised
from agentgym_rl.algorithms.checks import share
from agentgym_rl.algorithms.config import OnlineConfig
from agentgym_rl.rollout.supervised import Example


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


class LateTurns(Algorithm[LateTurnsConfig]):
    """Roll out, weigh the tokens of successes, learn."""

    Config = LateTurnsConfig

    @classmethod
    def needs(cls, config: LateTurnsConfig) -> Needs:
        return Needs(full_context="algorithm=late_turns")  # a turn's tokens are found in the one segment of its episode

    @property
    def units(self) -> int:
        return self.config.steps

    def unit(self, run: Run, number: int) -> Metrics:
        rollouts = run.rollouts(run.requests(number), "rollouts")
        run.observe(rollouts)
        successes = [weighted(one, self.config.gamma) for one in rollouts if one.segments and one.episode.success]
        metrics = {"late_turns/successes": float(len(successes))}
        if successes:
            update = Supervised(examples=successes, mini_batch=self.config.mini_batch_trajectories)
            lr = self.config.optimizer.rate(self.config.lr, number, self.units)
            metrics |= run.update(update, lr=lr, seed=f"{run.seed}:{run.step}")
        return metrics


def weighted(rollout: Rollout, gamma: float) -> Example:
    """The tokens of an episode, with a weight for each turn."""
    (tokens,), turns = rollout.segments, rollout.episode.turns
    weights = [0.0] * len(tokens.input_ids)
    response = len(weights) - rollout.episode.response_tokens
    for left, turn in zip(range(len(turns) - 1, -1, -1), turns, strict=True):
        for place in range(response + turn.tokens[0], response + turn.tokens[1]):
            weights[place] = rollout.episode.reward * gamma**left * tokens.loss_weight[place]
    return Example(tokens.input_ids, weights)
