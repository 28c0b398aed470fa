"""A session with exact tokens: what the model sampled is never decoded and encoded again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from uuid import uuid4

from agentgym_rl.data.episode import Ending
from agentgym_rl.rollout.conversation import NoResponse, Response
from agentgym_rl.rollout.folding import Segment
from agentgym_rl.rollout.gateway.chat import Sampled
from agentgym_rl.rollout.gateway.plain import plain
from agentgym_rl.rollout.gateway.reading import before, parts
from agentgym_rl.rollout.gateway.request import ChatMessage, Finish, Refusal, Reply, Request, canonical, key_of
from agentgym_rl.rollout.gateway.tree import Known, Place, Tree
from agentgym_rl.rollout.loop import Aborted
from agentgym_rl.rollout.seeds import seed_of
from agentgym_rl.rollout.settings import Thinking
from agentgym_rl.rollout.template import ASKED, OPEN, end_of_turn
from agentgym_rl.rollout.tokens import aside, piece_of

PROBE = {"type": "function", "function": {"name": "probe", "description": "", "parameters": {"type": "object"}}}
"""A tool that shows whether a chat template renders tools."""


class TokenChat:
    """The conversations of one session with an LLM server.

    A request that begins with a conversation that the model has had goes on from its tokens. Its further messages are
    rendered by the chat template behind them; among them a message that the model sampled elsewhere in the session
    stands there as it was sampled. Tools are rendered by the template or, where it knows none, as text
    (:mod:`.plain`).

    With ``thinking=keep`` the tokens of an earlier response stay as sampled, with its thought, whether or not the
    harness sends that back. With ``strip`` each prompt is what the template renders of the messages, as another server
    would do it; where that does not extend what was fed before, a segment begins.
    """

    def __init__(
        self,
        *,
        server: Any,
        tokenizer: Any,
        builder: Any,
        sampling: Mapping[str, Any],
        prompt_limit: int,
        response_limit: int,
        thinking: Thinking = Thinking.keep,
        request_id: str | None = None,
    ) -> None:
        """
        Args:
            server: what has verl's ``LLMServerClient.generate(request_id, prompt_ids=..., sampling_params=...)``; a
                :class:`~agentgym_rl.rollout.policies.model.ModelPolicy` does.
            tokenizer: of the model.
            builder: verl's Continuous Token builder, made :func:`~agentgym_rl.rollout.builder.faithful`.
            sampling: sampling parameters of a request. With a ``seed``, each request has one of its own.
            prompt_limit: most tokens of a segment's prompt.
            response_limit: most tokens of a segment from there on.
            thinking: what the model sees of its thinking in earlier turns.
            request_id: keeps the session on one server; without it a new one.
        """
        self.server, self.tokenizer, self.builder = server, tokenizer, builder
        self.sampling, self.response_limit = dict(sampling), response_limit
        self.thinking = thinking
        self.request_id = request_id or uuid4().hex
        self.tree = Tree(prompt_limit)
        self.weights: Collection[int] = frozenset()
        self._requests, self._closed = 0, False
        self._known = Known()
        """Where the tokens of each conversation end; tools stand before the first message."""
        self._keys: dict[Hashable, Hashable] = {}
        """Equal keys are held once, in however many conversations a message stands."""
        self._said: dict[Hashable, list[int]] = {}
        """By the key of a message that was sampled, its tokens."""
        self._opened: bool | None = None
        """Whether the chat template opens a thought before each response; None before the first one."""

    @property
    def segments(self) -> list[Segment]:
        return self.tree.segments

    async def sample(self, request: Request, room: int) -> Sampled:
        conversation = [canonical(request.tools), *map(key_of, request.messages)]
        place, prompt = await self._prompt(request, conversation)
        left = self.response_limit - (len(prompt) - self.tree.prompt_tokens(place, prompt))
        if left < 1:
            raise NoResponse(
                Ending.CONTEXT_LIMIT, f"the conversation has {len(prompt)} tokens, and no reply would fit behind them"
            )
        ids, log_probs, finish, stopped_by = await self._generate(prompt, min(room, left), request.stop)
        whole = self._text(ids)
        text = before(whole, request.stop)[0]
        if self._opened is None:
            self._opened = self._text(prompt[-8:]).rstrip().endswith(OPEN)
        thought, content, calls, finish = parts(text, request.tools, finish, self._opened)
        reply = Reply(
            content=content, thought=thought, calls=calls, finish=finish, stopped_by=stopped_by,
            prompt_tokens=len(prompt), completion_tokens=len(ids),
        )  # fmt: skip

        def keep() -> Response:
            where = self.tree.add(place, prompt, ids, log_probs)
            message = key_of(reply.message)
            self._known.add([self._keys.setdefault(key, key) for key in (*conversation, message)], where)
            self._said[message] = ids
            return Response(
                whole, where.span, where.segment, log_prob=sum(log_probs), finish_reason=finish,
                pieces=[piece_of(self.tokenizer, token) for token in ids],
                log_probs=[round(value, 4) for value in log_probs],
            )  # fmt: skip

        return Sampled(reply, keep)

    def close(self) -> None:
        self._closed = True

    # prompts

    async def _prompt(self, request: Request, conversation: Sequence[Hashable]) -> tuple[Place | None, list[int]]:
        """The response that a request goes on from, and all tokens before the next one."""
        known, place = self._known.longest(conversation)
        rest, ids = request.messages[max(0, known - 1) :], self.tree.ids(place)
        text = sum(len(message["content"]) for message in rest)
        try:
            if self.thinking is Thinking.keep:
                return place, await aside(text, self._rendered, ids, rest, request.tools)
            prompt = await aside(text, self._behind, [], request.messages, request.tools)
            return place if prompt[: len(ids)] == ids else None, prompt
        except Exception as error:  # a template raises anything on messages that it does not foresee
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise Refusal(f"the model's chat template cannot render these messages: {said:.300}") from error

    def _rendered(self, ids: list[int], rest: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """The tokens with further messages behind them, of which those that were sampled are as they were."""
        waiting: list[ChatMessage] = []
        for message in rest:
            sampled = self._said.get(key_of(message)) if message["role"] == "assistant" and waiting else None
            if sampled is None:
                waiting.append(message)
            else:
                ids, waiting = [*self._behind(ids, waiting, tools), *sampled], []
        return self._behind(ids, waiting, tools)

    def _behind(self, ids: list[int], messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """The tokens with messages and the opening of a response behind them."""
        if not _renders_tools(self.tokenizer):
            messages, tools = plain(messages, () if ids else tools), ()
        if not ids:
            return list(self.builder.render_exactly(messages, add_generation_prompt=True, tools=tools))
        return list(self.builder.merge_context_tokens([], messages, ids).token_ids)

    # tokens

    async def _generate(
        self, prompt: list[int], room: int, stop: Sequence[str]
    ) -> tuple[list[int], list[float], Finish, str | None]:
        """Tokens of a response and their log-probabilities, why it ended, and the text that ended it.

        Raises:
            Refusal: the session ended while the prompt was rendered; its server is left.
            Aborted: the server dropped the request.
        """
        if self._closed:
            raise Refusal("the session is over", "session_over", 409)
        sampling = {**self.sampling, "max_tokens": room, "logprobs": True}
        if (seed := sampling.get("seed")) is not None:
            sampling["seed"] = seed_of(seed, self._requests)
        self._requests += 1
        output = await self.server.generate(
            request_id=self.request_id, prompt_ids=list(prompt), sampling_params=sampling
        )
        if output.stop_reason in ("aborted", "abort") or not output.token_ids:
            raise Aborted("the LLM server aborted the request")
        steps = (output.extra_fields.get(key) for key in ("min_global_steps", "global_steps", "max_global_steps"))
        self.weights = {*self.weights, *(int(step) for step in steps if step is not None)}
        ids, log_probs = list(output.token_ids), [float(value) for value in output.log_probs]
        if stop and (stopped_by := before(self._text(ids), stop)[1]) is not None:
            end = _first(len(ids), lambda number: before(self._text(ids[:number]), stop)[1] is not None)
            return ids[:end], log_probs[:end], "stop", stopped_by
        return ids, log_probs, "length" if len(ids) >= room and ids[-1] not in _ends(self.tokenizer) else "stop", None

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


@lru_cache(maxsize=32)
def _renders_tools(tokenizer: Any) -> bool:
    """Whether the chat template renders tools."""
    try:
        with_tool, without = (
            tokenizer.apply_chat_template([ASKED], tools=tools, tokenize=False) for tools in ([PROBE], None)
        )
    except Exception:  # noqa: BLE001 - a template that fails on tools knows none
        return False
    return bool(with_tool != without)


@lru_cache(maxsize=32)
def _ends(tokenizer: Any) -> frozenset[int]:
    """The tokens that end a response."""
    return frozenset({end_of_turn(tokenizer), int(tokenizer.eos_token_id)})


def _first(most: int, holds: Callable[[int], bool]) -> int:
    """The smallest number up to ``most`` that a property holds for; of all larger ones it does, too."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
