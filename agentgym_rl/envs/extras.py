"""Packages that an installation may lack: who needs one is told the pip command."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from agentgym_rl.envs.core import EnvUnavailable, MissingExtra

ENGINE_ENDS = (3, 13)
"""The first Python for which verl has no release."""


def missing(purpose: object, package: str | None, extra: str) -> MissingExtra:
    """The error that names the purpose, the package and the pip command, or a Python for which the package exists.

    Args:
        extra: the pip extra that brings the package; ``cpu`` stands for the engine, which ``gpu`` brings, too.
    """
    if extra == "cpu" and sys.version_info >= ENGINE_ENDS:
        python = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
        return MissingExtra(f"{purpose} needs verl, which has no release for {python}; use Python 3.11 or 3.12")
    command = f"pip install 'agentgym-rl[{extra}]'" + (" (or [gpu])" if extra == "cpu" else "")
    return MissingExtra(f"{purpose} needs the package {package!r}; install it with: {command}")


@contextmanager
def needs(purpose: object, extra: str) -> Iterator[None]:
    """Around imports; see :func:`missing`. Raises MissingExtra: a package is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "agentgym_rl":
            raise
        raise missing(purpose, error.name, extra) from error


def check_posix(purpose: str, instead: str) -> None:
    """Raises EnvUnavailable where the operating system is Windows, which cannot do this; says what to do instead."""
    if find_spec("fcntl") is None:
        raise EnvUnavailable(f"{purpose} works on Linux and macOS only; {instead}")
