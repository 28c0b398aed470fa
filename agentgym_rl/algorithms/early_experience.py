r"""Early experience, implicit world modelling (arXiv 2510.08558): what follows other actions than the expert's.

At each state :math:`s_i` of a demonstration the policy as it is takes ``alternatives`` actions :math:`a_i^j`, and the
environment answers :math:`s_i^j`. The first passes learn these observations, and those that the expert met,

.. math:: L = - \sum \log p(s_i^j | s_i, a_i^j)

over the tokens between two responses. The rest clone the demonstrations. With ``budget=equal`` both together make as
many updates as ``epochs`` passes of cloning alone.

Departures: an observation enters the tokens of an episode when the next response begins, so an action that ends the
episode has no example. A branch is one row, and a demonstration is one row of all its turns, so there are many more of
the former: with ``budget=equal`` cloning keeps the updates of one pass, whatever there is to observe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from random import Random
from typing import Any

from agentgym_rl.algorithms.base import Algorithm, Metrics, Needs, Request, Rollout, Run
from agentgym_rl.algorithms.bc import Cloning, demonstrated
from agentgym_rl.algorithms.checks import above, at_least
from agentgym_rl.algorithms.config import AlgorithmConfig, within
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.optimizer import OptimizerConfig, SupervisedOptimizerConfig
from agentgym_rl.algorithms.restarts import keys, task_of
from agentgym_rl.algorithms.rows import PerToken, Row
from agentgym_rl.data.episode import Turn, shallow
from agentgym_rl.rollout.prefix import Prefix, Replayed
from agentgym_rl.rollout.supervised import Example


class Budget(StrEnum):
    """Whether passes over observations take updates from cloning."""

    EQUAL = "equal"
    EXTRA = "extra"


@dataclass(kw_only=True)
class EarlyExperienceConfig(AlgorithmConfig):
    """Keys of ``algorithm=early_experience``."""

    epochs: int = 3
    """Passes over demonstrations."""
    lr: float = 1e-5
    """Learning rate of the first of them; by default it falls linearly to a tenth."""
    mini_batch_trajectories: int = 16
    """Demonstrations, or branches, of an update."""
    optimizer: SupervisedOptimizerConfig = field(default_factory=SupervisedOptimizerConfig)
    """Schedule of the learning rate, and AdamW's settings."""
    alternatives: int = 4
    """Actions of the policy at a state, :math:`K`; 0 takes none."""
    states: int | None = None
    """States of a demonstration, drawn; null takes all."""
    include_expert: bool = True
    """Also learn the observations of demonstrations."""
    temperature: float = 1.0
    """Sampling temperature of branches."""
    resamples: int = 3
    """How often at most the policy is asked for another command than the expert's."""
    iwm_epochs: int = 1
    """Passes over observations; 0 is cloning."""
    iwm_lr: float | None = None
    """Their learning rate; null takes ``lr``."""
    budget: Budget = Budget.EQUAL
    """Updates on observations are taken from those of cloning (equal), or come on top (extra)."""

    def __post_init__(self) -> None:
        at_least(self, 1, "epochs", "mini_batch_trajectories", *(["states"] if self.states is not None else []))
        at_least(self, 0, "alternatives", "resamples", "iwm_epochs")
        above(self, 0, "lr", "temperature", *(["iwm_lr"] if self.iwm_lr is not None else []))
        if self.iwm_epochs and not self.alternatives and not self.include_expert:
            raise ValueError("alternatives=0 with include_expert=false observes nothing; iwm_epochs=0 clones alone")
        if self.iwm_epochs and self.budget is Budget.EQUAL and self.epochs < 2:
            raise ValueError("budget=equal takes from the passes after the first; set epochs=2, or budget=extra")

    @property
    def updates(self) -> OptimizerConfig:
        return self.optimizer

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        found = dict(within("optimizer", self.optimizer.unused()))
        branches, observing = ("states", "temperature", "resamples"), ("alternatives", "include_expert")
        if not self.alternatives:
            found |= dict.fromkeys(branches, "algorithm.alternatives=0 has no branches")
        if not self.iwm_epochs:
            why = "algorithm.iwm_epochs=0 learns no observations"
            found |= dict.fromkeys((*branches, *observing, "iwm_lr", "budget"), why)
        return found


class EarlyExperience(Algorithm[EarlyExperienceConfig]):
    """One unit of branches, then passes over observations, then passes of cloning."""

    Config = EarlyExperienceConfig

    def __init__(self, config: EarlyExperienceConfig) -> None:
        super().__init__(config)
        self.branches: list[Row] = []
        """Up to the observation, which has the weight."""

    @classmethod
    def needs(cls, config: EarlyExperienceConfig) -> Needs:
        name = "algorithm=early_experience"
        return Needs(
            demonstrations=True,
            full_context=name if config.iwm_epochs else None,
            replays=name if config.iwm_epochs and config.alternatives else None,
            equal_updates={"algorithm.mini_batch_trajectories": config.mini_batch_trajectories},
        )

    @property
    def first(self) -> int:
        """The unit that cloning begins with."""
        return self.config.iwm_epochs + 1 if self.config.iwm_epochs else 0

    @property
    def units(self) -> int:
        return self.first + self.config.epochs

    def ends_phase(self, number: int) -> bool:
        return number < self.first and number in (0, self.first - 1)

    def unit(self, run: Run, number: int) -> Metrics:
        if number >= self.first:
            return self.clone(run, number - self.first)
        return self.observe(run, number - 1) if number else self.branch(run)

    def branch(self, run: Run) -> Metrics:
        """Roll out the branches; keep the observations that follow other actions than the expert's."""
        requests = [request for rollout in run.demonstrations for request in self.requests(run, rollout)]
        rollouts = run.rollouts(requests, "branches", resumable=True) if requests else []
        found = [next_state(rollout) for rollout in rollouts]
        self.branches = [row for row in found if isinstance(row, Row)]
        without = Counter(str(why) for why in found if not isinstance(why, Row))
        counts = {"branches": len(rollouts), "examples": len(self.branches)} | {str(why): without[why] for why in Without}
        return {f"ee/{name}": float(count) for name, count in counts.items()}

    def requests(self, run: Run, demonstration: Rollout) -> list[Request]:
        """Branches of a demonstration: its first turns again, then two of the policy."""
        episode, config = demonstration.episode, self.config
        responses, known = [turn.response for turn in episode.turns], keys(episode)
        states = [length for length in range(len(responses)) if all(responses[:length])] if config.alternatives else []
        if config.states is not None and config.states < len(states):
            states = sorted(Random(f"{run.seed}:states:{episode.item_id}").sample(states, config.states))
        return [
            run.request(
                0,
                task_of(episode),
                samples=config.alternatives,
                temperature=config.temperature,
                max_turns=length + 2,
                prefix=Prefix(
                    responses=[Replayed(text=response) for response in responses[:length]],
                    avoid=[said(episode.turns[length])],
                    resamples=config.resamples,
                ),
                tags={"state": known[length], "expert": said(episode.turns[length])},
            )
            for length in states
        ]

    def observe(self, run: Run, epoch: int) -> Metrics:
        """One pass over observations."""
        config, rows = self.config, self.observed(run)
        shared = None
        if config.budget is Budget.EQUAL:
            shared = part(self.taken(run), epoch, config.iwm_epochs)
        learned = self.learn(run, rows, config.iwm_lr or config.lr, epoch, shared)
        return learned | ({"ee/next_state_loss": learned["supervised/loss"]} if "supervised/loss" in learned else {})

    def clone(self, run: Run, epoch: int) -> Metrics:
        """One pass over demonstrations, or less."""
        config, rows, shared = self.config, demonstrated(run), None
        if config.budget is Budget.EQUAL and config.iwm_epochs:
            shared = part(config.epochs * self.whole(rows) - self.taken(run), epoch, config.epochs)
        return self.learn(run, rows, config.optimizer.rate(config.lr, epoch, config.epochs), epoch, shared)

    def observed(self, run: Run) -> list[Row]:
        """All that passes over observations learn."""
        shown = run.demonstrations if self.config.include_expert else ()
        return [*(row for rollout in shown for row in observations(rollout)), *self.branches]

    def whole(self, rows: Sequence[Row]) -> int:
        """Updates of a pass."""
        return -(-len(rows) // self.config.mini_batch_trajectories)

    def taken(self, run: Run) -> int:
        """Updates that passes over observations take from cloning."""
        config = self.config
        most = (config.epochs - 1) * self.whole(demonstrated(run))
        return min(config.iwm_epochs * self.whole(self.observed(run)), most)

    def learn(self, run: Run, rows: Sequence[Row], lr: float, epoch: int, updates: int | None) -> Metrics:
        """One pass, or so many updates of it; the rows are shuffled as in the same pass of cloning."""
        if not rows or updates == 0:
            return {}
        return run.learn(
            rows,
            CROSS_ENTROPY,
            lr=lr,
            mini_batch=self.config.mini_batch_trajectories,
            updates=None if updates == self.whole(rows) else updates,
            seed=f"{run.seed}:{Cloning.stage}",
            first_epoch=epoch,
        )

    def state_dict(self) -> dict[str, Any]:
        saved = [{"segment": shallow(row.segment), "weights": row.streams["cross_entropy"]} for row in self.branches]
        return {"branches": saved}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.branches = [weighted(Example(**saved["segment"]), saved["weights"]) for saved in state["branches"]]


class Without(StrEnum):
    """Why a branch has no example."""

    LOST = "lost"
    """It does not count."""
    DIVERGED = "diverged"
    """Its replay met other observations."""
    REPEATED = "repeated"
    """The policy took the expert's action after all."""
    ENDED = "ended"
    """No response follows the action: the episode is over, or its context full."""


def next_state(rollout: Rollout) -> Row | Without:
    """The observation after the action of a branch."""
    episode, reached = rollout.episode, keys(rollout.episode)
    if not rollout.segments:
        return Without.LOST
    if episode.tags["state"] not in reached:
        return Without.DIVERGED
    turns = episode.turns[reached.index(episode.tags["state"]) :][:2]
    if turns and said(turns[0]) == episode.tags["expert"]:
        return Without.REPEATED
    return between(cut(rollout.segments[0], turns[1]), turns) if len(turns) == 2 else Without.ENDED


def observations(rollout: Rollout) -> list[Row]:
    """All that stands between the responses of a demonstration."""
    return [between(segment, rollout.episode.turns) for segment in rollout.segments if len(rollout.episode.turns) > 1]


def between(segment: Example, turns: Sequence[Turn]) -> Row:
    """A row of the tokens between the responses of these turns."""
    weights = [0.0] * len(segment.input_ids)
    for turn, after in pairwise(turns):
        start, end = segment.prompt + turn.tokens[1], segment.prompt + after.tokens[0]
        weights[start:end] = [1.0] * (end - start)
    return weighted(segment, weights)


def weighted(segment: Example, weights: Sequence[float]) -> Row:
    """A row with these weights of its tokens."""
    return Row(segment, {"cross_entropy": PerToken(weights)})


def cut(segment: Example, turn: Turn) -> Example:
    """What stands before the response of a turn."""
    end = segment.prompt + turn.tokens[0]
    return Example(segment.input_ids[:end], segment.loss_weight[:end], segment.prompt)


def said(turn: Turn) -> str:
    """The command of a turn; the response where none could be read."""
    return turn.response if turn.action is None else turn.action


def part(total: int, number: int, parts: int) -> int:
    """Whole numbers that add up to ``total`` over ``parts``, as even as can be."""
    return (number + 1) * total // parts - number * total // parts
