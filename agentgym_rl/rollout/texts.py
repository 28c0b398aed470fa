"""Texts that are asked of a model outside of episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from agentgym_rl.data.episode import Ending
from agentgym_rl.envs.core import Message
from agentgym_rl.rollout.conversation import NoResponse
from agentgym_rl.rollout.loop import Aborted


@dataclass(frozen=True, slots=True)
class Written:
    """The next message of a conversation, and how many tokens it took; 0 where they are not counted."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Writer(Protocol):
    """Whom texts can be asked of."""

    async def write(self, messages: Sequence[Message], *, seed: int, temperature: float, max_tokens: int) -> Written:
        """The next message of a conversation.

        Raises:
            NoResponse: there is none for these messages.
            Aborted: the model did not answer; it may later.
            ValueError: it will never answer.
        """


async def write(
    server: Any, tokenizer: Any, builder: Any, context: int, messages: Sequence[Message], sampling: dict[str, Any]
) -> Written:
    """The next message by a server that takes tokens.

    Args:
        server: see :class:`.tokens.TokenConversation`, as are ``tokenizer`` and ``builder``.
        context: most tokens of the conversation with its next message.
        sampling: parameters of the request; ``max_tokens`` is cut to what the context leaves.

    Raises:
        NoResponse: the conversation fills the context.
        Aborted: the server dropped the request.
    """
    prompt = list(builder.build_initial_tokens(list(messages)))
    room = min(sampling["max_tokens"], context - len(prompt))
    if room < 1:
        raise NoResponse(Ending.CONTEXT_LIMIT, f"a conversation of {len(prompt)} tokens fills the context of {context}")
    output = await server.generate(
        request_id=uuid4().hex, prompt_ids=prompt, sampling_params={**sampling, "max_tokens": room}
    )
    if output.stop_reason in ("aborted", "abort"):
        raise Aborted("the server dropped a request for a text")
    text = tokenizer.decode(list(output.token_ids), skip_special_tokens=True)
    return Written(text, len(prompt), len(output.token_ids))
