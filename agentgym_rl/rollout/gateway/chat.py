"""What a session needs of a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentgym_rl.rollout.conversation import Response
from agentgym_rl.rollout.folding import Segment
from agentgym_rl.rollout.gateway.request import Reply, Request


@dataclass(frozen=True, slots=True)
class Sampled:
    """A reply that the harness does not have yet."""

    reply: Reply
    keep: Callable[[], Response]
    """Called once when the harness gets the reply: keeps its tokens, and gives its record."""


class Chat(Protocol):
    """The model's side of one session."""

    @property
    def segments(self) -> Sequence[Segment]:
        """What is learned from; empty where tokens are not known."""

    @property
    def weights(self) -> Collection[int]:
        """Global steps of the weights that generated the replies."""

    async def sample(self, request: Request, room: int) -> Sampled:
        """The model's next message.

        Args:
            room: most tokens of it, where a session has few left.

        Raises:
            Refusal: the request cannot be rendered.
            NoResponse: the conversation is too long, or the model's API has no reply to it.
            Exception: the model failed, which is not the harness's doing.
        """

    def close(self) -> None:
        """The session is over: nothing more is asked of the model, by requests that are being read now, either."""
