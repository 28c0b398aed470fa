r"""Early experience, implicit world modelling (arXiv 2510.08558): what follows other actions than the expert's.

At each state :math:`s_i` of a demonstration the policy takes ``alternatives`` actions :math:`a_i^j` that are not the
expert's, and the environment answers :math:`s_i^j`. The first passes learn these observations, and those that the
expert met,

.. math:: L = - \sum \log p(s_i^j | s_i, a_i^j)

and the rest clone the demonstrations. With ``budget=equal`` both together make as many updates as ``epochs`` passes of
cloning alone.

Departures: an observation enters the tokens of an episode when the next response begins, so a branch has two turns of
the policy, and one whose first action ends the episode has no example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from random import Random
from typing import Any

from agentgym_rl.algorithms.base import Algorithm, Metrics, Needs, Request, Rollout, Run
from agentgym_rl.algorithms.bc import demonstrated
from agentgym_rl.algorithms.checks import above, at_least
from agentgym_rl.algorithms.config import OnlineConfig
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.rows import PerToken, Row
from agentgym_rl.data.episode import Turn, shallow
from agentgym_rl.envs import Task
from agentgym_rl.rollout.prefix import Prefix, Replayed
from agentgym_rl.rollout.supervised import Example


class Budget(StrEnum):
    """Whether passes over observations take updates from cloning."""

    EQUAL = "equal"
    EXTRA = "extra"


@dataclass(kw_only=True)
class EarlyExperienceConfig(OnlineConfig):
    """Keys of ``algorithm=early_experience``."""

    epochs: int = 3
    """Passes of cloning."""
    mini_batch_trajectories: int = 16
    """Rows of an update."""
    alternatives: int = 4
    """Actions of the policy at a state, :math:`K`; 0 takes none."""
    states: int | None = None
    """States of a demonstration, drawn; null takes all."""
    include_expert: bool = True
    """Also learn the observations of demonstrations."""
    iwm_epochs: int = 1
    """Passes over observations."""
    iwm_lr: float | None = None
    """Their learning rate; null takes ``lr``."""
    budget: Budget = Budget.EQUAL
    """Whether updates on observations are taken from cloning (equal), or come on top (extra)."""
    resamples: int = 3
    """How often at most the policy is asked for another command than the expert's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "mini_batch_trajectories", *(["states"] if self.states is not None else []))
        at_least(self, 0, "alternatives", "iwm_epochs", "resamples")
        above(self, 0, *(["iwm_lr"] if self.iwm_lr is not None else []))


class EarlyExperience(Algorithm[EarlyExperienceConfig]):
    """One unit of branches, then passes over observations, then passes of cloning."""

    Config = EarlyExperienceConfig

    def __init__(self, config: EarlyExperienceConfig) -> None:
        super().__init__(config)
        self.observed: list[Row] = []
        """What the passes over observations learn."""

    @classmethod
    def needs(cls, config: EarlyExperienceConfig) -> Needs:
        key = "algorithm=early_experience" if config.alternatives else None
        return Needs(demonstrations=True, full_context="algorithm=early_experience", replays=key)

    @property
    def units(self) -> int:
        return 1 + self.config.iwm_epochs + self.config.epochs

    def ends_phase(self, number: int) -> bool:
        return number in (0, self.config.iwm_epochs)

    def unit(self, run: Run, number: int) -> Metrics:
        config, epoch = self.config, number - 1
        if number == 0:
            return self.branch(run)
        if epoch < config.iwm_epochs:
            return self._pass(run, self.observed, config.iwm_lr or config.lr, "world", epoch, None)
        epoch -= config.iwm_epochs
        lr = config.optimizer.rate(config.lr, epoch, config.epochs)
        rows = demonstrated(run)
        return self._pass(run, rows, lr, "cloning", epoch, self.updates(len(rows), epoch))

    def branch(self, run: Run) -> Metrics:
        """Roll out the branches; keep the observations that follow other actions than the expert's."""
        requests = [request for rollout in run.demonstrations for request in self.requests(run, rollout)]
        rollouts = run.rollouts(requests, "branches", resumable=True) if requests else []
        shown = [rollout for rollout in run.demonstrations if self.config.include_expert]
        branched = [row for rollout in rollouts for row in next_state(rollout)]
        repeated = sum(not rollout.segments or not next_state(rollout) for rollout in rollouts)
        self.observed = [*(row for rollout in shown for row in observations(rollout)), *branched]
        return {"ee/branches": float(len(rollouts)), "ee/without_example": float(repeated)}

    def requests(self, run: Run, demonstration: Rollout) -> list[Request]:
        """Branches of a demonstration: its first turns again, then two of the policy."""
        episode, config = demonstration.episode, self.config
        if not config.alternatives:
            return []
        states = range(len(episode.turns))
        if config.states is not None and config.states < len(states):
            rng = Random(f"{run.seed}:states:{episode.item_id}")
            states_drawn = sorted(rng.sample(states, config.states))
        else:
            states_drawn = [*states]
        task, found = Task(episode.env, Task.parse(episode.item_id).index), list[Request]()
        for length in states_drawn:
            turn = episode.turns[length]
            prefix = Prefix(
                responses=[Replayed(text=each.response) for each in episode.turns[:length]],
                avoid=[turn.action] if turn.action else [],
                resamples=config.resamples,
            )
            tags = {"expert": turn.action}
            found.append(
                run.request(0, task, samples=config.alternatives, prefix=prefix, max_turns=length + 2, tags=tags)
            )
        return found

    def updates(self, rows: int, epoch: int) -> int | None:
        """Updates of a pass of cloning; None for a whole one."""
        config = self.config
        if config.budget is Budget.EXTRA:
            return None
        whole, world = (-(-count // config.mini_batch_trajectories) for count in (rows, len(self.observed)))
        left = max(0, config.epochs * whole - config.iwm_epochs * world)
        return (epoch + 1) * left // config.epochs - epoch * left // config.epochs

    def _pass(self, run: Run, rows: Sequence[Row], lr: float, label: str, epoch: int, updates: int | None) -> Metrics:
        if not rows or updates == 0:
            return {}
        return run.learn(
            rows,
            CROSS_ENTROPY,
            lr=lr,
            mini_batch=self.config.mini_batch_trajectories,
            updates=updates,
            seed=f"{run.seed}:{label}",
            first_epoch=epoch,
        )

    def state_dict(self) -> dict[str, Any]:
        return {
            "observed": [
                {"segment": shallow(row.segment), "weights": list(row.streams["cross_entropy"])}  # type: ignore[arg-type]
                for row in self.observed
            ]
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.observed = [
            Row(Example(**saved["segment"]), {"cross_entropy": PerToken(saved["weights"])})
            for saved in state["observed"]
        ]


def next_state(rollout: Rollout) -> list[Row]:
    """The tokens between the two responses of a branch; none where it repeated the expert, or ended at once."""
    turns = rollout.episode.turns[-2:]
    if (
        not rollout.segments
        or len(turns) < 2
        or not turns[0].calls
        or turns[0].action == rollout.episode.tags["expert"]
    ):
        return []
    return [between(rollout.segments[0], turns)]


def observations(rollout: Rollout) -> list[Row]:
    """All that stands between the responses of a demonstration."""
    return [between(segment, rollout.episode.turns) for segment in rollout.segments if len(rollout.episode.turns) > 1]


def between(segment: Example, turns: Sequence[Turn]) -> Row:
    """A row of the tokens between the responses of these turns."""
    weights = [0.0] * len(segment.input_ids)
    for turn, after in pairwise(turns):
        start, end = segment.prompt + turn.tokens[1], segment.prompt + after.tokens[0]
        weights[start:end] = [1.0] * (end - start)
    return Row(segment, {"cross_entropy": PerToken(weights)})
