r"""Groups that begin in the middle of an episode, where returns vary most (after ExIt, arXiv 2509.04575).

A start :math:`b` is a task with the first :math:`k` responses of an episode: they are replayed, and the policy goes on.
Its score :math:`v_b` follows the variance of returns of the groups that began there,

.. math:: v_b \leftarrow (1 - a) \, v_b + a \, s^2(R), \qquad s^2(R) = \frac{1}{n - 1} \sum_i (R_i - \bar R)^2

After each group, from a start or from its task (:math:`k = 0`), an episode of :math:`T` turns offers its first
:math:`k + 1, \dots, T - 1` responses as starts with the score :math:`s^2(R)`. Those with the highest scores are kept,
equal ones at random. A group begins at :math:`b` with the probability of prioritised level replay (arXiv 2010.03934),

.. math:: P(b) = (1 - \rho) \, \frac{v_b^{1 / \tau}}{\sum_c v_c^{1 / \tau}} + \rho \, \frac{t - t_b}{\sum_c (t - t_c)}

in step :math:`t`, where :math:`t_b` is the step that offered or last scored it. No step takes a start twice, and a
start takes the place of a drawn task of the same environment. Advantages are those of ``algorithm.base`` over the
group, for the turns after the start. The tokens before it are not learned from.

With ``restarts.source=demonstrations`` starts are prefixes of demonstrations, whose score is 1/4 until they are played.
With ``restarts.reverse_every`` they are a reverse curriculum (R3, arXiv 2402.05808): in step :math:`t`, counted from 0,
a demonstration of :math:`T` turns is replayed up to

.. math:: k = \max(0, \; T - 1 - \lfloor t / \mathtt{reverse\_every} \rfloor)

Departures: a start is a state of the environment that a replay leads to; all turns after it are learned from, not the
first alone; an episode that goes another way (``restarts.diverge``) is asked to before its first observation, not shown
what was tried. R3's published code mixes prefixes of all lengths in one file of data; here that is
``restarts.reverse_every=null``, where scores choose among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import partial
from statistics import fmean
from typing import Any

from agentgym_rl.algorithms.base import Metrics, Needs, Rollout, Run
from agentgym_rl.algorithms.config import within
from agentgym_rl.algorithms.gigpo import GiGPO, GiGPOConfig
from agentgym_rl.algorithms.groups import uneven
from agentgym_rl.algorithms.grpo import GRPO
from agentgym_rl.algorithms.policy_gradient import Credit, PolicyGradient
from agentgym_rl.algorithms.restarts import Outcome, RestartsConfig, Source, Starts, after, arrived, replayed
from agentgym_rl.algorithms.rloo import RLOO
from agentgym_rl.data.episode import Episode


class Base(StrEnum):
    """The algorithm whose credit the groups get."""

    GRPO = "grpo"
    RLOO = "rloo"
    GIGPO = "gigpo"


CREDIT: Mapping[Base, type[PolicyGradient[Any]]] = {Base.GRPO: GRPO, Base.RLOO: RLOO, Base.GIGPO: GiGPO}


@dataclass(kw_only=True)
class ExItConfig(GiGPOConfig):
    """Keys of ``algorithm=exit``."""

    tasks_per_step: int = 32
    """Groups of a step."""
    mini_batch_tasks: int = 32
    """Groups of an update, each with all its episodes."""
    base: Base = Base.GRPO
    """The algorithm that gives credit: grpo, rloo or gigpo, with its keys."""
    restarts: RestartsConfig = field(default_factory=RestartsConfig)
    """Where groups begin; see :class:`~agentgym_rl.algorithms.restarts.RestartsConfig`."""

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        credit = CREDIT[self.base].Config
        reasons = dict(credit.unused(self, off_policy=off_policy, environments=environments))
        foreign = {key.name for key in fields(GiGPOConfig)} - {key.name for key in fields(credit)}
        reasons |= dict.fromkeys(foreign, f"algorithm.base={self.base} does not read it")
        return {**reasons, **within("restarts", self.restarts.unused())}


class ExIt(PolicyGradient[ExItConfig]):
    """Groups from starts beside fresh ones."""

    Config = ExItConfig
    fewest_samples = 2

    def __init__(self, config: ExItConfig) -> None:
        super().__init__(config)
        self.starts, self.base = Starts(config.restarts), CREDIT[config.base](config)
        self._outcomes: Sequence[Outcome] = ()
        """Of the present step."""

    @classmethod
    def needs(cls, config: ExItConfig) -> Needs:
        key = "algorithm=exit" if config.restarts.share else None
        shown = bool(config.restarts.share) and config.restarts.source is not Source.OWN
        return replace(super().needs(config), full_context=key, replays=key, demonstrations=shown)

    def batches(self, run: Run, number: int) -> Iterator[list[Rollout]]:
        """Episodes whose replay led to their start, in groups of two or more."""
        if not self.config.restarts.share:
            yield from super().batches(run, number)
            return
        self.starts.demonstrate([rollout.episode for rollout in run.demonstrations], run.seed, number)
        met: dict[str, list[Rollout]] = {}
        for batch in self.planned(run, number, partial(self.starts.plan, run.seed), met):
            rollouts = arrived(batch)
            size = Counter(rollout.group for rollout in rollouts)
            yield [rollout for rollout in rollouts if size[rollout.group] > 1]
        self._outcomes = [Outcome.of(group) for group in met.values()]
        self.starts.observe(self._outcomes, run.seed, number)

    def filter(self) -> dict[str, Any]:
        """That of groups, by the episodes that went on from the start."""
        asked = super().filter()
        if keep := asked.get("keep"):
            asked["keep"] = lambda group: len(rollouts := arrived(group)) > 1 and keep(rollouts)
        return asked

    def credit(self, group: Sequence[Episode]) -> Credit:
        """Of the turns after the start; those before have 0, where each turn has a number."""
        streams = self.base.credit([after(episode) for episode in group])
        return [
            [0.0] * (replayed(episode) or 0) + [*stream] if isinstance(stream, Sequence) else stream
            for episode, stream in zip(group, streams, strict=True)
        ]

    def metrics(self, rollouts: Sequence[Rollout]) -> Metrics:
        """Those of the base, and of a step's groups by where they began."""
        metrics = self.base.metrics([replace(rollout, episode=after(rollout.episode)) for rollout in rollouts])
        return {**metrics, **self._of_starts()} if self.config.restarts.share else metrics

    def played(self, episode: Episode) -> Episode:
        return after(episode)

    def _of_starts(self) -> Metrics:
        compared = [outcome for outcome in self._outcomes if len(outcome.episodes) > 1]
        restarted = [outcome for outcome in compared if outcome.start is not None]
        fresh = [uneven(outcome.rewards) for outcome in compared if outcome.start is None]
        scores = [start.score for start in self.starts.kept.values()]
        metrics = {
            "restarts/groups": float(len(restarted)),
            "restarts/buffer": float(len(scores)),
            "restarts/diverged_replays": float(sum(outcome.diverged for outcome in self._outcomes)),
        }
        if restarted:
            metrics["restarts/prefix_turns"] = fmean(replayed(outcome.episodes[0]) or 0 for outcome in restarted)
            metrics["restarts/gradient_share"] = fmean(uneven(outcome.rewards) for outcome in restarted)
        if fresh:
            metrics["restarts/fresh_gradient_share"] = fmean(fresh)
        if scores:
            metrics["restarts/score_mean"] = fmean(scores)
        return metrics

    def state_dict(self) -> dict[str, Any]:
        return {"shaping": super().state_dict(), "starts": self.starts.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state["shaping"])
        self.starts.load(state["starts"])
