"""A name and a home folder, which libraries expect, for users of containers who have none."""

from __future__ import annotations

import os
from getpass import getuser
from pathlib import Path


def user() -> str:
    """Name of the user, or the number of one that has no name on this machine."""
    return _name() or str(os.getuid())


def variables(folder: Path) -> dict[str, str]:
    """Environment variables of a run's processes that stand in for what the account lacks; mostly none.

    Ray, W&B, vLLM and PyTorch keep caches and settings in the home folder, and some ask for the user's name.

    Args:
        folder: of the run, which gets a home folder where the user's own cannot be written.
    """
    environment = {} if _name() else {"USER": user()}
    home = Path(os.path.expanduser("~"))
    if not os.access(home, os.W_OK | os.X_OK):
        substitute = folder / "home"
        substitute.mkdir(parents=True, exist_ok=True)
        environment["HOME"] = str(substitute.resolve())
        hub = home / ".cache" / "huggingface"
        if os.access(hub, os.R_OK):  # models that are there can be read all the same
            environment["HF_HOME"] = os.environ.get("HF_HOME", str(hub))
    return environment


def _name() -> str | None:
    try:
        return getuser()
    except (KeyError, OSError):
        return None
