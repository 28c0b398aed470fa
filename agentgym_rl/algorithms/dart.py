r"""Curated groups, turns and turn limits (DART-GUI, arXiv 2509.23866).

Advantages are those of GRPO over groups that are filled up:

* A group whose episodes all failed gets a success of its task from a pool (``algorithm.pool``), in the place of its
  first failure. Its advantage is multiplied, token by token, by :math:`\min(\pi_{old} / \pi_{sampled}, C)`, where
  :math:`C` is ``algorithm.importance_cap``: older weights sampled it.
* The turn limit of a task with ``algorithm.limit.after`` successes or more is :math:`\lceil s L \rceil`, never above
  that of its environment and curriculum. :math:`L` is the turns of its longest success so far, and :math:`s`
  ``algorithm.limit.slack``. Of every ``algorithm.limit.probe`` groups of a task, one has the full limit, so that a task
  that takes more turns by now can show it.
* Turns count whose entropy is among the highest of their group (``algorithm.entropy.keep``), estimated by the mean of
  :math:`-\log \pi` over their sampled tokens. Others leave loss and normaliser.

The released script differs from the paper: its loss is GSPO, and the selection of turns is commented out. There, too,
the newest success takes the place of the oldest failure.

Departures: the paper samples solved tasks less, which here the mixture can do (``mixture.samples``); it weighs all
episodes, and here those of the pool alone, as all others are of the present weights. :math:`\pi_{sampled}` is what the
training workers computed when the success was new. That of demonstrations is not known; they weigh as if the present
weights had sampled them. With a pool or a selection of turns, a step rolls out all its tasks before it learns, and
updates take equal numbers of episodes, not whole groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import ceil, exp
from statistics import fmean
from typing import Any

from agentgym_rl.algorithms.base import Metrics, Needs, Request, Rollout, Run, groups
from agentgym_rl.algorithms.checks import above, at_least, share
from agentgym_rl.algorithms.config import within
from agentgym_rl.algorithms.grpo import GRPOConfig, relative
from agentgym_rl.algorithms.losses.base import MAX_LOG_RATIO
from agentgym_rl.algorithms.policy_gradient import Credit, PolicyGradient
from agentgym_rl.algorithms.pool import POOLED, Pool, PoolConfig
from agentgym_rl.algorithms.restarts import task_of
from agentgym_rl.algorithms.rows import PerToken, Row
from agentgym_rl.data.episode import Episode, Turn
from agentgym_rl.rollout.supervised import Example

PRESENT = "present"
"""Stream of log-probabilities by the present weights."""


# keys


@dataclass(kw_only=True)
class LimitConfig:
    """Keys of ``algorithm.limit``."""

    slack: float | None = 1.0
    """Turn limit of a task by the turns of its longest success so far; null leaves limits as they are."""
    after: int = 2
    """Successes of a task from which on it has a limit of its own."""
    probe: int = 10
    """Every so many groups of a task, one has the full limit; 1 has it always."""

    def __post_init__(self) -> None:
        at_least(self, 1, "after", "probe", *(["slack"] if self.slack is not None else []))

    def unused(self) -> Mapping[str, str]:
        """Keys that have no effect beside the others, and why."""
        if self.slack is not None:
            return {}
        return dict.fromkeys(("after", "probe"), "algorithm.limit.slack=null leaves limits as they are")


@dataclass(kw_only=True)
class EntropyConfig:
    """Keys of ``algorithm.entropy``."""

    keep: float = 0.8
    """Share of a group's turns that are learned from, those with the highest entropy; 1 learns from all."""

    def __post_init__(self) -> None:
        above(self, 0, "keep")
        share(self, "keep")


@dataclass(kw_only=True)
class DARTConfig(GRPOConfig):
    """Keys of ``algorithm=dart``."""

    pool: PoolConfig = field(default_factory=PoolConfig)
    """Successes for groups that have none; see :class:`~agentgym_rl.algorithms.pool.PoolConfig`."""
    limit: LimitConfig = field(default_factory=LimitConfig)
    """Turn limits of tasks; see :class:`LimitConfig`."""
    entropy: EntropyConfig = field(default_factory=EntropyConfig)
    """Which turns are learned from; see :class:`EntropyConfig`."""
    importance_cap: float = 1.0
    """:math:`C`: greatest importance weight of a token of the pool's successes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above(self, 0, "importance_cap")
        if self.reads_tokens and self.loss.kl:
            raise ValueError(
                f"loss.kl={self.loss.kl} needs rows that stay with the engine: set pool.size=0 and entropy.keep=1, or "
                "loss.kl=0"
            )

    @property
    def reads_tokens(self) -> bool:
        """Whether it changes what tokens of a row count, and so needs them."""
        return bool(self.pool.size) or self.entropy.keep < 1

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        found = {
            **super().unused(off_policy=off_policy, environments=environments),
            **within("pool", self.pool.unused()),
            **within("limit", self.limit.unused()),
        }
        if not self.pool.size:
            found["importance_cap"] = "algorithm.pool.size=0 leaves all episodes to the present weights"
        if not self.reads_tokens:
            return found
        why = "algorithm=dart with a pool or a selection of turns learns from the present weights' own tokens"
        found |= within("correction", dict.fromkeys((key.name for key in fields(self.correction)), why))
        return {**found, "groups.refills": "algorithm=dart rolls out no other tasks in place of those left out"}


# a task's turn limit


@dataclass(slots=True, kw_only=True)
class Played:
    """What the groups of a task came to."""

    groups: int = 0
    successes: int = 0
    longest: int = 0
    """Turns of its longest success."""

    def observe(self, group: Sequence[Episode]) -> None:
        """Take in a group."""
        won = [len(episode.turns) for episode in group if episode.success]
        self.groups, self.successes = self.groups + 1, self.successes + len(won)
        self.longest = max([self.longest, *won])

    def limit(self, config: LimitConfig, full: int | None) -> int | None:
        """Turn limit of its next group, where ``full`` is that of environment and curriculum."""
        if config.slack is None or self.successes < config.after or (self.groups + 1) % config.probe == 0:
            return full
        own = ceil(config.slack * self.longest)
        return own if full is None else min(own, full)


# turns and tokens


def entropy(turn: Turn) -> float | None:
    """Mean of :math:`-\\log \\pi` over its sampled tokens, in nats; None where it is not known."""
    length = turn.tokens[1] - turn.tokens[0]
    return -turn.log_prob / length if turn.calls and length and turn.log_prob is not None else None


def threshold(values: Sequence[float], keep: float) -> float:
    """The least of the highest values, of which there are ``keep`` of all or the next number above."""
    lowest = min(int((1 - keep) * len(values) + 1e-9), len(values) - 1)  # 1e-9: (1 - 0.8) * 5 is a bit below 1
    return sorted(values)[lowest]


def selected(group: Sequence[Episode], keep: float) -> list[list[bool]]:
    """Of each turn of a group, whether it counts; one whose entropy is not known does."""
    each = [[entropy(turn) for turn in episode.turns] for episode in group]
    if not (known := [value for values in each for value in values if value is not None]):
        return [[True] * len(values) for values in each]
    least = threshold(known, keep)
    return [[value is None or value >= least for value in values] for values in each]


def without(segment: Example, spans: Sequence[tuple[int, int]]) -> Example:
    """A segment of which the responses at these places are context alone."""
    weights = [*segment.loss_weight]
    for start, end in spans:
        weights[start:end] = [0.0] * (end - start)
    return replace(segment, loss_weight=weights)


def spans(row: Row) -> Iterator[tuple[Turn, int, int]]:
    """The turns of a row, and where their tokens stand in its segment."""
    assert isinstance(row.segment, Example) and row.episode is not None
    for turn in row.episode.turns:
        if turn.segment == row.number:
            yield turn, row.segment.prompt + turn.tokens[0], row.segment.prompt + turn.tokens[1]


def ratios(old: Sequence[float], sampled: Sequence[float]) -> list[float]:
    """:math:`\\pi_{old} / \\pi_{sampled}` of each token."""
    return [exp(min(now - then, MAX_LOG_RATIO)) for now, then in zip(old, sampled, strict=True)]


def times(row: Row, weights: Sequence[float]) -> PerToken:
    """The advantage of a row on each of its tokens, times their weights."""
    advantage = row.streams["advantage"]
    assert isinstance(advantage, float)
    return PerToken(advantage * weight for weight in weights)


def per_token(row: Row, name: str) -> PerToken:
    """A stream of one number a token."""
    stream = row.streams[name]
    assert isinstance(stream, PerToken)
    return stream


# the algorithm


class DART(PolicyGradient[DARTConfig]):
    """GRPO over curated groups."""

    Config = DARTConfig
    fewest_samples = 2

    def __init__(self, config: DARTConfig) -> None:
        super().__init__(config)
        self.pool = Pool(config.pool)
        self.played: dict[str, Played] = {}
        """By task."""
        self._logged: Metrics = {}
        """Of the present step."""

    @classmethod
    def needs(cls, config: DARTConfig) -> Needs:
        return replace(super().needs(config), demonstrations=config.pool.shows)

    def unit(self, run: Run, number: int) -> Metrics:
        config, self._logged = self.config, {}
        if not config.reads_tokens:
            return super().unit(run, number)
        met = self._met(run, number)
        learnt = self.shaped(self._filled(run, met), run.response_tokens)
        rows = self._selected(learnt, self._weighed(run, self.rows(learnt)))
        self._fill_pool(run, [rollout for group in met for rollout in group if rollout.episode.success])
        updates = max(1, round(len(groups(learnt)) / config.mini_batch_tasks))
        size, seed = max(1, ceil(len(rows) / updates)), f"{run.seed}:{number}"
        run.learn(rows, self.loss, lr=self.rate(number), mini_batch=size, epochs=config.epochs, seed=seed)
        return self.told(learnt, run.response_tokens)

    # groups

    def batches(self, run: Run, number: int) -> Iterator[list[Rollout]]:
        """Those of GRPO, with limits of their own."""
        if self.config.limit.slack is None:
            yield from super().batches(run, number)
            return
        met: dict[str, list[Rollout]] = {}
        asked = self.filter()
        if keep := asked.get("keep"):

            def noted(group: list[Rollout]) -> bool:
                met[group[0].group] = group
                return bool(keep(group))

            asked["keep"] = noted
        for batch in run.batches(number, self.plan, **asked):
            met |= {group[0].group: group for group in groups(batch)}
            yield batch
        self._observe(list(met.values()))

    def plan(self, number: int, drawn: Sequence[Request]) -> list[Request]:
        """The requests of a step with the turn limits of their tasks."""
        limits = [self.played.get(f"{each.task}", Played()).limit(self.config.limit, each.max_turns) for each in drawn]
        if known := [limit for limit in limits if limit is not None]:
            self._logged["dart/limit_mean"] = fmean(known)
        return [replace(each, max_turns=limit) for each, limit in zip(drawn, limits, strict=True)]

    def _observe(self, met: Sequence[Sequence[Rollout]]) -> None:
        if self.config.limit.slack is None:
            return
        for group in met:
            task = str(task_of(group[0].episode))
            self.played.setdefault(task, Played()).observe([rollout.episode for rollout in group])

    def _met(self, run: Run, number: int) -> list[list[Rollout]]:
        """The groups of a step, of the episodes that count."""
        rollouts = run.rollouts(self.plan(number, run.requests(number)), "rollouts")
        run.observe(rollouts)
        met = groups([rollout for rollout in rollouts if rollout.episode.ending.counts and rollout.segments])
        self._observe(met)
        return met

    def _filled(self, run: Run, met: Sequence[Sequence[Rollout]]) -> list[Rollout]:
        """Groups of two episodes or more, with successes of the pool."""
        if self.config.pool.shows:
            self.pool.demonstrate(run.demonstrations)
        filled = [self.pool.fill(group) for group in met if len(group) > 1]
        keep = self.filter().get("keep", bool)
        return [rollout for group in filled if keep(group) for rollout in group]

    def _fill_pool(self, run: Run, successes: Sequence[Rollout]) -> None:
        """Keep the successes of a step, with what their tokens' probabilities are now."""
        if self.config.pool.takes:
            scored = iter(self._scored(run, [row for success in successes for row in success.rows({})]))
            for success in successes:
                self.pool.take(success, run.step, [per_token(next(scored), PRESENT) for _ in success.segments])
        ages = [float(run.step - kept.step) for of_task in self.pool.kept.values() for kept in of_task]
        self._logged["dart/pool"] = float(len(ages))
        if ages:
            self._logged["dart/pool_age"] = fmean(ages)

    # rows

    def _selected(self, rollouts: Sequence[Rollout], rows: Sequence[Row]) -> list[Row]:
        """The rows without the turns that do not count."""
        if self.config.entropy.keep == 1:
            return [*rows]
        counts: dict[int, list[bool]] = {}
        for group in groups(rollouts):
            episodes = [rollout.episode for rollout in group]
            of_group = selected(episodes, self.config.entropy.keep)
            counts |= {id(episode): of_turns for episode, of_turns in zip(episodes, of_group, strict=True)}
        every = [counted for of_turns in counts.values() for counted in of_turns]
        if every:
            self._logged["dart/turns_kept"] = fmean(every)
        return [self._without(row, counts[id(row.episode)]) for row in rows]

    def _without(self, row: Row, counted: Sequence[bool]) -> Row:
        assert isinstance(row.segment, Example) and row.episode is not None
        left = {id(turn) for turn, kept in zip(row.episode.turns, counted, strict=True) if not kept}
        return replace(
            row, segment=without(row.segment, [(start, end) for turn, start, end in spans(row) if id(turn) in left])
        )

    def _weighed(self, run: Run, rows: Sequence[Row]) -> list[Row]:
        """The rows, those of the pool's successes with advantages times importance weights."""
        pooled = [place for place, row in enumerate(rows) if row.episode is not None and POOLED in row.episode.tags]
        found, cap, cut = [*rows], self.config.importance_cap, list[bool]()
        for place, scored in zip(pooled, self._scored(run, [rows[place] for place in pooled]), strict=True):
            row = rows[place]
            assert isinstance(row.segment, Example) and row.episode is not None
            now, then = per_token(scored, PRESENT), self.pool.sampled(row.episode.tags[POOLED])
            weights = ratios(now, now if then is None else then[row.number])
            cut += [ratio > cap for ratio, own in zip(weights, row.segment.loss_weight, strict=True) if own]
            found[place] = replace(
                row, streams={**row.streams, "advantage": times(row, [min(w, cap) for w in weights])}
            )
        self._logged["dart/injected"] = float(len({id(rows[place].episode) for place in pooled}))
        if cut:
            self._logged["dart/importance_cut"] = fmean(cut)
        return found

    def _scored(self, run: Run, rows: Sequence[Row]) -> list[Row]:
        return run.score(rows, name=PRESENT, read=True) if rows else []

    def credit(self, group: Sequence[Episode]) -> Credit:
        return relative([episode.reward for episode in group], self.config.normalise_by_std)

    def metrics(self, rollouts: Sequence[Rollout]) -> Metrics:
        return self._logged

    def state_dict(self) -> dict[str, Any]:
        played = {task: [each.groups, each.successes, each.longest] for task, each in self.played.items()}
        return {"shaping": super().state_dict(), "pool": self.pool.state(), "played": played}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state["shaping"])
        self.pool.load(state["pool"])
        self.played = {
            task: Played(groups=number, successes=successes, longest=longest)
            for task, (number, successes, longest) in state["played"].items()
        }
