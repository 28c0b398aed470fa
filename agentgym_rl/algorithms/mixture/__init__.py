"""How the episodes of a step are shared among environments and their tasks.

Two levels: a :class:`Mixture` gives each environment its part of a step, :mod:`.tasks` chooses its tasks and how many
episodes each gets. Both can learn from past episodes: from their success, kept as a fading Beta posterior
(:mod:`.posterior`), and shares from the variance of rewards within tasks (:mod:`.variance`); :mod:`.rounding` turns
parts into whole numbers. Equations, sources and departures stand in those modules.

A mixture of one's own is a subclass of :class:`Mixture` and an entry point in the group ``agentgym_rl.mixtures``.
"""

from agentgym_rl.algorithms.mixture.dynamic import Dynamic, DynamicConfig
from agentgym_rl.algorithms.mixture.mixture import (
    Draw,
    Fixed,
    Mixture,
    Pools,
    Proportional,
    Uniform,
    mixtures,
    normalised,
)
from agentgym_rl.algorithms.mixture.sequential import Sequential, SequentialConfig
from agentgym_rl.algorithms.mixture.tasks import By, MixtureConfig

__all__ = [
    "By",
    "Draw",
    "Dynamic",
    "DynamicConfig",
    "Fixed",
    "Mixture",
    "MixtureConfig",
    "Pools",
    "Proportional",
    "Sequential",
    "SequentialConfig",
    "Uniform",
    "mixtures",
    "normalised",
]
