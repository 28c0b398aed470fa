r"""AgentEvol's learning step in its first form: online rejection sampling (arXiv 2406.04151, section 4.2).

A round explores with the present policy, keeps what the world rewarded, and takes supervised steps on expert data and
what was kept,

.. math:: \max_\theta E_{D_s \cup D_m} [\log \pi_\theta(\tau | e, u)]

Departures from the paper: a round goes on from the current weights, not from the base; successes of earlier rounds
stay in the pool (``accumulate``); at most ``max_per_task`` successes of a task are kept a round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agentgym_rl.algorithms.core import Algorithm
from agentgym_rl.data.episode import Episode
from agentgym_rl.rollout.supervised import Example

AGENTEVOL = Algorithm(name="agentevol")


def keep_successes(episodes: Sequence[Episode], max_per_task: int) -> list[int]:
    """Indices of the episodes to learn from.

    Successes only, the shortest first within a task (fewest turns, then order of play), no two with the same actions.
    """
    kept: list[int] = []
    count: Counter[str] = Counter()
    seen: set[tuple[str, ...]] = set()
    for index in sorted(range(len(episodes)), key=lambda number: (len(episodes[number].turns), number)):
        episode = episodes[index]
        actions = (episode.item_id, *(turn.response for turn in episode.turns))
        if episode.success and episode.ending.counts and count[episode.item_id] < max_per_task and actions not in seen:
            kept.append(index)
            count[episode.item_id] += 1
            seen.add(actions)
    return sorted(kept)


class Pool:
    """The successes of the rounds so far, D_m."""

    def __init__(self, accumulate: bool) -> None:
        self.accumulate = accumulate
        self.examples: list[Example] = []

    def add(self, examples: Sequence[Example]) -> None:
        """Take in the successes of one round."""
        self.examples = [*(self.examples if self.accumulate else []), *examples]

    def state_dict(self) -> list[dict[str, list[int] | list[float]]]:
        return [{"input_ids": example.input_ids, "loss_weight": example.loss_weight} for example in self.examples]

    def load_state_dict(self, state: list[dict[str, list[int] | list[float]]]) -> None:
        self.examples = [Example(list(map(int, row["input_ids"])), list(row["loss_weight"])) for row in state]
