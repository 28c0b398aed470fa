"""Conversations as text, for models that read about others' episodes."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_rl.envs.core import Message


def transcript(messages: Sequence[Message], longest: int) -> str:
    """A conversation of at most about ``longest`` characters; the middle of a longer one is left out."""
    text = "\n\n".join(f"{message['role']}: {message['content']}" for message in messages)
    return text if len(text) <= longest else f"{text[: longest // 2]}\n[...]\n{text[-longest // 2 :]}"
