"""What is learnt from episodes, and from which: one concept a file."""

from agentgym_rl.algorithms.agentevol import AGENTEVOL
from agentgym_rl.algorithms.bc import BC
from agentgym_rl.algorithms.core import Algorithm
from agentgym_rl.algorithms.grpo import GRPO
from agentgym_rl.algorithms.ppo import PPO

ALGORITHMS: dict[str, Algorithm] = {algorithm.name: algorithm for algorithm in (BC, GRPO, PPO, AGENTEVOL)}
"""By the word a recipe uses."""

__all__ = ["ALGORITHMS", "Algorithm"]
