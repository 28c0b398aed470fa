"""Base of environments that run on AgentGym's servers only."""

from __future__ import annotations

from agentgym_rl.envs.core import EnvUnavailable, Observation, Step, Task, TextEnv


class ServedEnv(TextEnv):
    """The fixed facts of such an environment; :mod:`agentgym_rl.envs.hosts.remote` runs its episodes."""

    async def _reset(self, task: Task) -> Observation:
        raise EnvUnavailable(f"{self.name} runs on AgentGym's server only; give its address (see docs/hosts.md)")

    async def _step(self, action: str) -> Step:
        raise AssertionError("reset always raises")

    def goal(self, task: Task) -> str:
        """The item id: only the server knows more."""
        self._index(task)
        return str(task)

    def difficulty(self, task: Task) -> str:
        self._index(task)
        return self.name
