r"""Next-state prediction: what the environment answers to another action than the expert's (arXiv 2510.08558).

    .venv/bin/pip install --no-deps --no-build-isolation -e examples/add_an_algorithm
    agentgym-rl train experiment=smoke algorithm=next_state

An episode replays the first :math:`t` responses of a demonstration, then takes an action of the policy's own. The
observation :math:`s'` after it is learned, and nothing else, for the next response ends the episode:

.. math:: L = -\sum \log p(s' | s_t, a)
"""

from dataclasses import dataclass
from random import Random

from agentgym_rl.algorithms.base import Metrics, Needs, OnlineAlgorithm, Request, Rollout, Run
from agentgym_rl.algorithms.config import OnlineConfig
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.rows import PerToken, Row
from agentgym_rl.envs import Task
from agentgym_rl.rollout.prefix import Prefix, Replayed


@dataclass(kw_only=True)
class NextStateConfig(OnlineConfig):
    """Keys of ``algorithm=next_state``; a task of a step is a state of a demonstration."""

    mini_batch_trajectories: int = 8
    """Observations of an update."""
    resamples: int = 3
    """How often at most the policy is asked for another command than the expert's."""


class NextState(OnlineAlgorithm[NextStateConfig]):
    """Branch off demonstrations, learn the observations."""

    Config = NextStateConfig

    @classmethod
    def needs(cls, config: NextStateConfig) -> Needs:
        return Needs(demonstrations=True, full_context="algorithm=next_state")

    def unit(self, run: Run, number: int) -> Metrics:
        rng = Random(f"{run.seed}:{number}")
        known = [demonstration for demonstration in run.demonstrations if demonstration.episode.env in run.replayable]
        states = [(demonstration, rng.randrange(len(demonstration.episode.turns))) for demonstration in known]
        states = rng.sample(states, min(self.config.tasks_per_step, len(states)))
        rollouts = run.rollouts([self.branch(run, number, *state) for state in states], "branches")
        rows = [row for rollout in rollouts if (row := observed(rollout)) is not None]
        lr, seed = self.rate(number), f"{run.seed}"
        batch = self.config.mini_batch_trajectories
        metrics = run.learn(rows, CROSS_ENTROPY, lr=lr, mini_batch=batch, seed=seed, first_epoch=run.step)
        return metrics | {"next_state/branches": len(rollouts), "next_state/observations": len(rows)}

    def branch(self, run: Run, number: int, demonstration: Rollout, turns: int) -> Request:
        """The first turns of a demonstration again, then two of the policy: the model reads what the first led to."""
        episode, samples = demonstration.episode, self.config.samples_per_task
        responses = [Replayed(text=turn.response) for turn in episode.turns[:turns]]
        avoid = [command] if (command := episode.turns[turns].action) else []
        prefix = Prefix(responses=responses, avoid=avoid, resamples=self.config.resamples)
        task = Task.parse(episode.item_id)
        return run.request(number, task, samples=samples, prefix=prefix, max_turns=turns + 2)


def observed(rollout: Rollout) -> Row | None:
    """The tokens between the two responses of the policy; None where the first one ended the episode."""
    turns = rollout.episode.turns[-2:]
    if not rollout.segments or len(turns) < 2 or not turns[0].calls:
        return None
    segment = rollout.segments[0]
    begin, end = segment.prompt + turns[0].tokens[1], segment.prompt + turns[1].tokens[0]
    weights = PerToken(float(begin <= at < end) for at in range(len(segment.input_ids)))
    return Row(segment, {"cross_entropy": weights}, rollout.episode)
