"""How the episodes of a step are shared among environments and their tasks.

Two levels: a :class:`Mixture` gives each environment its part of a step, :mod:`.tasks` chooses its tasks and how many
episodes each gets. Both can learn from past episodes: from their success, kept as a fading Beta posterior
(:mod:`.posterior`), and shares from the variance of rewards within tasks (:mod:`.variance`); :mod:`.rounding` turns
parts into whole numbers. Equations, sources and departures stand in those modules.

:class:`Frontier` also decides what environments there are: it makes parts of them while a run goes on.

A mixture of one's own is a subclass of :class:`Mixture` and an entry point in the group ``agentgym_rl.mixtures``.
"""

from agentgym_rl.algorithms.mixture.dynamic import Dynamic, DynamicConfig
from agentgym_rl.algorithms.mixture.frontier import Frontier, FrontierConfig
from agentgym_rl.algorithms.mixture.mixture import (
    Draw,
    Fixed,
    Mixture,
    Part,
    Pools,
    Proportional,
    Uniform,
    mixtures,
    normalised,
)
from agentgym_rl.algorithms.mixture.sequential import Sequential, SequentialConfig
from agentgym_rl.algorithms.mixture.space import Adjustable
from agentgym_rl.algorithms.mixture.tasks import By, MixtureConfig

__all__ = [
    "Adjustable",
    "By",
    "Draw",
    "Dynamic",
    "DynamicConfig",
    "Fixed",
    "Frontier",
    "FrontierConfig",
    "Mixture",
    "MixtureConfig",
    "Part",
    "Pools",
    "Proportional",
    "Sequential",
    "SequentialConfig",
    "Uniform",
    "mixtures",
    "normalised",
]
