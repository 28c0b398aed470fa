r"""Tree exploration: where the samples of a task have all failed, branch from promising turns (after MCTS; our own).

A node :math:`s` is a prefix of commands and observations. A branch replays the responses of a node in a fresh session;
then the model goes on with a command that was not tried there. The next branch is at

.. math:: \arg\max_s \; \bar R(s) + c \, P(s) \sqrt{\ln(1 + N) / n(s)}

:math:`\bar R` is the mean return of the episodes through :math:`s`, :math:`n` the number of responses generated at
:math:`s`, :math:`N` the sum of :math:`n`, and :math:`P` in (0, 1] a prior: UCB1 (Auer et al. 2002) with the exploration
term scaled by a prior, as in PUCT (Rosin 2011). Where only success is rewarded, :math:`\bar R` is 0 in an unsolved tree
and the prior decides,

.. math:: P(s) = \frac{1 + g(s)}{1 + d(s)} \cdot \frac{1 + w(s)}{2}

:math:`g` of the :math:`d` turns before :math:`s` were good: valid, with an observation that is new to the episode.
:math:`w` is the share of responses at :math:`s` that went wrong (not good, or the end of a lost episode): here the
mistake may have happened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import log, sqrt
from random import Random
from typing import Any

from agentgym_rl.algorithms.base import Metrics, Rollout
from agentgym_rl.data.episode import Ending, Episode, Turn


@dataclass(kw_only=True)
class SearchConfig:
    """Keys of ``algorithm.search``."""

    calls: int = 0
    """Most responses generated for a task after its first samples; 0 does not search."""
    exploration: float = 1.4
    """Weight c of the exploration term."""
    branches: int = 2
    """Branches of a task that are rolled out side by side."""
    resamples: int = 3
    """How often at most a branch generates again to find a command not tried yet; each counts as a call."""

    def __post_init__(self) -> None:
        for name, least in (("calls", 0), ("exploration", 0), ("branches", 1), ("resamples", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"algorithm.search.{name} must be at least {least}, got {getattr(self, name)}")


@dataclass(slots=True, eq=False)
class Node:
    """A point of a task at which the model generated a response."""

    source: Rollout
    """The first episode that came here; a branch replays its responses."""
    turns: int
    """Turns before it."""
    good: int
    """Those of them that were good."""
    children: dict[tuple[str, str], Node] = field(default_factory=dict)
    """By command and observation."""
    tried: dict[str, None] = field(default_factory=dict)
    """Commands given here, in order."""
    episodes: int = 0
    returns: float = 0.0
    """Sum over the episodes through it."""
    responses: int = 0
    """Responses generated here, those of branches under way included."""
    wrong: int = 0
    closed: bool = False
    """Whether replaying it failed."""

    @property
    def value(self) -> float:
        return self.returns / self.episodes

    @property
    def prior(self) -> float:
        return (1 + self.good) / (1 + self.turns) * (1 + self.wrong / self.responses) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """An episode to be rolled out: ``turns`` turns of ``source`` again, then the model's own."""

    number: int
    source: Rollout
    turns: int
    avoid: tuple[str, ...]
    resamples: int
    max_turns: int
    """Turn limit of the whole episode, cut where the budget would not last."""
    node: Node

    @property
    def item_id(self) -> str:
        return self.source.episode.item_id

    @property
    def calls(self) -> int:
        """Most calls it may take."""
        return self.max_turns - self.turns + self.resamples

    @property
    def responses(self) -> list[str]:
        """The text of the responses to be replayed."""
        return [turn.response for turn in self.source.episode.turns[: self.turns]]

    def tags(self) -> dict[str, Any]:
        """Tags that identify its episode."""
        return {"branch": self.number, "prefix_turns": self.turns}

    def replay(self) -> dict[str, Any]:
        """What the agent loop replays first: the tokens as they were sampled; then the commands to avoid.

        Raises:
            ValueError: the source has no tokens, or its episode was folded.
        """
        episode, segments = self.source.episode, self.source.segments
        if len(segments) != 1:
            what = "was folded" if segments else "has no tokens"
            raise ValueError(f"{self.item_id} cannot be branched from: its episode {what}")
        (example,) = segments
        prefix = []
        for turn in episode.turns[: self.turns]:
            span = range(*(episode.prompt_tokens + end for end in turn.tokens))
            ids = [example.input_ids[at] for at in span if example.loss_weight[at]]
            prefix.append({"ids": ids, "log_prob": turn.log_prob, "step": episode.model_step})
        return {"prefix": prefix, "avoid": list(self.avoid), "resamples": self.resamples}


class TreeSearch:
    """The tree of one task: proposes branches and learns from what became of them."""

    def __init__(self, settings: SearchConfig, samples: Sequence[Rollout], seed: str) -> None:
        """
        Args:
            samples: episodes of the task that count, each with at least one turn.
        """
        self.settings = settings
        self.max_turns = max(one.episode.max_turns for one in samples)
        self.nodes: list[Node] = []
        self.solved = False
        self.spent = 0
        self._rng = Random(seed)
        self._root: Node | None = None
        for rollout in samples:
            self._add(rollout)

    @property
    def left(self) -> int:
        """Calls left of the budget."""
        return self.settings.calls - self.spent

    def propose(self, numbers: Iterator[int]) -> list[Branch]:
        """The branches of a round; together they cannot take more calls than are left.

        Only the first may have its turn limit cut by the budget.
        """
        branches: list[Branch] = []
        left = 0 if self.solved else self.left
        while left > 0 and len(branches) < self.settings.branches:
            node = self._choose()
            if node is None:
                break
            avoid = self._avoid(node)
            resamples = min(self.settings.resamples, left - 1) if avoid else 0
            max_turns = min(self.max_turns, node.turns + left - resamples)
            if branches and max_turns < self.max_turns:
                break
            node.responses += 1
            branch = Branch(
                number=next(numbers), source=node.source, turns=node.turns, avoid=avoid, resamples=resamples,
                max_turns=max_turns, node=node,
            )  # fmt: skip
            left -= branch.calls
            branches.append(branch)
        return branches

    def learn(self, branch: Branch, rollout: Rollout) -> bool:
        """Add the episode of a branch to the tree; false, and nothing added, when its replay diverged.

        An episode that failed outside the agent is charged all calls it might have taken.
        """
        episode, node = rollout.episode, branch.node
        if not episode.ending.counts:
            self.spent += branch.calls
            return True
        self.spent += episode.calls
        if not follows(branch, rollout):
            node.closed = True
            return False
        node.responses -= 1  # counted when the branch was proposed
        self._add(rollout)
        return True

    def _choose(self) -> Node | None:
        """The open node with the highest score; ties are broken at random."""
        nodes = [node for node in self.nodes if node.responses and not node.closed]
        total = log(1 + sum(node.responses for node in nodes))

        def score(node: Node) -> tuple[float, float]:
            bonus = node.prior * sqrt(total / node.responses)
            return node.value + self.settings.exploration * bonus, self._rng.random()

        return max(nodes, key=score, default=None)

    def _avoid(self, node: Node) -> tuple[str, ...]:
        return tuple(node.tried)

    def _add(self, rollout: Rollout) -> None:
        episode = rollout.episode
        self.solved |= episode.success
        self._root = node = self._root or self._node(rollout, 0, 0)
        judged = list(zip(episode.turns, judge(episode), strict=True))
        good = 0
        for number, (turn, fine) in enumerate(judged, start=1):
            node.episodes += 1
            node.returns += episode.reward
            node.tried[command(turn)] = None
            if turn.calls:
                node.responses += 1
                node.wrong += not fine
            good += fine
            if number == len(judged):
                break
            key = command(turn), turn.observation
            if key not in node.children:
                node.children[key] = self._node(rollout, number, good)
            node = node.children[key]

    def _node(self, rollout: Rollout, turns: int, good: int) -> Node:
        node = Node(rollout, turns, good)
        self.nodes.append(node)
        return node


def command(turn: Turn) -> str:
    """The command of a turn, or the whole response where none could be parsed."""
    return turn.response if turn.action is None else turn.action


def judge(episode: Episode) -> list[bool]:
    """Whether each turn was good: valid, its observation new to the episode, and not the end of a lost one."""
    seen = {message["content"] for message in episode.messages[: episode.start]}
    good: list[bool] = []
    for turn in episode.turns:
        good.append(not turn.invalid and turn.observation not in seen)
        seen.add(turn.observation)
    if good and episode.ending is Ending.TERMINATED and not episode.success:
        good[-1] = False
    return good


def follows(branch: Branch, rollout: Rollout) -> bool:
    """Whether an episode went through its branch: the same messages, and the same tokens where there are any."""
    source, tokens = branch.source.episode, branch.source.segments
    episode, own = rollout.episode, rollout.segments
    if len(episode.turns) <= branch.turns or episode.prefix_turns != branch.turns:
        return False
    messages = source.start + 2 * branch.turns
    if episode.messages[:messages] != source.messages[:messages]:
        return False
    if not tokens or not own:
        return not tokens and not own
    shared = source.prompt_tokens + source.turns[branch.turns].tokens[0]
    return own[0].input_ids[:shared] == tokens[0].input_ids[:shared]


@dataclass(slots=True, kw_only=True)
class Searched:
    """The outcome of a search over many tasks."""

    tasks: int
    """Tasks that were searched."""
    calls: int = 0
    failed: int = 0
    """Branches that failed outside the agent."""
    solved: list[Rollout] = field(default_factory=list)
    """The successes: whole episodes, prefix included."""
    rollouts: list[Rollout] = field(default_factory=list)
    """Those of all branches."""
    dropped: list[Rollout] = field(default_factory=list)
    """Branches whose replay diverged; nothing may learn from them."""

    def metrics(self) -> Metrics:
        return {
            "search/tasks": self.tasks,
            "search/solved": len({rollout.episode.item_id for rollout in self.solved}),
            "search/calls": self.calls,
            "search/branches": len(self.rollouts),
            "search/dropped": len(self.dropped),
            "search/failed": self.failed,
        }


def search(
    samples: Sequence[Rollout],
    roll_out: Callable[[Sequence[Branch]], Sequence[Rollout]],
    settings: SearchConfig,
    *,
    replayable: Collection[str],
    seed: int | str,
    tree: type[TreeSearch] = TreeSearch,
) -> Searched:
    """Search all tasks whose samples failed, side by side, round by round, until solved or out of calls.

    The outcome is a function of the samples and of ``roll_out``, not of the order in which either returns episodes.

    Args:
        samples: rollouts of any tasks, solved ones among them.
        roll_out: rolls out branches; the episodes have the branches' tags and may come in any order.
        replayable: environments in which a prefix can be replayed; tasks of others are not searched.

    Raises:
        ValueError: the rollout of a branch is missing, or belongs to none.
    """
    trees = {
        item_id: tree(settings, own, f"{seed}:{item_id}")
        for item_id, own in sorted(unsolved(samples, replayable).items())
    }
    result, numbers = Searched(tasks=len(trees)), count()
    while branches := [branch for one in trees.values() for branch in one.propose(numbers)]:
        outcomes = {rollout.episode.tags.get("branch"): rollout for rollout in roll_out(branches)}
        if outcomes.keys() != {branch.number for branch in branches}:
            raise ValueError(f"{len(branches)} branches were rolled out, but got {sorted(map(str, outcomes))}")
        for branch in branches:
            rollout = outcomes[branch.number]
            result.rollouts.append(rollout)
            result.failed += not rollout.episode.ending.counts
            if not trees[branch.item_id].learn(branch, rollout):
                result.dropped.append(rollout)
            elif rollout.episode.success:
                result.solved.append(rollout)
    result.calls = sum(one.spent for one in trees.values())
    return result


def unsolved(samples: Sequence[Rollout], replayable: Collection[str]) -> dict[str, list[Rollout]]:
    """Rollouts by task, of replayable tasks that none of them solved, in an order of their own."""
    groups: dict[str, list[Rollout]] = {}
    for rollout in samples:
        episode = rollout.episode
        if episode.env in replayable and episode.ending.counts and episode.turns:
            groups.setdefault(episode.item_id, []).append(rollout)
    return {
        item_id: sorted(own, key=lambda rollout: [turn.response for turn in rollout.episode.turns])
        for item_id, own in groups.items()
        if not any(rollout.episode.success for rollout in own)
    }
