"""Our environments as a taskset of verifiers, found by the name of this package.

pip install verifiers examples/verifiers_taskset
vf-eval agentgym-worlds --env.taskset.env textcraft --env.taskset.split test --select.limit 5 -m MODEL
"""

from agentgym_rl.compat.verifiers import AgentGymEnv, AgentGymTaskset

__all__ = ["AgentGymEnv", "AgentGymTaskset"]
