"""How the episodes of a step are shared among worlds and their tasks.

Two levels: :mod:`.shares` gives each world its part of a step, :mod:`.tasks` chooses a world's tasks and how often each
is played. Both learn from the success of past episodes, kept as a fading Beta posterior (:mod:`.posterior`);
:mod:`.rounding` turns parts into whole numbers. Equations, sources and departures stand in those modules.
"""

from agentgym_rl.algorithms.mixture.mixture import Draw, Mixture, build
from agentgym_rl.algorithms.mixture.settings import MixtureSettings

__all__ = ["Draw", "Mixture", "MixtureSettings", "build"]
