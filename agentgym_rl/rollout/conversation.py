"""The model's side of an episode: messages in, replies out.

Two kinds drive the same episode loop: :class:`Scripted`, a function from messages to text (tests, oracles, random
policies), and :class:`agentgym_rl.rollout.tokens.TokenConversation`, which keeps the exact tokens of a language model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentgym_rl.envs.actions import Action
from agentgym_rl.envs.core import Message
from agentgym_rl.envs.formats import Parse

Policy = Callable[[list[Message]], str]
"""From the conversation so far to the assistant's reply. May raise :class:`StopPlaying`."""


class StopPlaying(Exception):
    """Raised by a policy that has nothing more to say; ends the play without an episode."""


class ContextTooSmall(ValueError):
    """The instruction and first observation leave no room for a reply: a configuration error, raised at once."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of the model."""

    text: str
    span: tuple[int, int] = (0, 0)
    """Span [start, end) in the response tokens of its sample."""
    sample: int = 0
    """Number of the sample it is part of; more than 0 once the conversation was folded."""
    notes: str = ""
    """What the model noted when the conversation was folded just before it."""
    log_prob: float | None = None
    aborted: bool = False
    pieces: Sequence[str] = ()
    """Text of each of its tokens; empty where tokens are not known."""
    log_probs: Sequence[float] = ()
    """Log-probability of each of its tokens when it was sampled, in nats; empty where they are not known."""
    calls: int = 1
    """Replies the model generated to come to this one: 0 where it was replayed."""


def repeats(reply: str, avoid: Collection[str], parse: Parse) -> bool:
    """Whether the command of a reply, or the whole reply where none can be read, is one of ``avoid``."""
    action = parse(reply)
    return (action.command if isinstance(action, Action) else reply) in avoid


class Conversation(Protocol):
    """What the episode loop needs of a model."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens before the first reply; 0 where tokens are not counted."""

    @property
    def response_tokens(self) -> int:
        """Tokens from the first reply on; 0 where tokens are not counted."""

    async def start(self, messages: list[Message], parse: Parse) -> None:
        """Begin with the instruction and the first observation; ``parse`` is how the world reads replies.

        Raises:
            ContextTooSmall: they do not fit into the prompt.
        """

    async def reply(self) -> Reply | None:
        """The model's next message, or ``None`` when no token fits into the context any more."""

    async def observe(self, observation: str) -> bool:
        """Append what the world said; false, and nothing appended, when a reply to it would not fit."""


class Scripted:
    """A conversation whose replies come from a policy, a function of the messages so far.

    Args:
        prefix: replies that are said first, without asking the policy.
        avoid: commands that its first own reply should not have.
        resamples: how often at most it is asked again for another command.
    """

    prompt_tokens = 0
    response_tokens = 0

    def __init__(
        self, policy: Policy, prefix: Sequence[str] = (), avoid: Collection[str] = (), resamples: int = 0
    ) -> None:
        self.policy = policy
        self.prefix = prefix
        self.avoid = avoid
        self.resamples = resamples
        self.replies = 0
        self.messages: list[Message] = []

    async def start(self, messages: list[Message], parse: Parse) -> None:
        self.messages = list(messages)
        self.parse = parse

    async def reply(self) -> Reply | None:
        if self.replies < len(self.prefix):
            text, calls = self.prefix[self.replies], 0
        else:
            again = self.resamples if self.replies == len(self.prefix) else 0
            text, calls = self.policy(list(self.messages)), 1
            while calls <= again and repeats(text, self.avoid, self.parse):
                text, calls = self.policy(list(self.messages)), calls + 1
        self.replies += 1
        self.messages.append({"role": "assistant", "content": text})
        return Reply(text, calls=calls)

    async def observe(self, observation: str) -> bool:
        self.messages.append({"role": "user", "content": observation})
        return True
