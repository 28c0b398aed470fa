r"""Tree exploration: when the samples of a task have all failed, branch from promising turns (MCTS-inspired, ours).

A node :math:`s` is what was said and answered so far, a prefix of commands and observations. A branch replays a node's
replies in a fresh session and lets the model go on with another command than those tried there. The next branch is at

.. math:: \arg\max_s \; \bar R(s) + c \, P(s) \sqrt{\ln(1 + N) / n(s)}

with :math:`\bar R` the mean return of the episodes through :math:`s`, :math:`n` how often a reply was asked for at
:math:`s`, :math:`N` the sum of :math:`n`, and :math:`P` in (0, 1] how promising it looks: UCB1 (Auer et al. 2002) with
the exploration term scaled by a prior, as in PUCT (Rosin 2011). Where a world rewards success alone, :math:`\bar R` is
0 throughout an unsolved tree and the prior decides,

.. math:: P(s) = \frac{1 + g(s)}{1 + d(s)} \cdot \frac{1 + w(s)}{2}

:math:`g` of the :math:`d` turns before :math:`s` were good, which is valid with an observation not seen before in the
episode: what leads to :math:`s` was progress. :math:`w` is the share of replies tried at :math:`s` that went visibly
wrong (not good, or the end of a lost episode): here the mistake may have happened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import log, sqrt
from random import Random
from typing import Any

from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.rollout.supervised import Example

Played = tuple[Episode, Sequence[Example]]
"""An episode and its samples; none where it does not count, or was played without tokens."""


@dataclass(kw_only=True)
class SearchSettings:
    """How far tree exploration goes."""

    calls: int = 0
    """Most replies generated for a task after its first samples; 0 does not search."""
    exploration: float = 1.4
    """Weight c of the exploration term."""
    branches: int = 2
    """Branches of a task that are played side by side."""
    resamples: int = 3
    """How often at most a branch is asked again for a command not tried yet; each counts as a call."""

    def __post_init__(self) -> None:
        for name, least in (("calls", 0), ("exploration", 0), ("branches", 1), ("resamples", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"search.{name} must be at least {least}, got {getattr(self, name)}")


@dataclass(slots=True, eq=False)
class Node:
    """A point of a task at which the model was asked for a reply."""

    source: Played
    """The first episode that came here; its replies are what is replayed."""
    turns: int
    """Turns before it."""
    good: int
    """Those of them that were good."""
    children: dict[tuple[str, str], Node] = field(default_factory=dict)
    """By command and observation."""
    tried: dict[str, None] = field(default_factory=dict)
    """Commands said here, in order."""
    episodes: int = 0
    returns: float = 0.0
    """Sum over the episodes through it."""
    replies: int = 0
    """Replies generated here, those of branches under way included."""
    wrong: int = 0
    closed: bool = False
    """Whether replaying it failed."""

    @property
    def value(self) -> float:
        return self.returns / self.episodes

    @property
    def prior(self) -> float:
        return (1 + self.good) / (1 + self.turns) * (1 + self.wrong / self.replies) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """An episode to be played: ``turns`` turns of ``source`` again, then the model's own."""

    number: int
    source: Played
    turns: int
    avoid: tuple[str, ...]
    resamples: int
    horizon: int
    """Turn limit of the whole episode, cut where the budget would not last."""
    node: Node

    @property
    def item_id(self) -> str:
        return self.source[0].item_id

    @property
    def calls(self) -> int:
        """Most calls it may take."""
        return self.horizon - self.turns + self.resamples

    @property
    def replies(self) -> list[str]:
        """The text of the replies to be replayed."""
        return [turn.response for turn in self.source[0].turns[: self.turns]]

    def tags(self) -> dict[str, Any]:
        """What an outcome is known by; goes into the episode's tags."""
        return {"branch": self.number, "prefix_turns": self.turns}

    def row(self) -> dict[str, Any]:
        """Fields of its dataset row, beside the task's own; tokens are those that were sampled.

        The source's tokens must be as played, their loss weight the mask of the rollout.

        Raises:
            ValueError: the source was played without tokens.
        """
        episode, samples = self.source
        if len(samples) != 1:
            what = "was folded" if samples else "has no tokens"
            raise ValueError(f"{self.item_id} cannot be branched from: its episode {what}")
        (example,) = samples
        prefix = []
        for turn in episode.turns[: self.turns]:
            span = range(*(episode.prompt_tokens + end for end in turn.tokens))
            ids = [example.input_ids[at] for at in span if example.loss_weight[at]]
            prefix.append({"ids": ids, "log_prob": turn.log_prob, "step": episode.model_step})
        branch = {"prefix": prefix, "avoid": list(self.avoid), "resamples": self.resamples}
        return {"horizon": self.horizon, "branch": branch, "tags": self.tags()}


class TreeSearch:
    """The tree of one task: proposes branches and learns from what became of them."""

    def __init__(self, settings: SearchSettings, samples: Sequence[Played], seed: str) -> None:
        """
        Args:
            samples: episodes of the task that count, each with at least one turn.
        """
        self.settings = settings
        self.horizon = max(episode.horizon for episode, _ in samples)
        self.nodes: list[Node] = []
        self.solved = False
        self.spent = 0
        self._rng = Random(seed)
        self._root: Node | None = None
        for played in samples:
            self._add(played)

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
            horizon = min(self.horizon, node.turns + left - resamples)
            if branches and horizon < self.horizon:
                break
            node.replies += 1
            branch = Branch(
                number=next(numbers), source=node.source, turns=node.turns, avoid=avoid, resamples=resamples,
                horizon=horizon, node=node,
            )  # fmt: skip
            left -= branch.calls
            branches.append(branch)
        return branches

    def learn(self, branch: Branch, played: Played) -> bool:
        """Take in what became of a branch; false, and nothing learnt, when its replay went another way.

        An episode that failed outside the agent is charged all it might have taken.
        """
        episode, node = played[0], branch.node
        if not episode.ending.counts:
            self.spent += branch.calls
            return True
        self.spent += episode.calls
        if not follows(branch, played):
            node.closed = True
            return False
        node.replies -= 1  # its reply was counted when it was proposed
        self._add(played)
        return True

    def _choose(self) -> Node | None:
        """The open node with the highest score; chance decides among equals."""
        nodes = [node for node in self.nodes if node.replies and not node.closed]
        total = log(1 + sum(node.replies for node in nodes))

        def score(node: Node) -> tuple[float, float]:
            bonus = node.prior * sqrt(total / node.replies)
            return node.value + self.settings.exploration * bonus, self._rng.random()

        return max(nodes, key=score, default=None)

    def _avoid(self, node: Node) -> tuple[str, ...]:
        return tuple(node.tried)

    def _add(self, played: Played) -> None:
        episode = played[0]
        self.solved |= episode.success
        self._root = node = self._root or self._node(played, 0, 0)
        judged = list(zip(episode.turns, judge(episode), strict=True))
        good = 0
        for number, (turn, fine) in enumerate(judged, start=1):
            node.episodes += 1
            node.returns += episode.reward
            node.tried[command(turn)] = None
            if turn.calls:
                node.replies += 1
                node.wrong += not fine
            good += fine
            if number == len(judged):
                break
            key = command(turn), turn.observation
            if key not in node.children:
                node.children[key] = self._node(played, number, good)
            node = node.children[key]

    def _node(self, played: Played, turns: int, good: int) -> Node:
        node = Node(played, turns, good)
        self.nodes.append(node)
        return node


def command(turn: Turn) -> str:
    """What a turn did: its command, or the whole reply where none could be read."""
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


def follows(branch: Branch, played: Played) -> bool:
    """Whether an episode really went through its branch: the same messages, and the same tokens where there are any."""
    (source, tokens), (episode, own) = branch.source, played
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
    """What a search over many tasks came to."""

    played: list[Played]
    """Every episode of it, for counting; dropped ones without their tokens, so that nothing can learn from them."""
    solved: list[Played]
    """The successes: whole episodes, prefix included."""
    tasks: int
    """Tasks that were searched."""
    calls: int
    dropped: int
    """Branches whose replay went another way."""
    failed: int
    """Branches that failed outside the agent."""

    def metrics(self) -> dict[str, float]:
        return {
            "search/tasks": self.tasks,
            "search/solved": len({episode.item_id for episode, _ in self.solved}),
            "search/calls": self.calls,
            "search/branches": len(self.played),
            "search/dropped": self.dropped,
            "search/failed": self.failed,
        }


def search(
    samples: Sequence[Played],
    play: Callable[[Sequence[Branch]], Sequence[Played]],
    settings: SearchSettings,
    *,
    replayable: Collection[str],
    seed: int | str,
    tree: type[TreeSearch] = TreeSearch,
) -> Searched:
    """Search all tasks whose samples failed, side by side, round by round, until solved or out of calls.

    The outcome is a function of samples and play, not of the order in which either hands over episodes.

    Args:
        samples: episodes of any tasks, solved ones among them.
        play: plays branches; outcomes carry the branch's tags and may come in any order.
        replayable: worlds in which a prefix can be replayed; tasks of others are left alone.

    Raises:
        ValueError: an outcome is missing or belongs to no branch.
    """
    trees = {
        item_id: tree(settings, own, f"{seed}:{item_id}")
        for item_id, own in sorted(unsolved(samples, replayable).items())
    }
    result = Searched(played=[], solved=[], tasks=len(trees), calls=0, dropped=0, failed=0)
    numbers = count()
    while branches := [branch for one in trees.values() for branch in one.propose(numbers)]:
        outcomes = {played[0].tags.get("branch"): played for played in play(branches)}
        if outcomes.keys() != {branch.number for branch in branches}:
            raise ValueError(f"{len(branches)} branches were played, but outcomes are of {sorted(map(str, outcomes))}")
        for branch in branches:
            played = outcomes[branch.number]
            result.failed += not played[0].ending.counts
            if not trees[branch.item_id].learn(branch, played):
                result.dropped += 1
                result.played.append((played[0], ()))
                continue
            result.played.append(played)
            if played[0].success:
                result.solved.append(played)
    result.calls = sum(one.spent for one in trees.values())
    return result


def unsolved(samples: Sequence[Played], replayable: Collection[str]) -> dict[str, list[Played]]:
    """Samples by task, of tasks that can be replayed and that none of them solved, in an order of their own."""
    groups: dict[str, list[Played]] = {}
    for episode, tokens in samples:
        if episode.env in replayable and episode.ending.counts and episode.turns:
            groups.setdefault(episode.item_id, []).append((episode, tokens))
    return {
        item_id: sorted(own, key=lambda played: [turn.response for turn in played[0].turns])
        for item_id, own in groups.items()
        if not any(episode.success for episode, _ in own)
    }
