r"""Graph-based credit (GraphGPO, arXiv 2605.26684): a turn is worth how near the goal it leads, by any known way.

The episodes of a task make a graph: states are observations, and each turn is an edge from the one that it answers to
the one that it leads to. The last turn of a success leads to the goal. With the distance :math:`d` to the goal, in
edges, along the turns of whatever episodes,

.. math:: A^S(a_t) = (g_t - \mathrm{mean}(g)) / F, \qquad g_t = 10 \gamma^{d(s_{t + 1})}

Mean and :math:`F` are over the turns that act in the same state, as in :mod:`~agentgym_rl.algorithms.gigpo`. So a
failed episode has credit for a turn from which others reach the goal. States without a way to the goal are one edge
further than the furthest with one. With ``algorithm.progress=true`` the exponent is :math:`d(s_{t + 1}) - d(s_t) + 1`,
so that each step on a shortest way is worth the same. This gives all turns of a state one more factor, which the
division by :math:`F` cancels: it needs ``algorithm.normalise_by_std=false``.

A group without a success has no goal, and :math:`A^S = 0`.

Departures: success ends at the goal, where verl-agent takes any reward above 0; similar observations are never merged
(``enable_similarity``, off there). The others are those of GiGPO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from agentgym_rl.algorithms.grpo import relative
from agentgym_rl.algorithms.step_credit import OfTurns, StepCredit, StepCreditConfig, anchors, compared
from agentgym_rl.data.episode import Episode

GOAL = None
"""The state to which the last turn of a success leads."""
WORTH = 10.0
"""Of reaching it; of no effect where advantages are divided by their deviation."""

State = str | None


@dataclass(kw_only=True)
class GraphGPOConfig(StepCreditConfig):
    """Keys of ``algorithm=graphgpo``."""

    gamma: float = 0.1
    """Discount of an edge."""
    progress: bool = False
    """Value a turn by how much nearer it comes to the goal, not by how near it is then."""

    def of_steps(self) -> Sequence[str]:
        return ["gamma", "progress"]

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        keys = dict(super().unused(off_policy=off_policy, environments=environments))
        if self.normalise_by_std:
            keys["progress"] = "algorithm.normalise_by_std=true divides by a deviation of the same scale"
        if not self.episode_weight:
            of_rewards = (f"shaping.{key.name}" for key in fields(self.shaping))
            keys |= dict.fromkeys(of_rewards, "algorithm.episode_weight=0 reads no rewards")
        return keys


class GraphGPO(StepCredit[GraphGPOConfig]):
    """Episodes relative to those of their task, turns by the way from where they lead to the goal."""

    Config = GraphGPOConfig

    def of_steps(self, group: Sequence[Episode]) -> OfTurns:
        config, seen = self.config, [*map(anchors, group)]
        to_goal = distances(group)
        values = [
            [
                WORTH * config.gamma ** (to_goal[there] - to_goal[here] + 1 if config.progress else to_goal[there])
                for here, there in zip(states, led_to(episode), strict=True)
            ]
            for states, episode in zip(seen, group, strict=True)
        ]
        return compared(values, seen, lambda worths: relative(worths, config.normalise_by_std))


def led_to(episode: Episode) -> list[State]:
    """The state to which each turn leads."""
    states: list[State] = [turn.observation for turn in episode.turns]
    if states and episode.success:
        states[-1] = GOAL
    return states


def distances(group: Sequence[Episode]) -> dict[State, int]:
    """Edges from each state of the episodes to the goal."""
    into: dict[State, set[State]] = {GOAL: set()}
    for episode in group:
        for here, there in zip(anchors(episode), led_to(episode), strict=True):
            into.setdefault(here, set())
            into.setdefault(there, set()).add(here)
    edges: dict[State, int] = {}
    border: set[State] = {GOAL}
    distance = 0
    while border:
        edges |= dict.fromkeys(border, distance)
        border = {state for reached in border for state in into[reached]} - edges.keys()
        distance += 1
    return dict.fromkeys(into, distance) | edges
