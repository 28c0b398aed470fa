"""Names of other projects, for scripts that import them."""

import sys
from importlib import import_module

MODULES = ("", ".controller", ".controller.types", ".envs")


def install() -> None:
    """Let ``import agentenv`` find :mod:`agentgym_rl.compat.agentenv` from now on, in this process.

    Raises:
        RuntimeError: another ``agentenv`` has been imported already.
    """
    ours = "agentgym_rl.compat.agentenv"
    if sys.modules.get("agentenv") not in (None, sys.modules.get(ours)):
        raise RuntimeError("another agentenv has been imported already; call install() before that")
    for name in MODULES:
        sys.modules[f"agentenv{name}"] = import_module(f"{ours}{name}")
