"""Exact tokens of an episode: what the model sampled is never decoded and encoded again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import nan
from typing import Any, TypeVar
from uuid import uuid4

from agentgym_rl.envs.core import Message
from agentgym_rl.envs.formats import Parse
from agentgym_rl.rollout.conversation import ContextTooSmall, PromptTooLong, Response, repeats
from agentgym_rl.rollout.folding import ASK, Exchange, Segment, folded
from agentgym_rl.rollout.prefix import Prefix
from agentgym_rl.rollout.seeds import seed_of
from agentgym_rl.rollout.settings import Context, RolloutSettings, Thinking
from agentgym_rl.rollout.template import CLOSE, OPEN, drops_thinking, end_of_turn, thinking_closed

T = TypeVar("T")

NONE = Prefix(responses=())
"""No response is replayed."""

LONG = 2000
"""Characters that take about a millisecond to tokenize; for fewer, a thread costs more than it frees."""


class TokenConversation:
    """A conversation with an LLM server through verl's Continuous Token builder.

    ``segments`` holds the tokens that the model was fed and those it generated. A segment grows as long as each prompt
    extends it; another begins where the conversation is folded (:mod:`agentgym_rl.rollout.folding`), at every turn that
    has a prompt of its own or, with ``settings.thinking=strip``, where the chat template drops the thinking of an
    earlier response.
    The model's tokens have mask 1 and the sampled log-probability, all others 0 and 0.0. A segment always ends with a
    token that the model generated, because an estimator that multiplies rewards by the mask (GAE, REINFORCE++) would
    lose a reward on an observation. A response that was cut before its end of turn gets one, with mask 0, when a
    message follows it.

    Replayed tokens have mask 0 or, where :attr:`.prefix.Prefix.learn` holds, 1. Then their single log-probabilities,
    which are not known, are NaN, so that nothing is computed from them unnoticed: an update takes their ratio for 1.
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
        settings: RolloutSettings,
        request_id: str | None = None,
        prefix: Prefix = NONE,
        notes: Callable[[Sequence[Exchange]], Sequence[int]] | None = None,
    ) -> None:
        """
        Args:
            server: verl's ``LLMServerClient`` (``generate(request_id, prompt_ids=..., sampling_params=...)``).
            tokenizer: turns the sampled tokens into the text that the environment reads.
            builder: verl's Continuous Token builder, made :func:`~agentgym_rl.rollout.builder.faithful`.
            sampling: sampling parameters of a request (temperature, top_p, top_k, ...). With the ``seed`` of an
                episode, each of its requests has a seed of its own.
            prompt_limit: most tokens before the first response of a segment.
            response_limit: most tokens of a segment from its first response on.
            settings: most tokens of a response, and what happens to a conversation that grows too long.
            request_id: keeps the episode on one server; without it a new one.
            prefix: responses that come first, without a request to the server.
            notes: writes the tokens of notes in the model's place.
        """
        self.server = server
        self.tokenizer = tokenizer
        self.builder = builder
        self.sampling = sampling
        self.prompt_limit = prompt_limit
        self.response_limit = response_limit
        self.settings = settings
        self.prefix = prefix
        self.notes = notes
        self.responses = self._requests = 0
        self.request_id = request_id or uuid4().hex
        self.segments: list[Segment] = []
        self.weights: set[int] = set()
        """Global steps of the weights that generated the responses."""
        self._exchanges: list[Exchange] = []
        self._sampled: list[int] = []
        """Tokens of the last response."""
        self._folds = False
        """Whether the next response has a folded conversation before it."""

    @property
    def prompt_tokens(self) -> int:
        return sum(len(segment.prompt_ids) for segment in self.segments)

    @property
    def response_tokens(self) -> int:
        return sum(len(segment.response_ids) for segment in self.segments)

    async def start(self, messages: list[Message], parse: Parse) -> None:
        if self._strips and not drops_thinking(self.builder):
            raise ValueError(
                "rollout.thinking=strip has no effect: the model's chat template keeps what earlier responses have in "
                f"{OPEN}; set rollout.thinking=keep"
            )
        self.opening, self.messages, self.parse = list(messages), list(messages), parse
        prompt = await self._prompt(self.messages)
        if len(prompt) > self.prompt_limit:
            raise PromptTooLong(
                f"the instruction and first observation take {len(prompt)} tokens but the prompt is limited "
                f"to {self.prompt_limit}; raise model.prompt_tokens or choose style=compact"
            )
        self.segments = [Segment(prompt)]
        self._opened = self._strips and self._text(prompt[-8:]).rstrip().endswith(OPEN)
        self._notes_room = await self._room_for_notes()
        needed = self.settings.max_new_tokens + self._notes_room
        if self.settings.context is not Context.full and needed > self.response_limit:
            raise ContextTooSmall(
                f"a response and notes may take {needed} tokens but a segment has room for {self.response_limit} of "
                "them; raise model.response_tokens or lower rollout.max_new_tokens"
            )

    async def respond(self) -> Response | None:
        notes, calls = "", 0
        if self._folds:
            folded = await self._fold()
            if folded is None or folded.aborted:
                return folded
            notes, calls, self._folds = folded.text, folded.calls, False
        left = self.response_limit - len(self.segments[-1].response_ids)
        room = min(self.settings.max_new_tokens, left)
        if room < 1:
            return None
        prefix = self.prefix
        if self.responses < len(prefix.responses):
            replayed = prefix.responses[self.responses]
            ids = list(replayed.ids) or response_ids(replayed.text, self.tokenizer, self.builder)
            if len(ids) > (left if self.settings.context is Context.full else room):
                return None
            if prefix.learn and replayed.step is not None:
                self.weights.add(replayed.step)
            return self._add(ids, None, replayed.log_prob, calls=0, notes=notes)
        again = prefix.resamples if self.responses == len(prefix.responses) else 0
        for tries in range(1, again + 2):
            output = await self._generate(room)
            if output is None:
                return Response("", aborted=True)
            if tries > again or not repeats(self._text(output.token_ids), prefix.avoid, self.parse):
                break
        log_probs = [float(value) for value in output.log_probs]
        return self._add(list(output.token_ids), log_probs, sum(log_probs), calls=calls + tries, notes=notes)

    async def observe(self, observation: str) -> bool:
        updated: list[Message] = [*self.messages, {"role": "user", "content": observation}]
        self._exchanges.append(Exchange(self.messages[-1]["content"], observation, self._sampled))
        shown = (len(updated) - len(self.opening)) // 2
        if self.settings.context is Context.window and shown > self.settings.keep_turns:
            self._folds = True
            return True
        following = await self._following(updated)
        length = len(following[-1].response_ids)
        if self.settings.context is Context.full:
            if length >= self.response_limit:
                return False
        elif length + self.settings.max_new_tokens + self._notes_room > self.response_limit:
            self._folds = True
            return True
        self.segments[-1:] = following
        self.messages = updated
        return True

    async def restart(self, messages: list[Message]) -> bool:
        prompt = await self._prompt(messages)
        if len(prompt) > self.prompt_limit:
            return False
        self.segments.append(Segment(prompt))
        self.messages = list(messages)
        return True

    # folding

    async def _fold(self) -> Response | None:
        """End the segment and begin the next. Returns its notes, or None where not even one turn fits."""
        notes = await self._note() if self.settings.context is Context.summary else Response("", calls=0)
        if notes.aborted:
            return notes
        for keep in range(min(self.settings.keep_turns, len(self._exchanges)), 0, -1):
            messages = folded(self.opening, self._exchanges, keep, notes.text)
            prompt = await self._folded(messages, self._exchanges[-keep:])
            if len(prompt) <= self.prompt_limit:
                self.segments.append(Segment(prompt))
                self.messages = messages
                return notes
        return None

    async def _folded(self, messages: list[Message], shown: Sequence[Exchange]) -> list[int]:
        """The tokens of a folded conversation, where nothing is stripped with the shown responses as sampled."""
        if self._strips:
            return await self._prompt(messages)
        at = len(self.opening)
        ids = await self._prompt(messages[:at])
        for turn in shown:
            ids = [*ids, *turn.ids]
            ids = list(self.builder.merge_context_tokens(messages[: at + 1], messages[: at + 2], ids).token_ids)
            at += 2
        return ids

    async def _note(self) -> Response:
        """Ask for notes at the end of the segment; the notes are trained on like any response."""
        asked: list[Message] = [*self.messages, {"role": "user", "content": ASK}]
        following = await self._following(asked)
        room = min(self.settings.notes_tokens, self.response_limit - len(following[-1].response_ids))
        if room < 1:  # the last response was cut and took the room that was left for notes
            return Response("", calls=0)
        self.segments[-1:] = following
        if self.notes is not None:
            ids, log_probs = list(self.notes(self._exchanges))[-room:], None
        else:
            output = await self._generate(room)
            if output is None:
                return Response("", aborted=True)
            ids, log_probs = list(output.token_ids), [float(value) for value in output.log_probs]
        self._append(ids, log_probs)
        noted = self._seen(self._text(ids))
        if self._strips:
            noted = noted.rpartition(CLOSE)[2].strip()
        return Response(noted, calls=int(self.notes is None))

    async def _room_for_notes(self) -> int:
        """Tokens that the request for notes and the notes may take."""
        if self.settings.context is not Context.summary:
            return 0
        asked: list[Message] = [*self.opening, {"role": "assistant", "content": "."}, {"role": "user", "content": ASK}]
        asking = len(await self._prompt(asked)) - len(self.segments[0].prompt_ids)
        return asking + self.settings.notes_tokens

    # tokens

    async def _prompt(self, messages: list[Message]) -> list[int]:
        text = sum(len(message["content"]) for message in messages)
        return list(await aside(text, self.builder.build_initial_tokens, messages))

    async def _following(self, updated: list[Message]) -> list[Segment]:
        """What takes the place of the last segment when messages follow its last response.

        It is the segment with these messages or, where the prompt that has them does not extend it, the segment as it
        is and a new one.
        """
        last, text = self.segments[-1], len(updated[-1]["content"])
        if self._strips:
            ids, prompt = last.ids, await self._prompt(updated)
            if prompt[: len(ids)] == ids:
                return [last.followed_by(prompt[len(ids) :])]
            start = len(last.prompt_ids)
            return [last, Segment(prompt[:start]).followed_by(prompt[start:])]
        merged = await aside(text, self.builder.merge_context_tokens, self.messages, updated, last.ids)
        return [last.followed_by(merged.token_ids[len(last.ids) :])]

    @property
    def _strips(self) -> bool:
        return self.settings.thinking is Thinking.strip

    def _seen(self, response: str) -> str:
        """A response as the template gets it to render it among earlier ones."""
        return thinking_closed(response, self._opened) if self._strips else response

    async def _generate(self, room: int) -> Any:
        """The server's output, at most ``room`` tokens; None where it dropped the request."""
        sampling = {**self.sampling, "max_tokens": room, "logprobs": True}
        if (seed := sampling.get("seed")) is not None:
            sampling["seed"] = seed_of(seed, self._requests)
        self._requests += 1
        output = await self.server.generate(
            request_id=self.request_id, prompt_ids=self.segments[-1].ids, sampling_params=sampling
        )
        if output.stop_reason in ("aborted", "abort") or not output.token_ids:
            return None
        steps = (output.extra_fields.get(key) for key in ("min_global_steps", "global_steps", "max_global_steps"))
        self.weights |= {int(step) for step in steps if step is not None}
        return output

    def _add(
        self, ids: list[int], log_probs: list[float] | None, log_prob: float | None, *, calls: int, notes: str
    ) -> Response:
        start, text = len(self.segments[-1].response_ids), self._text(ids)
        if log_probs is None and not self.prefix.learn:
            self.segments[-1] = self.segments[-1].followed_by(ids)
        else:
            self._append(ids, log_probs)
        self._sampled = ids
        self.responses += 1
        self.messages.append({"role": "assistant", "content": self._seen(text)})
        return Response(
            text,
            (start, len(self.segments[-1].response_ids)),
            segment=len(self.segments) - 1,
            notes=notes,
            log_prob=log_prob,
            pieces=[piece_of(self.tokenizer, token) for token in ids],
            log_probs=[round(value, 4) for value in log_probs or ()],
            calls=calls,
        )

    def _append(self, ids: list[int], log_probs: list[float] | None) -> None:
        """Add tokens of the model to the segment; replayed ones have no log-probabilities."""
        self.segments[-1] = self.segments[-1].responded(ids, [nan] * len(ids) if log_probs is None else log_probs)

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


def response_ids(text: str, tokenizer: Any, builder: Any) -> list[int]:
    """The tokens of a response that no model sampled: its text and the end of the turn."""
    ids = [*tokenizer.encode(text, add_special_tokens=False), end_of_turn(tokenizer)]
    return list(builder.merge_assistant_tokens([], ids).token_ids)


async def aside(text: int, work: Callable[..., T], *arguments: Any) -> T:
    """Call in a thread if there are many characters to tokenize, so that other episodes go on; else at once."""
    return await asyncio.to_thread(work, *arguments) if text > LONG else work(*arguments)


@lru_cache(maxsize=1 << 17)
def piece_of(tokenizer: Any, token: int) -> str:
    """The text of one token; each occurs many times."""
    text: str = tokenizer.decode([token])
    return text
