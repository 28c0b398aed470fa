r"""AgentEvol (arXiv 2406.04151, section 4.2): explore, keep what the world rewarded, learn; M rounds.

Round m explores the task mixture with the present policy, giving D_m, and maximises

.. math:: E_{(e,u,\tau) \sim D_s \cup D_m} [ r(e, u, \tau) \log \pi_\theta(\tau | e, u) ]

over the tokens the agent wrote, starting from the base weights, with expert data D_s (reward 1). For binary rewards
this is supervised fine-tuning on successes.

Departures, each an option: ``restart_from=current`` goes on from the weights that explored; ``accumulate`` learns from
D_1 ... D_m; ``max_per_task`` keeps the shortest successes of a task rather than all; ``keep_best`` undoes a round that
lowers validation success. An episode is kept when its world calls it a success (AgentGym's thresholds), or by a
threshold of one's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_rl.algorithms.core import Algorithm
from agentgym_rl.data.episode import Episode, shallow
from agentgym_rl.rollout.supervised import Example, weighted

AGENTEVOL = Algorithm(name="agentevol")


@dataclass(frozen=True, slots=True)
class Success:
    """An episode worth learning from, with its tokens."""

    env: str
    item_id: str
    round: int
    reward: float
    replies: tuple[str, ...]
    samples: tuple[Example, ...]

    @property
    def weighted(self) -> list[Example]:
        """The samples with their loss scaled by the reward; the same where the reward is 1."""
        return [weighted(sample, self.reward) for sample in self.samples]


class Pool:
    """The successes of the rounds so far."""

    def __init__(self, *, accumulate: bool, max_per_task: int, thresholds: Mapping[str, float]) -> None:
        """
        Args:
            accumulate: keep the successes of earlier rounds.
            max_per_task: successes kept a task and round, the shortest first (fewest turns, then order of play).
            thresholds: by world, keep episodes whose reward is greater; other worlds keep their own successes.
        """
        self.accumulate, self.max_per_task, self.thresholds = accumulate, max_per_task, thresholds
        self.successes: list[Success] = []
        self.solved: set[str] = set()
        """Item ids of the tasks solved in any round."""

    def succeeded(self, episode: Episode) -> bool:
        """Whether an episode is worth learning from."""
        threshold = self.thresholds.get(episode.env)
        return episode.ending.counts and (episode.success if threshold is None else episode.reward > threshold)

    def add(self, number: int, episodes: Sequence[Episode], samples: Sequence[Sequence[Example]]) -> dict[str, float]:
        """Filter the episodes of a round; no two of a task with the same replies are kept, whatever their round.

        Args:
            number: of the round.
            episodes: all that counted.
            samples: their tokens, in the same order.

        Returns:
            Per world ``agentevol/<env>/{explored,kept,new_tasks,tokens,seconds}``, the last over all episodes one after
            the other, and the size of the pool.
        """
        before = self.successes if self.accumulate else []
        seen = {(success.item_id, success.replies) for success in before}
        count: Counter[str] = Counter()
        kept: dict[int, Success] = {}
        for index in sorted(range(len(episodes)), key=lambda at: (len(episodes[at].turns), at)):
            episode = episodes[index]
            replies = tuple(turn.response for turn in episode.turns)
            if (
                self.succeeded(episode)
                and count[episode.item_id] < self.max_per_task
                and (episode.item_id, replies) not in seen
            ):
                seen.add((episode.item_id, replies))
                count[episode.item_id] += 1
                kept[index] = Success(
                    episode.env, episode.item_id, number, episode.reward, replies, tuple(samples[index])
                )
        self.successes = [*before, *(kept[index] for index in sorted(kept))]
        solved = {episode.item_id: episode.env for episode in episodes if self.succeeded(episode)}
        metrics: dict[str, float] = {"agentevol/kept": len(kept), "agentevol/pool": len(self.successes)}
        for env in sorted({episode.env for episode in episodes}):
            own = [episode for episode in episodes if episode.env == env]
            new = [item for item, world in solved.items() if world == env and item not in self.solved]
            metrics |= {
                f"agentevol/{env}/explored": len(own),
                f"agentevol/{env}/kept": sum(success.env == env for success in kept.values()),
                f"agentevol/{env}/new_tasks": len(new),
                f"agentevol/{env}/tokens": sum(episode.response_tokens for episode in own),
                f"agentevol/{env}/seconds": sum(episode.seconds for episode in own),
            }
        self.solved |= set(solved)
        return metrics

    def of_round(self, number: int) -> list[Success]:
        """The successes a round brought."""
        return [success for success in self.successes if success.round == number]

    def state_dict(self) -> list[dict[str, Any]]:
        """A head with the solved tasks, then one row a success; JSON types."""
        successes = [
            {**shallow(success), "samples": [shallow(sample) for sample in success.samples]}
            for success in self.successes
        ]
        return [{"solved": sorted(self.solved)}, *successes]

    def load_state_dict(self, state: Sequence[dict[str, Any]]) -> None:
        head, *rows = state
        self.solved = set(head["solved"])
        self.successes = [
            Success(
                **{
                    **row,
                    "replies": tuple(row["replies"]),
                    "samples": tuple(Example(**sample) for sample in row["samples"]),
                }
            )
            for row in rows
        ]
