"""Weather: questions about places and days, answered by calls of weather tools."""

from agentgym_rl.envs.tooluse.weather.env import Weather

__all__ = ["Weather"]
