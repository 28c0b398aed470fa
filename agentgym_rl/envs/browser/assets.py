"""What a page asks for, and what it is given where no network is used."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that a page is given in place of what its address holds."""

    body: bytes
    content_type: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of a page."""

    method: str
    url: str
    body: bytes = b""
