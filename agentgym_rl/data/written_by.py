"""Which version of this package wrote a file."""

from importlib.metadata import PackageNotFoundError, version


def package_version() -> str:
    """The version of the installed package; ``unknown`` where its code is imported without being installed."""
    try:
        return version("agentgym-rl")
    except PackageNotFoundError:
        return "unknown"
