"""Environments of tools: find an answer, or bring about a state, by calls of named tools with JSON arguments."""

from agentgym_rl.envs.explorable import Call
from agentgym_rl.envs.tooluse.env import ToolEnv
from agentgym_rl.envs.tooluse.problem import Draft, Problem, answered
from agentgym_rl.envs.tooluse.tasks import GeneratedTasks, TaskSource
from agentgym_rl.envs.tooluse.tool import Refused, ToolEnvTexts

__all__ = ["Call", "Draft", "GeneratedTasks", "Problem", "Refused", "TaskSource", "ToolEnv", "ToolEnvTexts", "answered"]
