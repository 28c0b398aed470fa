"""Whether enough episodes count for figures to mean something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.core import EnvUnavailable


@dataclass(frozen=True, slots=True)
class Count:
    """How many of some episodes count."""

    counted: int
    asked: int
    """All of them, whatever became of them."""
    error: str | None = None
    """Of an episode that does not count."""

    @classmethod
    def of(cls, episodes: Sequence[Episode], asked: int) -> Count:
        failed = [episode for episode in episodes if not episode.ending.counts]
        return cls(len(episodes) - len(failed), asked, failed[0].error if failed else None)


def check_counted(parts: Mapping[str, Count], least: float, key: str = "min_counted", hint: str = "") -> None:
    """Check that enough episodes of every part count for its figures to mean something.

    Args:
        parts: by name, such as an environment's; all that were asked for.
        least: share of the episodes of a part that must count; one must in any case.
        key: the setting that ``least`` comes from.
        hint: ends the message.

    Raises:
        EnvUnavailable: fewer count; names the parts, an error and the setting.
    """
    parts = parts or {"any environment": Count(0, 0)}
    poor = {name: part for name, part in parts.items() if not part.counted or part.counted < least * part.asked}
    if poor:
        listed = " and ".join(f"{part.counted} of {part.asked} episodes of {name}" for name, part in poor.items())
        error = next((part.error for part in poor.values() if part.error), None)
        raise EnvUnavailable(
            f"only {listed} count ({key}={least:g}); the others failed outside the agent, such as by: {error}{hint}"
        )
