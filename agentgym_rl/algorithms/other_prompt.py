"""Rows of an episode in one segment behind another first observation than the one that was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agentgym_rl.algorithms.base import Run
from agentgym_rl.algorithms.restarts import task_of
from agentgym_rl.algorithms.rows import PerToken, Row
from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.core import Message
from agentgym_rl.rollout.conversation import ContextTooSmall
from agentgym_rl.rollout.supervised import Example


def under(run: Run, row: Row, change: Callable[[str], str]) -> Row:
    """A row with the tokens of its responses behind another prompt; streams of one number a token move with them.

    Args:
        change: makes the other first observation of that of the episode.

    Raises:
        ContextTooSmall: the prompt does not fit.
    """
    assert row.episode is not None
    tokens = row.tokens
    (other,) = run.encode(opening(row.episode, change), task_of(row.episode)).segments
    input_ids = [*other.input_ids[: other.prompt], *tokens.input_ids[tokens.prompt :]]
    weights = behind(tokens.loss_weight, tokens.prompt, other.prompt)
    streams = {
        name: behind(stream, tokens.prompt, other.prompt) if isinstance(stream, PerToken) else stream
        for name, stream in row.streams.items()
    }
    return replace(row, segment=Example(input_ids, [*weights], other.prompt), streams=streams)


def fitting(run: Run, row: Row, change: Callable[[str], str]) -> Row | None:
    """See :func:`under`; None where it takes more tokens than the context."""
    try:
        other = under(run, row, change)
    except ContextTooSmall:
        return None
    return other if len(other.tokens.input_ids) <= run.context else None


def behind(stream: Sequence[float], prompt: int, other: int) -> PerToken:
    """Numbers of tokens behind a prompt of so many tokens behind another; 0 on that."""
    return PerToken([*[0.0] * other, *stream[prompt:]])


def opening(episode: Episode, change: Callable[[str], str]) -> list[Message]:
    """The messages of an episode up to its first response, with another first observation."""
    *before, first, response = episode.messages[: episode.start + 1]
    return [*before, {**first, "content": change(first["content"])}, response]
