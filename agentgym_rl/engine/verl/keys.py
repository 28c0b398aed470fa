"""Rows of verl's TransferQueue: ``<uid of the prompt>_<session>_<sample>``, one session an episode."""

from __future__ import annotations

from typing import Any


def prompt_of(key: str) -> str:
    """The uid of the prompt that a session is of."""
    return key.rsplit("_", 1)[0]


def session_of(key: str) -> str:
    """What the samples of an episode have in common."""
    return key.rsplit("_", 1)[0]


def sample_of(key: str) -> int:
    """The number of a row's sample in its episode."""
    return int(key.rsplit("_", 1)[1])


def extra_fields(data: Any) -> list[dict[str, Any]]:
    """The fields that the agent loop added to each row."""
    return [getattr(value, "data", value) for value in data["extra_fields"]]
