"""Text environments: discovery and construction."""

from agentgym_rl.envs.core import Achieved, EnvSpec, Observation, Step, Task, TextEnv
from agentgym_rl.envs.registry import available, env_class, make

__all__ = ["Achieved", "EnvSpec", "Observation", "Step", "Task", "TextEnv", "available", "env_class", "make"]
