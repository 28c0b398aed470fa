"""Published results, from the file ``published.toml``: what ``agentgym-rl reproduce`` runs again, by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from agentgym_rl.envs.tables import load


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A result of a protocol that a recipe has the settings of."""

    name: str
    """Within its protocol."""
    method: str
    size: str
    """Parameters of the model."""
    values: dict[str, float]
    """Percent, by environment."""
    source: str
    overrides: tuple[str, ...] = ()
    """Of the recipe, after the protocol's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """A result of a method that is not here, or of data that is not published."""

    method: str
    size: str
    values: dict[str, str]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """What results share."""

    experiment: str
    """The recipe."""
    panel: str
    """Label of the recipe's panel that stands for theirs."""
    seeds: str
    """What is published of them."""
    results: tuple[Arm, ...]
    others: tuple[Quoted, ...] = ()
    overrides: tuple[str, ...] = ()
    checkpoint: int | None = None
    """The step whose weights they report; None are the last."""
    evaluation: dict[str, Any] = field(default_factory=dict)
    """Keys of ``agentgym-rl eval``."""
    rewards: tuple[str, ...] = ()
    """Environments whose mean reward is reported, in place of success."""

    def measure(self, env: str) -> str:
        """What is reported of an environment: success or reward."""
        return "reward" if env in self.rewards else "success"


@dataclass(frozen=True, slots=True)
class Target:
    """A published result by its whole name, ``<protocol>_<result>``."""

    name: str
    protocol: Protocol
    arm: Arm

    @property
    def overrides(self) -> list[str]:
        """The words that choose its recipe, and a name for its runs."""
        words = [*self.protocol.overrides, *self.arm.overrides]
        return [f"experiment={self.protocol.experiment}", *words, f"name={self.name}-seed${{seed}}"]


@dataclass(frozen=True)
class _Published:
    protocols: dict[str, Protocol]


PROTOCOLS: Mapping[str, Protocol] = load(Path(__file__).with_suffix(".toml"), _Published).protocols
TARGETS: Mapping[str, Target] = {
    name: Target(name, protocol, arm)
    for key, protocol in PROTOCOLS.items()
    for arm in protocol.results
    for name in [f"{key}_{arm.name}"]
}


def find(name: str) -> Target:
    """A published result. Raises ValueError: there is none of this name; names the nearest."""
    if name not in TARGETS:
        near = get_close_matches(name, TARGETS, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"no published result {name!r}: {meant}agentgym-rl reproduce --list shows all")
    return TARGETS[name]
