"""Groups, the episodes of one task: which are learned from, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from statistics import stdev

from agentgym_rl.algorithms.checks import at_least


def uneven(rewards: Sequence[float]) -> bool:
    """True if rewards differ by more than rounding, so that group-relative advantages are not all 0."""
    return not isclose(max(rewards), min(rewards))


@dataclass(kw_only=True)
class GroupsConfig:
    """Keys of ``algorithm.groups``, for credit that compares the episodes of a task."""

    negative_weight: float = 1.0
    """Factor of negative advantages. Below 1, a policy that is seldom right is not driven from one wrong action to the
    next; 0 learns from the better episodes alone, as RAFT++ (arXiv 2504.11343) does without a baseline."""
    filter: bool = False
    """Leave out tasks whose episodes all have the same reward, and roll out others in their place (dynamic sampling,
    DAPO, arXiv 2503.14476, section 3.2). Rewards are the environment's own, before they are shaped."""
    refills: int | None = None
    """Most tasks that a step rolls out in place of those left out; null allows ``algorithm.tasks_per_step``."""
    min_reward_std: float = 0.0
    """Also leave out tasks whose rewards have a lower standard deviation than this (after the SNR filter of RAGEN-2,
    arXiv 2604.06268, which keeps the top part of a batch)."""

    def __post_init__(self) -> None:
        at_least(self, 0, "negative_weight", "min_reward_std", *(["refills"] if self.refills is not None else []))

    def unused(self) -> Mapping[str, str]:
        """Keys that have no effect beside the others, and why."""
        if self.filter:
            return {}
        return dict.fromkeys(("refills", "min_reward_std"), "algorithm.groups.filter=false keeps all groups")

    def teaches(self, rewards: Sequence[float]) -> bool:
        """True if the filter keeps a group with these rewards, two or more."""
        return uneven(rewards) and stdev(rewards) >= self.min_reward_std
