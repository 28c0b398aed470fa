"""The step that all policy gradients share: draw, roll out, credit, update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any, ClassVar, TypeVar

from agentgym_rl.algorithms.base import Keep, Metrics, Needs, OnlineAlgorithm, Plan, Request, Rollout, Run, groups
from agentgym_rl.algorithms.config import GroupConfig, PolicyGradientConfig
from agentgym_rl.algorithms.diagnostics import diagnostics
from agentgym_rl.algorithms.losses import loss_of
from agentgym_rl.algorithms.losses.base import Loss
from agentgym_rl.algorithms.rows import Row, Stream, mapped
from agentgym_rl.algorithms.shaping import Shaping
from agentgym_rl.data.episode import Episode

Credit = Sequence[Stream]
"""Of each episode one number, one a turn, or one a token."""

P = TypeVar("P", bound=PolicyGradientConfig)


class PolicyGradient(OnlineAlgorithm[P]):
    """A training step: the rollouts of its tasks, an advantage for each, one policy update.

    A subclass writes :meth:`credit`, or names one of verl's estimators in :meth:`needs`. Its episodes have shaped
    rewards (:mod:`agentgym_rl.algorithms.shaping`).
    """

    Config = PolicyGradientConfig
    fewest_samples: ClassVar[int] = 1
    """Fewest episodes of a task; 2 for credit that compares the episodes of a group."""

    def __init__(self, config: P) -> None:
        super().__init__(config)
        self.shaping, self.loss = Shaping(config.shaping), loss_of(config.loss)

    @classmethod
    def needs(cls, config: P) -> Needs:
        return Needs(
            models=config.loss.models,
            samples_per_task=cls.fewest_samples,
            equal_updates={
                "algorithm.mini_batch_tasks x algorithm.samples_per_task": config.mini_batch_tasks
                * config.samples_per_task
            },
        )

    def unit(self, run: Run, number: int) -> Metrics:
        learnt = list[Rollout]()
        for batch in self.batches(run, number):
            rollouts = self.shaped(batch, run.response_tokens)
            self.learn(run, rollouts, number)
            learnt += rollouts
        return self.metrics_of(learnt, run.response_tokens)

    def metrics_of(self, learnt: Sequence[Rollout], response_tokens: int) -> Metrics:
        """What a step logs of the rollouts that it learned from."""
        metrics = self.metrics(learnt)
        metrics |= self.shaping.metrics([rollout.episode for rollout in learnt], response_tokens)
        return metrics | diagnostics([[self.played(rollout.episode) for rollout in group] for group in groups(learnt)])

    def played(self, episode: Episode) -> Episode:
        """An episode without the turns that are not its own."""
        return episode

    def batches(self, run: Run, number: int) -> Iterator[list[Rollout]]:
        """What the updates of a step learn from."""
        yield from run.batches(number, **self.filter())

    def planned(self, run: Run, number: int, plan: Plan, met: dict[str, list[Rollout]]) -> Iterator[list[Rollout]]:
        """The batches of planned requests; ``met`` takes in every group, those that the filter leaves out included. In
        the end they are in the order in which they were asked for.
        """
        asked = self.filter()
        if keep := asked.get("keep"):
            asked["keep"] = partial(_met, met, keep)
        for batch in run.batches(number, plan, **asked):
            met |= {group[0].group: group for group in groups(batch)}
            yield batch
        asked_for = sorted(met.items())
        met.clear()
        met.update(asked_for)

    def learn(self, run: Run, rollouts: Sequence[Rollout], number: int) -> None:
        """Learn from a batch of step ``number``, whose rewards are shaped."""
        config, lr = self.config, self.rate(number)
        run.learn(self.rows(rollouts), self.loss, lr=lr, mini_batch=config.mini_batch_tasks, epochs=config.epochs)

    def rolled_out(self, run: Run, requests: Sequence[Request]) -> list[Rollout]:
        """The rollouts of a whole step that count, before it learns; for rows that do not stay with the engine."""
        rollouts = run.rollouts(requests, "rollouts")
        run.observe(rollouts)
        return [rollout for rollout in rollouts if rollout.episode.ending.counts and rollout.segments]

    def learn_whole(
        self, run: Run, rows: Sequence[Row], learnt: Sequence[Rollout], number: int, loss: Loss[Any], label: str
    ) -> Metrics:
        """Learn from a whole step: as many updates as its groups are worth, each of equally many rows.

        Args:
            learnt: the rollouts of the rows, whose rewards are shaped.
            label: names the draw of the rows' order.
        """
        config = self.config
        updates = max(1, round(len(groups(learnt)) / config.mini_batch_tasks))
        size, seed = max(1, ceil(len(rows) / updates)), f"{run.seed}:{label}:{run.step}"
        metrics = run.learn(rows, loss, lr=self.rate(number), mini_batch=size, epochs=config.epochs, seed=seed)
        return {**metrics, **self.metrics_of(learnt, run.response_tokens)}

    def filter(self) -> dict[str, Any]:
        """Arguments of :meth:`Run.batches` that leave out groups without a gradient."""
        if not isinstance(config := self.config, GroupConfig) or not config.groups.filter:
            return {}
        groups, refills = config.groups, config.groups.refills
        return {
            "keep": lambda group: groups.teaches([rollout.episode.reward for rollout in group]),
            "refills": config.tasks_per_step if refills is None else refills,
        }

    def shaped(self, rollouts: Sequence[Rollout], response_tokens: int) -> list[Rollout]:
        """The rollouts with shaped rewards."""
        if not self.config.shaping.shapes:
            return list(rollouts)
        self.shaping.observe([rollout.episode for rollout in rollouts])
        return [replace(rollout, episode=self.shaping.shaped(rollout.episode, response_tokens)) for rollout in rollouts]

    def rows(self, rollouts: Sequence[Rollout]) -> list[Row]:
        """The rows of a batch, with their streams."""
        rows: list[Row] = []
        beside = {"observation": weight} if (weight := self.config.observation_weight) else {}
        for rollout, streams in zip(rollouts, self.streams(rollouts), strict=True):
            shaped = {"reward": rollout.episode.reward} if self.config.shaping.shapes else {}
            rows += rollout.rows({**streams, **shaped, **beside})
        return rows

    def streams(self, rollouts: Sequence[Rollout]) -> list[dict[str, Stream]]:
        """The streams of each rollout; without advantages they are left to verl's estimator."""
        if self.needs(self.config).estimator is not None:
            return [{} for _ in rollouts]
        return [{"advantage": advantage} for advantage in self.advantages(rollouts)]

    def advantages(self, rollouts: Sequence[Rollout]) -> list[Stream]:
        """:meth:`credit` of each group with its negative numbers weighed, in the order of the rollouts."""
        weight = self.config.groups.negative_weight if isinstance(self.config, GroupConfig) else 1.0
        by_rollout = {
            id(rollout): weighed(advantage, weight)
            for group in groups(rollouts)
            for rollout, advantage in zip(group, self.credit([member.episode for member in group]), strict=True)
        }
        return [by_rollout[id(rollout)] for rollout in rollouts]

    def credit(self, group: Sequence[Episode]) -> Credit:
        """Advantages of the episodes of one task: a number each, or one for each turn.

        Args:
            group: the episodes that count; at least ``fewest_samples``.
        """
        raise NotImplementedError(f"{type(self).__name__} writes credit() or names an estimator of verl's")

    def metrics(self, rollouts: Sequence[Rollout]) -> Metrics:
        """Metrics of its own for the rollouts of a step."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        return self.shaping.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.shaping.load_state_dict(state)


def _met(met: dict[str, list[Rollout]], keep: Keep, group: list[Rollout]) -> bool:
    met[group[0].group] = group
    return keep(group)


def weighed(advantage: Stream, weight: float) -> Stream:
    """Advantages with the negative ones multiplied by ``weight``."""
    return mapped(advantage, lambda value: weight * value if value < 0 else value)
