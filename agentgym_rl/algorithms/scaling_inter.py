r"""ScalingInter (arXiv 2509.08755, section 4): the horizon of training episodes grows with training.

With rounds :math:`h_0, h_1, ...` and S steps a round, the turn limit at step t (from 1) is

* ``fixed``: :math:`h_0`;
* ``stepwise``: :math:`h_k` with :math:`k = \min(\lfloor (t-1) / S \rfloor, \mathrm{last})`, as published;
* ``linear``: :math:`h` interpolated between the rounds, :math:`h_k` at :math:`t = 1 + kS`, rounded down;
* ``success_gated``: the next round when success at the present one passes a threshold, or has not risen for a while.

The first three are functions of the step alone, so a run that resumes at any step has the horizon it would have had
(AgentGym-RL counts from the resumed step and skips a round). The gate is of ours; its state is checkpointed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym_rl.data.episode import Episode

TYPES = ("fixed", "stepwise", "linear", "success_gated")


@dataclass(kw_only=True)
class CurriculumSettings:
    """Raises ValueError when made with a value out of range; the message names the key."""

    type: str = "fixed"
    """fixed | stepwise | linear | success_gated."""
    rounds: list[int] = field(default_factory=list)
    """Turn limits, one a round; empty takes the world's own limit."""
    steps: int = 100
    """Training steps a round (rounds of AgentEvol count as steps)."""
    threshold: float = 0.7
    """success_gated: success from which on the next round begins."""
    patience: int = 20
    """success_gated: the next round begins, too, when success has not risen for this many steps."""

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(f"curriculum.type={self.type!r} is unknown; choose {', '.join(TYPES)}")
        if any(turns < 1 for turns in self.rounds):
            raise ValueError(f"curriculum.rounds={list(self.rounds)} must be turn limits of at least 1")
        if self.type == "fixed" and len(self.rounds) > 1:
            raise ValueError(f"curriculum.rounds={list(self.rounds)}: a fixed horizon is one number; see type=stepwise")
        if self.type != "fixed" and len(self.rounds) < 2:
            raise ValueError(f"curriculum.rounds={list(self.rounds)} must hold two or more for type={self.type}")
        for key in ("steps", "patience"):
            if getattr(self, key) < 1:
                raise ValueError(f"curriculum.{key}={getattr(self, key)} must be at least 1")
        if not 0 < self.threshold <= 1:
            raise ValueError(f"curriculum.threshold={self.threshold} must be above 0 and at most 1")


@dataclass(kw_only=True)
class RoundsControl:
    """AgentGym-RL's ``algorithm.rounds_ctrl``, taken in place of a curriculum."""

    type: str | None = None
    """fixed | scaling_inter_stepwise; null leaves it to ``curriculum``."""
    rounds: Any = None
    """A turn limit, or a list of them."""
    steps_scaling_inter: int = 100

    def settings(self) -> CurriculumSettings | None:
        """The same as a curriculum; None where nothing is said.

        Raises:
            ValueError: a value is not AgentGym-RL's.
        """
        if self.type is None and self.rounds is None:
            return None
        types = {"fixed": "fixed", "scaling_inter_stepwise": "stepwise"}
        if self.type not in types:
            raise ValueError(f"algorithm.rounds_ctrl.type={self.type!r} is unknown; choose {', '.join(types)}")
        if self.rounds is None:
            raise ValueError("algorithm.rounds_ctrl.rounds is missing")
        rounds = [self.rounds] if isinstance(self.rounds, int) else list(self.rounds)
        return CurriculumSettings(type=types[self.type], rounds=rounds, steps=self.steps_scaling_inter)


class ScalingInter:
    """The horizon of one world's training episodes.

    Args:
        type, rounds, steps_scaling_inter, threshold, patience: see :class:`CurriculumSettings`.

    Raises:
        ValueError: a value is out of range.
    """

    def __init__(
        self,
        type: str = "fixed",
        rounds: Sequence[int] = (),
        steps_scaling_inter: int = 100,
        threshold: float = 0.7,
        patience: int = 20,
    ) -> None:
        self.settings = CurriculumSettings(
            type=type, rounds=list(rounds), steps=steps_scaling_inter, threshold=threshold, patience=patience
        )
        self._round = 0
        self._best = 0.0
        self._waited = 0

    @classmethod
    def of(cls, settings: CurriculumSettings) -> ScalingInter:
        """As a recipe says."""
        return cls(settings.type, settings.rounds, settings.steps, settings.threshold, settings.patience)

    def horizon(self, step: int) -> int | None:
        """Turn limit of the training episodes of a step; None leaves it to the world.

        Args:
            step: the training step, from 1.

        Raises:
            ValueError: the step is less than 1.
        """
        if step < 1:
            raise ValueError(f"step is {step}; training steps count from 1")
        rounds, last = self.settings.rounds, len(self.settings.rounds) - 1
        if not rounds:
            return None
        whole, rest = divmod(step - 1, self.settings.steps)
        match self.settings.type:
            case "stepwise":
                return rounds[min(whole, last)]
            case "linear":
                if whole >= last:
                    return rounds[last]
                return rounds[whole] + (rounds[whole + 1] - rounds[whole]) * rest // self.settings.steps
            case "success_gated":
                return rounds[self._round]
        return rounds[0]

    def learn(self, success: float) -> None:
        """Take in the success of a step's episodes, in [0, 1]; only ``success_gated`` minds."""
        if self.settings.type != "success_gated" or self._round == len(self.settings.rounds) - 1:
            return
        self._waited = 0 if success > self._best else self._waited + 1
        self._best = max(self._best, success)
        if success >= self.settings.threshold or self._waited >= self.settings.patience:
            self._round, self._best, self._waited = self._round + 1, 0.0, 0

    def state_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"round": self._round, "best": self._best, "waited": self._waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of :meth:`state_dict`."""
        self._round, self._best, self._waited = int(state["round"]), float(state["best"]), int(state["waited"])


class Curriculum:
    """The horizons of a run, world by world."""

    def __init__(self, by_world: Mapping[str, ScalingInter]) -> None:
        self.by_world = dict(by_world)

    def horizon(self, env: str, step: int) -> int | None:
        """See :meth:`ScalingInter.horizon`."""
        return self.by_world[env].horizon(step)

    def learn(self, episodes: Sequence[Episode]) -> None:
        """Take in a step's episodes; those that do not count, or began by a replay, are passed over."""
        for env, schedule in self.by_world.items():
            own = [one.success for one in episodes if one.env == env and one.ending.counts and not one.prefix_turns]
            if own:
                schedule.learn(sum(own) / len(own))

    def state_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {env: schedule.state_dict() for env, schedule in self.by_world.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of :meth:`state_dict`."""
        for env, schedule in self.by_world.items():
            schedule.load_state_dict(state[env])
