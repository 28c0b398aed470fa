"""What is learnt from episodes, and from which: one concept a file."""

from agentgym_rl.algorithms.agentevol import AGENTEVOL
from agentgym_rl.algorithms.bc import BC
from agentgym_rl.algorithms.core import Algorithm
from agentgym_rl.algorithms.dpo import DPO
from agentgym_rl.algorithms.gigpo import GIGPO
from agentgym_rl.algorithms.grpo import GRPO
from agentgym_rl.algorithms.installed import Known
from agentgym_rl.algorithms.ppo import PPO
from agentgym_rl.algorithms.reinforce_pp import REINFORCE_PP
from agentgym_rl.algorithms.rloo import RLOO

ALGORITHMS = Known(BC, AGENTEVOL, GRPO, PPO, RLOO, REINFORCE_PP, GIGPO, DPO)
"""By the word a recipe uses."""

__all__ = ["ALGORITHMS", "Algorithm"]
