r"""Action counterfactuals (PACE, of BiPACE, arXiv 2606.25556): what an action is worth more than its state.

GiGPO (:mod:`~agentgym_rl.algorithms.gigpo`) compares the return of a turn with those of its state, so that luck after
the turn is credited to it. Here all turns that took the same action in the same state share one number,

.. math:: A^S(a_t) = \hat Q(s_t, a_t) - \hat V(s_t)

the mean return of the turns with that state and action, less that of all turns of that state. Actions are commands as
the environment reads them; those that could not be read are one action. Returns are discounted by ``algorithm.gamma``.

Departures: the authors' code was not public when this was written; the arithmetic is that of their paper's Q-style
form, checked against no code of theirs. They group states by the policy's hidden vectors; here a state is its
observation, which they name as the limit of a cluster radius of 0. ``algorithm.normalise_by_std`` divides the
advantage of the episode alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from agentgym_rl.algorithms.step_credit import OfTurns, StepCredit, StepCreditConfig, anchors, compared, returned
from agentgym_rl.data.episode import Episode


@dataclass(kw_only=True)
class PACEConfig(StepCreditConfig):
    """Keys of ``algorithm=pace``."""

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        keys = dict(super().unused(off_policy=off_policy, environments=environments))
        if self.step_weight:  # its scale is that of the rewards
            keys = {key: why for key, why in keys.items() if key not in ("shaping.scale", "shaping.normalise")}
        if not self.episode_weight:
            keys["normalise_by_std"] = "algorithm.episode_weight=0 ignores the only advantage that it divides"
        return keys


class PACE(StepCredit[PACEConfig]):
    """Episodes relative to those of their task, actions relative to others in the same state."""

    Config = PACEConfig

    def of_steps(self, group: Sequence[Episode]) -> OfTurns:
        values, seen = returned(group, self.config.gamma), [*map(anchors, group)]
        pairs: list[list[Hashable]] = [
            list(zip(states, (turn.action for turn in episode.turns), strict=True))
            for states, episode in zip(seen, group, strict=True)
        ]
        of_actions, of_states = compared(values, pairs, averaged), compared(values, seen, averaged)
        return [[q - v for q, v in zip(qs, vs, strict=True)] for qs, vs in zip(of_actions, of_states, strict=True)]


def averaged(values: Sequence[float]) -> list[float]:
    """Their mean, as often."""
    return [fmean(values)] * len(values)
