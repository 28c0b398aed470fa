r"""Tree exploration: where the samples of a task have all failed, branch from promising turns (after MCTS; our own).

A node :math:`s` is a prefix of commands and observations. A branch replays the responses of a node in a fresh session;
then the model goes on with a command that was not tried there. Where the next branch begins is found from the root on:
at each node, either another response is generated there, or the choice goes on in one of its children, by

.. math:: \arg\max_a \; \bar R(a) + c \, P(a) \sqrt{\ln(1 + N) / n(a)}

This is UCT (Kocsis and Szepesvari 2006) with the exploration term scaled by a prior, as in PUCT (Rosin 2011).
:math:`N` is the number of episodes through :math:`s`. For a child, :math:`\bar R` is the mean return of the episodes
through it and :math:`n` their number. For another response, :math:`\bar R` is that of :math:`s` and :math:`n` the
number of responses generated there. Where only success is rewarded, :math:`\bar R` is 0 in an unsolved tree and the
prior decides. For another response,

.. math:: P = \frac{2 + w(s)}{3}

with :math:`w` the share of responses at :math:`s` that went wrong (not good, or the end of a lost episode): here the
mistake may have happened. For a child, :math:`P` is 1 if the turn that led there was good (valid, with an observation
that is new to the episode), else 1/3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from math import log, sqrt
from operator import attrgetter
from random import Random
from typing import Any

from agentgym_rl.algorithms.base import Metrics, Request, Rollout
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs import Task
from agentgym_rl.rollout.prefix import Prefix, Replayed

Succeeded = Callable[[Episode], bool]
"""True if an episode has done what it should."""
OWN_SUCCESS: Succeeded = attrgetter("success")
"""What its environment calls a success."""


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
            if not getattr(self, name) >= least:
                raise ValueError(f"algorithm.search.{name} must be at least {least}, got {getattr(self, name)}")


@dataclass(slots=True, eq=False)
class Node:
    """A prefix of an episode, after which the model generated a response."""

    source: Rollout
    """The first episode that came here; a branch replays its responses."""
    turns: int = 0
    """Turns before it."""
    parent: Node | None = None
    good: bool = True
    """The turn before it was good."""
    children: dict[tuple[str, str], Node] = field(default_factory=dict)
    """By command and the observation after it."""
    tried: dict[str, None] = field(default_factory=dict)
    """Commands given here, in order."""
    episodes: int = 0
    under_way: int = 0
    """Branches through it that were proposed and have no outcome."""
    returns: float = 0.0
    """Sum over the episodes through it."""
    responses: int = 0
    """Responses generated here, those of branches under way included."""
    wrong: int = 0
    closed: bool = False
    """Replaying it failed."""

    @property
    def visits(self) -> int:
        return self.episodes + self.under_way

    @property
    def mean(self) -> float:
        return self.returns / self.episodes

    @property
    def branches(self) -> bool:
        """True if a branch may begin here."""
        return bool(self.responses) and not self.closed

    def open(self) -> bool:
        """True if a branch may begin here or below."""
        return self.branches or any(child.open() for child in self.children.values())

    def path(self) -> Iterator[Node]:
        """The node and those above it."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def arms(self, exploration: float) -> Iterator[tuple[float, Node]]:
        """The scores in the module's first equation; the node itself stands for another response."""
        spread = exploration * sqrt(log(1 + self.visits))
        if self.branches:
            prior = (2 + self.wrong / self.responses) / 3
            yield self.mean + spread * prior / sqrt(self.responses), self
        for child in self.children.values():
            if child.open():
                yield child.mean + spread * (1 if child.good else 1 / 3) / sqrt(child.visits), child


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """An episode to be rolled out: the turns before a node again, then the model's own."""

    number: int
    node: Node
    avoid: tuple[str, ...]
    resamples: int
    max_turns: int
    """Turn limit of the whole episode, cut where the budget would not last."""

    @property
    def item_id(self) -> str:
        return self.node.source.episode.item_id

    @property
    def calls(self) -> int:
        """Most calls it may take."""
        return self.max_turns - self.node.turns + self.resamples

    @property
    def responses(self) -> list[str]:
        """The text of the responses to be replayed."""
        return [turn.response for turn in self.node.source.episode.turns[: self.node.turns]]

    def tags(self) -> dict[str, Any]:
        """Tags that identify its episode."""
        return {"branch": self.number, "prefix_turns": self.node.turns}

    def request(self, **tags: Any) -> Request:
        """A request that begins with the prefix, as :func:`replayed` gives it; ``tags`` are added to its own."""
        prefix = replayed(self.node.source, self.node.turns)
        return Request(
            task=Task.parse(self.item_id),
            max_turns=self.max_turns,
            tags={**self.tags(), **tags},
            prefix=Prefix(responses=prefix, learn=True, avoid=list(self.avoid), resamples=self.resamples),
        )


def replayed(source: Rollout, turns: int) -> list[Replayed]:
    """The first responses of an episode, their tokens as they were sampled.

    Raises:
        ValueError: the source has no tokens, or its episode was folded.
    """
    episode, segments = source.episode, source.segments
    if len(segments) != 1:
        what = "was folded" if segments else "has no tokens"
        raise ValueError(f"{episode.item_id} cannot be branched from: its episode {what}")
    responses = []
    for turn in episode.turns[:turns]:
        span = slice(*(episode.prompt_tokens + end for end in turn.tokens))
        ids = list(compress(segments[0].input_ids[span], segments[0].loss_weight[span]))
        responses.append(Replayed(text=turn.response, ids=ids, log_prob=turn.log_prob, step=episode.model_step))
    return responses


class TreeSearch:
    """The tree of one task: proposes branches and learns from what became of them."""

    def __init__(
        self, settings: SearchConfig, samples: Sequence[Rollout], seed: str, succeeded: Succeeded = OWN_SUCCESS
    ) -> None:
        """The samples are episodes of the task that count, each with at least one turn."""
        self.settings, self.succeeded = settings, succeeded
        self.max_turns = max(rollout.episode.max_turns for rollout in samples)
        self.root = Node(samples[0])
        self.solved = False
        self.spent = 0
        self.rng = Random(seed)
        for rollout in samples:
            self.add(rollout)

    def propose(self, numbers: Iterator[int]) -> list[Branch]:
        """The branches of a round; together they cannot take more calls than are left.

        Only the first may have its turn limit cut by the budget.
        """
        branches: list[Branch] = []
        calls_left = 0 if self.solved else self.settings.calls - self.spent
        while calls_left > 0 and len(branches) < self.settings.branches and self.root.open():
            node = self.choose()
            resamples = min(self.settings.resamples, calls_left - 1) if node.tried else 0
            max_turns = min(self.max_turns, node.turns + calls_left - resamples)
            if branches and max_turns < self.max_turns:
                break
            node.responses += 1
            for passed in node.path():
                passed.under_way += 1
            branch = Branch(
                number=next(numbers), node=node, avoid=tuple(node.tried), resamples=resamples, max_turns=max_turns
            )
            calls_left -= branch.calls
            branches.append(branch)
        return branches

    def choose(self) -> Node:
        """Where the next branch begins, from the root on; ties are broken at random."""
        node = self.root
        while True:
            arms = node.arms(self.settings.exploration)
            _, _, chosen = max((score, self.rng.random(), arm) for score, arm in arms)
            if chosen is node:
                return node
            node = chosen

    def learn(self, branch: Branch, rollout: Rollout) -> bool:
        """Add the episode of a branch to the tree; false, and nothing added, when its replay diverged.

        An episode that failed outside the agent is charged all calls it might have taken.
        """
        if not rollout.episode.ending.counts:
            self.spent += branch.calls
            return True
        self.spent += rollout.episode.calls
        if not follows(branch, rollout):
            branch.node.closed = True
            return False
        branch.node.responses -= 1  # counted when the branch was proposed
        for passed in branch.node.path():
            passed.under_way -= 1
        self.add(rollout)
        return True

    def add(self, rollout: Rollout) -> None:
        """Take an episode into the nodes that it goes through."""
        episode, node = rollout.episode, self.root
        won = self.succeeded(episode)
        self.solved |= won
        for number, (turn, good) in enumerate(zip(episode.turns, judge(episode, won), strict=True), start=1):
            command = turn.response if turn.action is None else turn.action
            node.tried[command] = None
            node.episodes += 1
            node.returns += episode.reward
            if turn.calls:
                node.responses += 1
                node.wrong += not good
            if number < len(episode.turns):
                below = Node(rollout, number, node, good)
                node = node.children.setdefault((command, turn.observation), below)


def judge(episode: Episode, won: bool) -> list[bool]:
    """For each turn, True if it was good: valid, its observation new, and not the end of a lost episode."""
    seen = {message["content"] for message in episode.messages[: episode.start]}
    good: list[bool] = []
    for turn in episode.turns:
        good.append(not turn.invalid and turn.observation not in seen)
        seen.add(turn.observation)
    if good and episode.ending is Ending.TERMINATED and not won:
        good[-1] = False
    return good


def follows(branch: Branch, rollout: Rollout) -> bool:
    """True if an episode went through its branch: the same messages, and the same tokens where there are any."""
    source, episode, turns = branch.node.source.episode, rollout.episode, branch.node.turns
    if len(episode.turns) <= turns or episode.prefix_turns != turns:
        return False
    messages = source.start + 2 * turns
    tokens = source.prompt_tokens + source.turns[turns].tokens[0]

    def before(played: Rollout) -> object:
        return played.episode.messages[:messages], [segment.input_ids[:tokens] for segment in played.segments[:1]]

    return before(rollout) == before(branch.node.source)


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
    kept: list[Rollout] = field(default_factory=list)
    """Those of all branches but the dropped ones."""
    dropped: int = 0
    """Branches whose replay diverged; nothing may learn from them."""

    def metrics(self) -> Metrics:
        return {
            "search/tasks": self.tasks,
            "search/solved": len({rollout.episode.item_id for rollout in self.solved}),
            "search/calls": self.calls,
            "search/branches": len(self.kept) + self.dropped,
            "search/dropped": self.dropped,
            "search/failed": self.failed,
        }


def search(
    samples: Sequence[Rollout],
    roll_out: Callable[[Sequence[Branch]], Sequence[Rollout]],
    settings: SearchConfig,
    *,
    replayable: Collection[str],
    seed: int | str,
    succeeded: Succeeded = OWN_SUCCESS,
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
        item_id: tree(settings, rollouts, f"{seed}:{item_id}", succeeded)
        for item_id, rollouts in unsolved(samples, replayable, succeeded).items()
    }
    result, numbers = Searched(tasks=len(trees)), count()
    while branches := [branch for searched in trees.values() for branch in searched.propose(numbers)]:
        outcomes = {rollout.episode.tags.get("branch"): rollout for rollout in roll_out(branches)}
        if outcomes.keys() != {branch.number for branch in branches}:
            raise ValueError(f"{len(branches)} branches were rolled out, but got {sorted(map(str, outcomes))}")
        for branch in branches:
            rollout = outcomes[branch.number]
            result.failed += not rollout.episode.ending.counts
            if not trees[branch.item_id].learn(branch, rollout):
                result.dropped += 1
                continue
            result.kept.append(rollout)
            if succeeded(rollout.episode):
                result.solved.append(rollout)
    result.calls = sum(searched.spent for searched in trees.values())
    return result


def unsolved(
    samples: Sequence[Rollout], replayable: Collection[str], succeeded: Succeeded = OWN_SUCCESS
) -> dict[str, list[Rollout]]:
    """Rollouts by task, of replayable tasks that none of them solved; both in an order of their own."""
    groups: dict[str, list[Rollout]] = {}
    for rollout in samples:
        episode = rollout.episode
        if episode.env in replayable and episode.ending.counts and episode.turns:
            groups.setdefault(episode.item_id, []).append(rollout)
    return {
        item_id: sorted(rollouts, key=lambda rollout: [turn.response for turn in rollout.episode.turns])
        for item_id, rollouts in sorted(groups.items())
        if not any(succeeded(rollout.episode) for rollout in rollouts)
    }
