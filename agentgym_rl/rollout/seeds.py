"""Seeds of what a model samples."""

from __future__ import annotations

import hashlib

MOST_SEEDS = 2**31
"""Some APIs know no greater seeds."""


def seed_of(*parts: object) -> int:
    """63 bits that follow from the texts of the parts, the same on every machine."""
    text = " ".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
