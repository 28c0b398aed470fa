"""Names of invented people."""

from dataclasses import dataclass
from pathlib import Path

from agentgym_rl.envs.tables import load


@dataclass(frozen=True, slots=True)
class Names:
    """The file ``names.toml``."""

    given: tuple[str, ...]
    family: tuple[str, ...]

    @property
    def full(self) -> list[str]:
        """Every given name with every family name."""
        return [f"{given} {family}" for given in self.given for family in self.family]


NAMES = load(Path(__file__).with_name("names.toml"), Names)
