"""BabyAI, the grid of rooms with missions in words."""

import minigrid  # noqa: F401 - a missing package must surface here, where the registry names the pip command

from agentgym_rl.envs.babyai.env import BabyAI
from agentgym_rl.envs.babyai.levels import EASY_LEVELS, LEVELS

__all__ = ["EASY_LEVELS", "LEVELS", "BabyAI"]
