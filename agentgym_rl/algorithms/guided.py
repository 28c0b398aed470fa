r"""A playbook that some episodes read, and weights that learn to do without it: the experience of AgentEvolver (arXiv
2511.10395) in GRPO, with the playbook of Training-Free GRPO (arXiv 2510.08191).

``algorithm.guided.share`` of each group reads the lessons of a playbook before the first observation. Advantages
compare the whole group. Rows of those that read it are learned

* without it (``algorithm.guided.learn=without``): the lessons leave the prompt, and all positions move up. The ratio is
  off-policy, :math:`\pi_\theta(a \mid s) / \pi_{old}(a \mid s, \mathrm{lessons})`, and its upper clip
  ``algorithm.guided.clip_high``; or
* as they were (``with``). Then panels, and whoever gets the weights, read the lessons, too.

With a share of 0 this is :mod:`~agentgym_rl.algorithms.grpo`. With a share of 1 and ``learn=with`` it is GRPO with
``rollout.playbook``.

Departures: the playbook is a file that does not change during the run, where AgentEvolver retrieves what is like the
task from a pool. :math:`\pi_{old}` is what the training workers compute before the update. A step rolls out all its
tasks before it learns (``engine.mode=sync``), and updates take equal numbers of episodes, not whole groups.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from statistics import fmean
from typing import Any

from agentgym_rl.algorithms.base import Metrics, Needs, Request, Rollout, Run, groups
from agentgym_rl.algorithms.checks import above, share
from agentgym_rl.algorithms.config import within
from agentgym_rl.algorithms.grpo import GRPO, GRPOConfig
from agentgym_rl.algorithms.losses.clipped import ClippedConfig
from agentgym_rl.algorithms.losses.off_policy import MOVED, SAMPLED, OffPolicy
from agentgym_rl.algorithms.other_prompt import under
from agentgym_rl.algorithms.rows import Row
from agentgym_rl.data.episode import prefaced
from agentgym_rl.rollout.playbook import Playbook

GUIDED, GROUP = "guided", "group"
"""Tags of an episode: whether it read the lessons; the number of its group in the step."""


class Learn(StrEnum):
    """How rows that read the lessons are learned."""

    WITHOUT = "without"
    WITH = "with"


@dataclass(kw_only=True)
class GuidanceConfig:
    """Keys of ``algorithm.guided``."""

    playbook: str | None = None
    """A playbook of ``agentgym-rl learn``; null shows none."""
    share: float = 0.5
    """Share of the episodes of a group that read it, rounded at random where it is no whole number of them."""
    learn: Learn = Learn.WITHOUT
    """Whether their rows are learned without the lessons, or with them."""
    clip_high: float = 1.0
    """How far the ratio of rows without them may rise above 1."""

    def __post_init__(self) -> None:
        share(self, "share")
        above(self, 0, "clip_high")

    @property
    def lessons(self) -> Playbook:
        """Those that episodes read; for what it raises see :meth:`.Playbook.filled`."""
        return Playbook() if self.playbook is None else Playbook.filled(self.playbook, "algorithm.guided.playbook")

    @property
    def mixes(self) -> bool:
        """Whether groups, or rows, differ from those of GRPO with the playbook in all prompts."""
        return self.playbook is not None and self.share > 0 and (self.share < 1 or self.learn is Learn.WITHOUT)

    def unused(self) -> Mapping[str, str]:
        """Keys that have no effect beside the others, and why."""
        others = {key.name for key in fields(self)}
        if self.playbook is None:
            return dict.fromkeys(others - {"playbook"}, "algorithm.guided.playbook=null has no lessons")
        if not self.share:
            return dict.fromkeys(others - {"share"}, "algorithm.guided.share=0 shows the lessons to no episode")
        if self.learn is Learn.WITH:
            return {"clip_high": "algorithm.guided.learn=with learns rows as they were sampled"}
        return {}


@dataclass(kw_only=True)
class GuidedConfig(GRPOConfig):
    """Keys of ``algorithm=guided``."""

    guided: GuidanceConfig = field(default_factory=GuidanceConfig)
    """Who reads the lessons, and how that is learned; see :class:`GuidanceConfig`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.guided.mixes and self.loss.kl:
            raise ValueError(
                f"loss.kl={self.loss.kl} needs rows that stay with the engine; set loss.kl=0 or guided.share=0"
            )
        if self.moves and not isinstance(self.loss, ClippedConfig):
            raise ValueError(
                f"loss.name={self.loss.name} has no guided.clip_high; set loss=vanilla or guided.learn=with"
            )

    @property
    def moves(self) -> bool:
        """Whether rows lose the lessons."""
        return self.guided.mixes and self.guided.learn is Learn.WITHOUT

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        reasons = {
            **super().unused(off_policy=off_policy, environments=environments),
            **within("guided", self.guided.unused()),
        }
        if not self.guided.mixes:
            return reasons
        why = "algorithm.guided learns from the present weights' own tokens"
        reasons |= within("correction", {each.name: why for each in fields(self.correction)})
        return {**reasons, "groups.refills": "algorithm.guided rolls out no other tasks in place of those left out"}


class Guided(GRPO):
    """GRPO, some of whose episodes read a playbook."""

    Config = GuidedConfig
    config: GuidedConfig

    def __init__(self, config: GuidedConfig) -> None:
        super().__init__(config)
        self.playbook = config.guided.lessons

    @classmethod
    def needs(cls, config: Any) -> Needs:
        key = "algorithm.guided.playbook"
        if config.guided.playbook is None:
            return super().needs(config)
        return replace(
            super().needs(config),
            playbook=key,
            by_environment=key,
            environments={key: {lesson.env for lesson in config.guided.lessons.lessons}},
            whole_steps=key if config.guided.mixes else None,
            full_context="algorithm.guided.learn=without" if config.moves else None,
        )

    def prompt(self, env: str) -> str:
        guided = self.config.guided
        return self.playbook.text(env) if guided.share and guided.learn is Learn.WITH else ""

    def unit(self, run: Run, number: int) -> Metrics:
        config = self.config
        if not config.guided.mixes:
            return super().unit(run, number)
        learnt = self.shaped(self.met(run, number), run.response_tokens)
        rows, loss = self.rows(learnt), self.loss
        if config.moves:
            rows = self.moved(run, run.score(rows, name=SAMPLED, read=True))
            loss = OffPolicy(self.loss, config.guided.clip_high)
        return self.learn_whole(run, rows, learnt, number, loss, "guided")

    def met(self, run: Run, number: int) -> list[Rollout]:
        """The rollouts of a step that are learned from."""
        counted = self.rolled_out(run, self.plan(run.seed, number, run.requests(number)))
        whole = groups([replace(rollout, group=f"{rollout.episode.tags[GROUP]}") for rollout in counted])
        keep = self.filter().get("keep", bool)
        return [rollout for group in whole if len(group) > 1 and keep(group) for rollout in group]

    def plan(self, seed: int, number: int, requests: Sequence[Request]) -> list[Request]:
        """The requests of a step, each in two: for the episodes that read the lessons, and the others."""
        rng, planned = random.Random(f"{seed} {number} guided"), []
        for place, request in enumerate(requests):
            text = self.playbook.text(request.task.env)
            guided = int(self.config.guided.share * request.samples + rng.random()) if text else 0
            for reads, samples in ((True, guided), (False, request.samples - guided)):
                tags = {**request.tags, GUIDED: reads, GROUP: place}
                planned += [replace(request, samples=samples, prompt=text if reads else "", tags=tags)] * (samples > 0)
        return planned

    def moved(self, run: Run, rows: Sequence[Row]) -> list[Row]:
        """The rows, those that read the lessons without them."""
        moved = []
        for row in rows:
            assert row.episode is not None
            guided = row.episode.tags[GUIDED]
            learned = without(run, row, self.playbook.text(row.episode.env)) if guided else row
            moved.append(replace(learned, streams={**learned.streams, MOVED: float(guided)}))
        return moved

    def metrics(self, rollouts: Sequence[Rollout]) -> Metrics:
        metrics: Metrics = {}
        for name, reads in (("guided/success", True), ("guided/unguided_success", False)):
            if won := [each.episode.success for each in rollouts if each.episode.tags.get(GUIDED) is reads]:
                metrics[name] = fmean(won)
        return metrics


def without(run: Run, row: Row, text: str) -> Row:
    """A row of an episode in one segment, without a text that its first observation begins with."""
    return under(run, row, lambda observation: observation.removeprefix(prefaced(text, "")))
