"""Worlds of tool calls: find an answer, or bring about a state, by calling named tools with JSON arguments."""

from agentgym_rl.envs.tooluse.env import ToolWorld
from agentgym_rl.envs.tooluse.problem import Call, Problem, answered, question
from agentgym_rl.envs.tooluse.tasks import Catalogue, Drawn
from agentgym_rl.envs.tooluse.tool import Function, Refused

__all__ = ["Call", "Catalogue", "Drawn", "Function", "Problem", "Refused", "ToolWorld", "answered", "question"]
