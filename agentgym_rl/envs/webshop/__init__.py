"""WebShop: find and buy a product on a website. It runs on AgentGym's server."""

from agentgym_rl.envs.webshop.env import WebShop

__all__ = ["WebShop"]
