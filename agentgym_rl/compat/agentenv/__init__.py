"""The Python names of AgentGym's own package ``agentenv``, on this project's client.

Clients talk to any AgentGym server. Rewards are as AgentGym reports them, not brought into [0, 1].
"""

from agentgym_rl.compat.agentenv import controller, envs
from agentgym_rl.compat.agentenv.controller import *  # noqa: F403
from agentgym_rl.compat.agentenv.envs import *  # noqa: F403

__all__ = ["controller", "envs", *controller.__all__, *envs.__all__]
