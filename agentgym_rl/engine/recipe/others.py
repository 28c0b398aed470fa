"""Words of verl's and TRL's keys, and what is written here in their place."""

from __future__ import annotations

from pathlib import Path

from agentgym_rl.envs.tables import load

WORDS = load(Path(__file__).with_name("others.toml"), dict[str, str])
"""Our key for the last word of a key of theirs."""
