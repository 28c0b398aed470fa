"""Exact tokens of an episode: what the model sampled is never decoded and encoded again."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any
from uuid import uuid4

from agentgym_rl.data.conversation import ContextTooSmall, Reply, repeats
from agentgym_rl.envs.core import Message
from agentgym_rl.envs.formats import Parse


@dataclass(frozen=True, slots=True)
class Forced:
    """A reply of an earlier episode, to be said again token for token."""

    ids: Sequence[int]
    """The tokens that were sampled."""
    log_prob: float | None
    """Sum of their log-probabilities when they were sampled, in nats."""
    step: int
    """Global step of the weights that sampled them."""


class TokenConversation:
    """A conversation with an LLM server through verl's Continuous Token builder.

    After the episode ``prompt_ids`` holds the tokens before the first reply, ``response_ids`` everything after, and
    ``response_mask`` and ``log_probs`` run beside it: 1 and the sampled log-probability on the model's tokens, 0 and
    0.0 on everything else. The response always ends with a token the model generated, because an estimator that
    multiplies rewards by the mask (GAE, REINFORCE++) would lose a reward placed on an observation.

    Replayed tokens are the model's own, with mask 1. Their single log-probabilities are not kept beyond the episode
    that sampled them and are NaN, so that nothing can be computed from them unnoticed.
    """

    def __init__(
        self,
        *,
        server: Any,
        tokenizer: Any,
        builder: Any,
        sampling: dict[str, Any],
        prompt_limit: int,
        response_limit: int,
        turn_tokens: int,
        prefix: Sequence[Forced] = (),
        avoid: Collection[str] = (),
        resamples: int = 0,
    ) -> None:
        """
        Args:
            server: verl's ``LLMServerClient`` (``generate(request_id, prompt_ids=..., sampling_params=...)``).
            tokenizer: turns the sampled tokens into the text the world reads.
            builder: verl's Continuous Token builder.
            sampling: sampling parameters of a request (temperature, top_p, top_k, ...).
            prompt_limit: most tokens before the first reply.
            response_limit: most tokens from the first reply on.
            turn_tokens: most tokens of one reply.
            prefix: replies that are said first, without asking the server.
            avoid: commands that the first reply after the prefix should not have.
            resamples: how often at most the server is asked again for another command.
        """
        self.server = server
        self.tokenizer = tokenizer
        self.builder = builder
        self.sampling = sampling
        self.prompt_limit = prompt_limit
        self.response_limit = response_limit
        self.turn_tokens = turn_tokens
        self.prefix = prefix
        self.avoid = avoid
        self.resamples = resamples
        self.replies = 0
        self.request_id = uuid4().hex
        self.messages: list[Message] = []
        self.prompt_ids: list[int] = []
        self.response_ids: list[int] = []
        self.response_mask: list[int] = []
        self.log_probs: list[float] = []
        self.weights: set[int] = set()
        """Global steps of the weights that generated the replies."""

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt_ids)

    @property
    def response_tokens(self) -> int:
        return len(self.response_ids)

    async def start(self, messages: list[Message], parse: Parse) -> None:
        self.messages = list(messages)
        self.parse = parse
        self.prompt_ids = list(await asyncio.to_thread(self.builder.build_initial_tokens, self.messages))
        if len(self.prompt_ids) > self.prompt_limit:
            raise ContextTooSmall(
                f"the instruction and first observation take {len(self.prompt_ids)} tokens but the prompt is limited "
                f"to {self.prompt_limit}; raise model.prompt_tokens or choose style=compact"
            )

    async def reply(self) -> Reply | None:
        room = min(self.turn_tokens, self.response_limit - len(self.response_ids))
        if room < 1:
            return None
        if self.replies < len(self.prefix):
            forced = self.prefix[self.replies]
            if len(forced.ids) > room:
                return None
            self.weights.add(forced.step)
            return self._say(list(forced.ids), [nan] * len(forced.ids), forced.log_prob, calls=0)
        again = self.resamples if self.replies == len(self.prefix) else 0
        calls = 0
        while True:
            output = await self.server.generate(
                request_id=self.request_id,
                prompt_ids=self.prompt_ids + self.response_ids,
                sampling_params={**self.sampling, "max_tokens": room, "logprobs": True},
            )
            if output.stop_reason in ("aborted", "abort") or not output.token_ids:
                return Reply("", aborted=True)
            calls += 1
            if calls > again or not repeats(self._text(output.token_ids), self.avoid, self.parse):
                break
        log_probs = [float(value) for value in output.log_probs]
        steps = (output.extra_fields.get(key) for key in ("min_global_steps", "global_steps", "max_global_steps"))
        self.weights |= {int(step) for step in steps if step is not None}
        return self._say(list(output.token_ids), log_probs, sum(log_probs), calls)

    def _say(self, ids: list[int], log_probs: list[float], log_prob: float | None, calls: int) -> Reply:
        start, text = len(self.response_ids), self._text(ids)
        self._take(self.builder.merge_assistant_tokens(self.prompt_ids + self.response_ids, ids), log_probs)
        self.replies += 1
        self.messages.append({"role": "assistant", "content": text})
        return Reply(text, (start, len(self.response_ids)), log_prob, calls=calls)

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    async def observe(self, observation: str) -> bool:
        updated = [*self.messages, {"role": "user", "content": observation}]
        merged = await asyncio.to_thread(
            self.builder.merge_context_tokens, self.messages, updated, self.prompt_ids + self.response_ids
        )
        if len(merged.token_ids) - len(self.prompt_ids) >= self.response_limit:
            return False
        self._take(merged, None)
        self.messages = updated
        return True

    def _take(self, merged: Any, log_probs: list[float] | None) -> None:
        """Adopt the builder's token edits for ids, mask and log-probabilities alike."""
        mask, aligned = self.builder.align_response_metadata(
            merged, self.response_mask, self.log_probs, assistant_logprobs=log_probs
        )
        self.response_ids = list(merged.token_ids[len(self.prompt_ids) :])
        self.response_mask = mask
        self.log_probs = aligned
