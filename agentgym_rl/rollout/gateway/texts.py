"""A session with a model that has no tokens here: a model behind an API, or a function."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

from agentgym_rl.envs.core import Message, in_thread
from agentgym_rl.rollout.conversation import Respond, Response
from agentgym_rl.rollout.folding import Segment
from agentgym_rl.rollout.gateway.chat import Chat, Sampled
from agentgym_rl.rollout.gateway.plain import plain
from agentgym_rl.rollout.gateway.reading import before, parts
from agentgym_rl.rollout.gateway.request import Reply, Request
from agentgym_rl.rollout.gateway.tokens import TokenChat
from agentgym_rl.rollout.policies.api import ChatModel
from agentgym_rl.rollout.policies.base import Policy
from agentgym_rl.rollout.policies.model import ModelPolicy
from agentgym_rl.rollout.policies.scripted import Function
from agentgym_rl.rollout.seeds import seed_of
from agentgym_rl.rollout.settings import Thinking

Ask = Callable[[list[Message], int], Awaitable[Response]]
"""From plain messages and the most tokens of the reply to the model's response."""


class TextChat:
    """Asks with plain messages; tools are explained and read as text (:mod:`.plain`)."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.segments: Sequence[Segment] = ()
        self.weights: Collection[int] = ()

    async def sample(self, request: Request, room: int) -> Sampled:
        response = await self.ask(plain(request.messages, request.tools), room)
        text, stopped_by = before(response.text, request.stop)
        cut = response.finish_reason == "length" and stopped_by is None
        thought, content, calls, finish = parts(text, request.tools, "length" if cut else "stop")
        prompt, completion = response.counted
        reply = Reply(
            content=content, thought=thought, calls=calls, finish=finish, stopped_by=stopped_by,
            prompt_tokens=prompt, completion_tokens=completion,
        )  # fmt: skip
        return Sampled(reply, lambda: response)

    def close(self) -> None:
        """Nothing: a request asks at once."""


def chat_of(policy: Policy, seed: int, thinking: Thinking = Thinking.keep) -> Chat:
    """A session's chat with a policy: with exact tokens where the model is in this process.

    Args:
        thinking: what a model in this process sees of its thinking in earlier turns.

    Raises:
        ValueError: the policy reads no messages.
    """
    match policy:
        case ModelPolicy():
            return TokenChat(
                server=policy, tokenizer=policy.tokenizer, builder=policy.builder, sampling={"seed": seed},
                prompt_limit=policy.prompt_tokens, response_limit=policy.response_tokens, thinking=thinking,
            )  # fmt: skip
        case ChatModel():
            numbers = itertools.count()  # a harness may ask the same again, for another reply
            return TextChat(lambda messages, room: policy.respond(messages, seed_of(seed, next(numbers)), room))
        case Function():
            return TextChat(partial(_called, policy.respond))
    raise ValueError(f"policy {policy.name!r} needs an environment; behind a gateway, give a model or a function")


async def _called(respond: Respond, messages: list[Message], room: int) -> Response:
    return Response(await in_thread(respond, messages))
