"""A base for environments in a browser: contexts of one Chromium, the page as text, WebArena's commands."""

from agentgym_rl.envs.browser.chromium import CHROMIUM, BrowserMissing, Chromium
from agentgym_rl.envs.browser.commands import Command, Refused, functions, read
from agentgym_rl.envs.browser.session import Asset, Session, Settings, View
from agentgym_rl.envs.browser.tree import Element

__all__ = [
    "CHROMIUM", "Asset", "BrowserMissing", "Chromium", "Command", "Element", "Refused", "Session", "Settings", "View",
    "functions", "read",
]  # fmt: skip
