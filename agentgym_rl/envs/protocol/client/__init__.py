"""The client of AgentGym's HTTP protocol: requests to servers, and leases of their sessions."""

from agentgym_rl.envs.protocol.client.leases import Lease, reach
from agentgym_rl.envs.protocol.client.servers import Refused, Servers

__all__ = ["Lease", "Refused", "Servers", "reach"]
