"""Starts: tasks with the first responses of an episode, and how much returns vary among groups that begin there.

The arithmetic is that of :mod:`agentgym_rl.algorithms.exit`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from hashlib import sha256
from random import Random
from statistics import variance
from typing import Any

from agentgym_rl.algorithms.base import Request, Rollout
from agentgym_rl.algorithms.checks import above, at_least, share
from agentgym_rl.data.episode import Episode, shallow
from agentgym_rl.envs import Task
from agentgym_rl.rollout.prefix import Prefix, Replayed

START = "start"
"""Tag of an episode that begins at a start: its key."""
ANOTHER_WAY = "The first steps below are given. Go on in another way than the one that comes to mind first."
"""What a group is asked to do with ``restarts.diverge``."""
UNPLAYED = 0.25
"""Score of a demonstration's start: the variance of as many successes as failures."""


# keys


class Source(StrEnum):
    """Whose responses starts replay."""

    OWN = "own"
    DEMONSTRATIONS = "demonstrations"
    BOTH = "both"


class Limit(StrEnum):
    """Whether the turn limit counts what is replayed."""

    WHOLE = "whole"
    AFTER = "after"


@dataclass(kw_only=True)
class RestartsConfig:
    """Keys of ``algorithm.restarts``."""

    share: float = 0.5
    """Share of a step's groups that begin at a start, as far as there are starts."""
    source: Source = Source.OWN
    """Whose responses are replayed: those of the policy's own episodes (own), of demonstrations, or of both."""
    buffer: int = 512
    """Starts that are kept."""
    per_task: int = 4
    """Starts that are kept of a task."""
    temperature: float = 1.0
    """:math:`\\tau`: below 1, starts of high scores are drawn more often."""
    staleness: float = 0.1
    """:math:`\\rho`: weight of the steps that passed since a start was scored."""
    rate: float = 0.5
    """:math:`a`: weight of the latest group in a start's score."""
    min_prefix: int = 1
    """Fewest responses of a start."""
    max_age: int = 50
    """Steps without a new score after which a start is dropped."""
    reverse_every: int | None = None
    """Steps after which the start of a demonstration moves one turn towards its beginning; null begins at all turns."""
    turns: Limit = Limit.WHOLE
    """Turn limit of an episode that begins at a start: that of its task (whole), or as many turns more as are replayed
    (after). With the first, a start as long as the present limit of the curriculum is not drawn."""
    diverge: float = 0.0
    """Share of these groups that are asked to go another way."""

    def __post_init__(self) -> None:
        share(self, "share", "staleness", "rate", "diverge")
        above(self, 0, "temperature", "rate")
        schedule = [] if self.reverse_every is None else ["reverse_every"]
        at_least(self, 1, "buffer", "per_task", "min_prefix", "max_age", *schedule)

    def unused(self) -> Mapping[str, str]:
        """Keys that have no effect beside the others, and why."""
        if not self.share:
            others = {key.name for key in fields(self)} - {"share"}
            return dict.fromkeys(others, "algorithm.restarts.share=0 begins at no start")
        if self.source is Source.OWN:
            return {"reverse_every": "algorithm.restarts.source=own has no demonstrations"}
        if self.source is Source.DEMONSTRATIONS and self.reverse_every is not None:
            return {"min_prefix": "algorithm.restarts.reverse_every says how long prefixes of demonstrations are"}
        return {}


# starts


@dataclass(slots=True, kw_only=True)
class Start:
    """A task with the first responses of an episode."""

    key: str
    task: str
    responses: list[str]
    score: float
    seen: int
    """The step that offered or last scored it."""
    max_turns: int
    """Turn limit of its task when it was offered."""
    demonstrated: bool = False
    """Whether the responses are a demonstration's."""

    def fits(self, drawn: Request, turns: Limit) -> bool:
        """Whether a group from here can take the place of a drawn one."""
        reaches = turns is Limit.AFTER or drawn.max_turns is None or len(self.responses) < drawn.max_turns
        return reaches and self.task.rpartition("_")[0] == drawn.task.env

    def request(self, drawn: Request, turns: Limit, preface: str) -> Request:
        """A group from here in the place of a drawn one."""
        limit = drawn.max_turns
        if turns is Limit.AFTER:
            limit = (limit or self.max_turns) + len(self.responses)
        return replace(
            drawn,
            task=Task.parse(self.task),
            max_turns=limit,
            tags={**drawn.tags, START: self.key},
            prefix=Prefix(responses=[Replayed(text=text) for text in self.responses]) if self.responses else None,
            preface=preface,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a group."""

    start: str | None
    """Key of its start; None of a fresh one."""
    episodes: Sequence[Episode]
    """Those that went on from the start."""
    diverged: int
    """How many did not arrive there."""

    @classmethod
    def of(cls, group: Sequence[Rollout]) -> Outcome:
        episodes = [rollout.episode for rollout in arrived(group)]
        return cls(group[0].episode.tags.get(START), episodes, len(group) - len(episodes))

    @property
    def rewards(self) -> list[float]:
        """They differ by what is earned after the start alone."""
        return [episode.reward for episode in self.episodes]


class Starts:
    """The starts that are kept."""

    def __init__(self, config: RestartsConfig) -> None:
        self.config = config
        self.kept: dict[str, Start] = {}
        """By key."""

    def plan(self, seed: int, number: int, drawn: Sequence[Request]) -> list[Request]:
        """The requests of a step, some of them from starts in the place of drawn ones."""
        config, rng = self.config, Random(f"{seed}:start:{number}")
        planned, starts = [*drawn], dict(self.kept)
        for place in rng.sample(range(len(drawn)), round(config.share * len(drawn))):
            if fit := [start for start in starts.values() if start.fits(drawn[place], config.turns)]:
                (start,) = rng.choices(fit, chances(fit, number, config.temperature, config.staleness))
                preface = ANOTHER_WAY if rng.random() < config.diverge else ""
                planned[place] = starts.pop(start.key).request(drawn[place], config.turns, preface)
        return planned

    def observe(self, outcomes: Sequence[Outcome], seed: int, number: int) -> None:
        """Score starts by the groups that began there, take in those that all groups offer, and keep the best."""
        for outcome in outcomes:
            start = self.kept.get(outcome.start or "")
            if outcome.diverged and start is not None:
                del self.kept[start.key]
            if len(outcome.episodes) < 2:
                continue
            spread, rate = variance(outcome.rewards), self.config.rate
            if start is not None:
                start.score, start.seen = (1 - rate) * start.score + rate * spread, number
            for episode in outcome.episodes if self.config.source is not Source.DEMONSTRATIONS else ():
                first = max((replayed(episode) or 0) + 1, self.config.min_prefix)
                self.offer(episode, range(first, len(episode.turns)), spread, number)
        self._keep_best(seed, number)

    def demonstrate(self, demonstrations: Sequence[Episode], seed: int, number: int) -> None:
        """Offer the starts of demonstrations, in the place of those that they offered last."""
        interval = self.config.reverse_every
        if self.config.source is Source.OWN or (number % interval if interval else number):
            return
        self.kept = {key: start for key, start in self.kept.items() if not start.demonstrated}
        for episode in demonstrations:
            last = len(episode.turns) - 1
            lengths = [max(0, last - number // interval)] if interval else range(self.config.min_prefix, last + 1)
            self.offer(episode, lengths, UNPLAYED, number, demonstrated=True)
        self._keep_best(seed, number - 1)

    def offer(
        self, episode: Episode, lengths: Iterable[int], score: float, number: int, *, demonstrated: bool = False
    ) -> None:
        """Take in prefixes of an episode, but for what is there already or cannot be replayed."""
        before = (replayed(episode) or 0) if self.config.turns is Limit.AFTER else 0
        responses, known = [turn.response for turn in episode.turns], keys(episode)
        for length in lengths:
            if known[length] not in self.kept and all(responses[:length]):
                self.kept[known[length]] = Start(
                    key=known[length],
                    task=str(task_of(episode)),
                    responses=responses[:length],
                    score=score,
                    seen=number,
                    max_turns=episode.max_turns - before,
                    demonstrated=demonstrated,
                )

    def _keep_best(self, seed: int, number: int) -> None:
        """Keep starts for the steps after ``number``: those of high scores, of equal ones any."""
        starts = [self.kept[key] for key in sorted(self.kept)]
        Random(f"{seed}:kept:{number}").shuffle(starts)
        of_task, best = Counter[str](), list[Start]()
        for start in sorted(starts, key=lambda start: -start.score):
            if number + 1 - start.seen <= self.config.max_age and of_task[start.task] < self.config.per_task:
                of_task[start.task] += 1
                best.append(start)
        self.kept = {start.key: start for start in best[: self.config.buffer]}

    def state(self) -> list[dict[str, Any]]:
        """JSON types."""
        return [shallow(start) for start in self.kept.values()]

    def load(self, state: Sequence[Mapping[str, Any]]) -> None:
        """The inverse of :meth:`state`."""
        self.kept = {start["key"]: Start(**start) for start in state}


def chances(starts: Sequence[Start], number: int, temperature: float, staleness: float) -> list[float]:
    """:math:`P` of each start in a step."""
    best = max(start.score for start in starts) or 1.0
    scores = shares([(start.score / best) ** (1 / temperature) for start in starts])
    ages = shares([float(number - start.seen) for start in starts])
    return [(1 - staleness) * score + staleness * age for score, age in zip(scores, ages, strict=True)]


def shares(values: Sequence[float]) -> list[float]:
    """Each value as a share of their sum; equal shares where that is 0."""
    total = sum(values)
    return [value / total if total else 1 / len(values) for value in values]


# episodes


def keys(episode: Episode) -> list[str]:
    """What stands for an episode's task, first observation and first 0, 1, ..., T turns."""
    first = [message["content"] for message in episode.without_preface[: episode.start][-1:]]
    digest, digests = sha256(), list[str]()
    for part in ([str(task_of(episode)), *first], *([turn.response, turn.observation] for turn in episode.turns)):
        digest.update(json.dumps(part).encode())
        digests.append(digest.hexdigest()[:20])
    return digests


def task_of(episode: Episode) -> Task:
    """Its task in the run: the file of a demonstration may call the environment otherwise."""
    return Task(episode.env, Task.parse(episode.item_id).index)


def replayed(episode: Episode) -> int | None:
    """Turns before the start of an episode, 0 of a fresh one; None if it did not get there, or has no turn after it."""
    if (start := episode.tags.get(START)) is None:
        return 0
    reached = keys(episode)[:-1]
    return reached.index(start) if start in reached else None


def arrived(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Those whose replay led to their start."""
    return [rollout for rollout in rollouts if replayed(rollout.episode) is not None]


def after(episode: Episode) -> Episode:
    """An episode as if it had begun at its start."""
    return replace(episode, turns=episode.turns[replayed(episode) or 0 :])
