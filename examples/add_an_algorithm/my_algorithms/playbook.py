"""A playbook in the prompt: the policy reads what solved tasks before (after Training-Free GRPO, arXiv 2510.08191).

    .venv/bin/pip install --no-deps --no-build-isolation -e examples/add_an_algorithm
    agentgym-rl train experiment=smoke +env=maze envs.textcraft.share=0 algorithm=playbook

Every first observation, in training and on panels, follows the newest lines. What succeeds adds a line: the commands of
the episode. Successes are imitated as they were, or as if the policy had known no playbook (``learn_without``), so that
the weights take in what it says. The lines are saved, exported and evaluated with the weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentgym_rl.algorithms.base import Metrics, OnlineAlgorithm, Rollout, Run
from agentgym_rl.algorithms.checks import at_least
from agentgym_rl.algorithms.config import OnlineConfig
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.data.episode import Episode
from agentgym_rl.envs import Task


@dataclass(kw_only=True)
class PlaybookConfig(OnlineConfig):
    """Keys of ``algorithm=playbook``."""

    mini_batch_trajectories: int = 8
    """Successes of an update."""
    lines: int = 3
    """Most lines of an environment; the oldest leave."""
    learn_without: bool = False
    """Learn from successes as they would be without the playbook."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "lines")


class Playbook(OnlineAlgorithm[PlaybookConfig]):
    """Roll out with the playbook, imitate successes, add to it."""

    Config = PlaybookConfig

    def __init__(self, config: PlaybookConfig) -> None:
        super().__init__(config)
        self.lines: dict[str, list[str]] = {}
        """By environment, the newest last."""

    def prompt(self, env: str) -> str:
        lines = self.lines.get(env, [])
        return "\n".join(["What worked before:", *lines]) if lines else ""

    def unit(self, run: Run, number: int) -> Metrics:
        rollouts = run.rollouts(run.requests(number), "rollouts")
        run.observe(rollouts)
        successes = [rollout for rollout in rollouts if rollout.segments and rollout.episode.success]
        learned = [without(run, rollout.episode) for rollout in successes] if self.config.learn_without else successes
        lr, seed = self.rate(number), f"{run.seed}"
        rows, batch = [row for rollout in learned for row in rollout.imitation()], self.config.mini_batch_trajectories
        metrics = run.learn(rows, CROSS_ENTROPY, lr=lr, mini_batch=batch, seed=seed, first_epoch=run.step)
        for rollout in successes:
            self.add(rollout.episode)
        return metrics | {"playbook/successes": len(successes), "playbook/lines": sum(map(len, self.lines.values()))}

    def add(self, episode: Episode) -> None:
        line = "; ".join(turn.action for turn in episode.turns if turn.action and not turn.invalid)
        lines = [known for known in self.lines.get(episode.env, []) if known != line]
        self.lines[episode.env] = [*lines, line][-self.config.lines :]

    def state_dict(self) -> dict[str, Any]:
        return {"lines": self.lines}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.lines = {env: list(lines) for env, lines in state["lines"].items()}


def without(run: Run, episode: Episode) -> Rollout:
    """An episode as it would be had the policy known no playbook."""
    return run.encode(episode.without_preface, Task.parse(episode.item_id))
