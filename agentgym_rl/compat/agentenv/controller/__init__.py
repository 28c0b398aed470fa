"""Agents, tasks and their evaluation."""

from agentgym_rl.compat.agentenv.controller import types
from agentgym_rl.compat.agentenv.controller.env import BaseEnvClient
from agentgym_rl.compat.agentenv.controller.evaluator import BaseAgentEnvController, Evaluator
from agentgym_rl.compat.agentenv.controller.task import Agent, BaseTask
from agentgym_rl.compat.agentenv.controller.types import *  # noqa: F403

__all__ = ["Agent", "BaseAgentEnvController", "BaseEnvClient", "BaseTask", "Evaluator", *types.__all__]
