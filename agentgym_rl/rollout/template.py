"""What a model's chat template does with responses: what it puts around them, and what it drops of earlier ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agentgym_rl.envs.core import Message

OPEN, CLOSE = "<think>", "</think>"
"""Marks of thinking in a response: those of Qwen3, DeepSeek-R1, GLM-4.5 and Nemotron 3."""

EMPTY = re.compile(rf"(?:{OPEN}\s*)?{CLOSE}\s*|<\|channel>thought\s*<channel\|>")
"""A thought without words; the second form is Gemma 4's."""

ASKED: Message = {"role": "user", "content": "?"}
WORDS = ("marker", "signal")
"""Two responses that share neither the first nor the last letter: what is rendered alike belongs to the template."""


@dataclass(frozen=True)
class Frame:
    """What a chat template puts around a response, token for token."""

    tokenizer: Any
    render: Callable[..., list[int]]
    """From messages, and ``add_generation_prompt=``, to tokens."""

    def following(self, messages: Sequence[Message], before: list[int]) -> list[int]:
        """The tokens that messages append behind a response, up to the next response.

        They begin with what of the end of a turn is missing at the end of ``before``.
        """
        ids, word = self.render([ASKED, _said(WORDS[0]), *messages], add_generation_prompt=True), self._word
        at = next((at for at in range(len(ids)) if ids[at : at + len(word)] == word), None)
        if at is None:
            raise ValueError("the template does not render a response before an observation")
        ids = ids[at + len(word) :]
        marks = next((n for n, token in enumerate(ids) if token not in self._marks), len(ids))
        there = next((n for n in range(marks, 0, -1) if before[-n:] == ids[:n]), 0)
        return ids[there:]

    def written(self, response: Sequence[int]) -> list[int]:
        """The tokens of a response that the model did not sample, so that it follows the prompt as in the template.

        One without a thought begins with what closes an empty one; one with a thought does not open it again.
        """
        text = self.tokenizer.decode(list(response))
        if CLOSE not in text:
            return [*self.lead, *response]
        if self._opened is None:
            return [*self._tokens(self.tokenizer.decode(self.lead).partition(OPEN)[0]), *response]
        there = alike(self._tokens(OPEN + self._opened), response) if text.startswith(OPEN) else 0
        return list(response[there:])

    @cached_property
    def lead(self) -> list[int]:
        """What a response without a thought begins with.

        It is what closes the thought that the prompt opened, as the template closes an empty one, or what the template
        puts before every earlier response.
        """
        if self._opened is not None:
            shown = EMPTY.search(self.tokenizer.decode(self._before([], add_generation_prompt=False)))
            closing = f"\n{CLOSE}\n\n" if shown is None else shown[0].rpartition(OPEN)[2].removeprefix(self._opened)
            return self._tokens(closing)
        prompt, before = self._prompt, self._before([ASKED], add_generation_prompt=True)
        prefix = before[len(prompt) :] if before[: len(prompt)] == prompt else []
        return [] if EMPTY.sub("", self.tokenizer.decode(prefix)).strip() else prefix

    @cached_property
    def _marks(self) -> frozenset[int]:
        """Tokens that are no text, such as an end of turn."""
        return frozenset(self.tokenizer.added_tokens_decoder)

    @cached_property
    def _prompt(self) -> list[int]:
        return self.render([ASKED], add_generation_prompt=True)

    @cached_property
    def _opened(self) -> str | None:
        """What the prompt puts after the mark that opens a thought; None where it opens none."""
        _, mark, after = self.tokenizer.decode(self._prompt).rpartition(OPEN)
        return after if mark and not after.strip() else None

    def _tokens(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    @cached_property
    def _word(self) -> list[int]:
        """The tokens of the first of ``WORDS`` as the template renders it."""
        first, second = self._two([ASKED], add_generation_prompt=True)
        return first[alike(first, second) : len(first) - alike(first[::-1], second[::-1])]

    def _before(self, then: Sequence[Message], *, add_generation_prompt: bool) -> list[int]:
        """The tokens before a response that ``then`` follows."""
        first, second = self._two(then, add_generation_prompt=add_generation_prompt)
        return first[: alike(first, second)]

    def _two(self, then: Sequence[Message], *, add_generation_prompt: bool) -> list[list[int]]:
        return [self.render([ASKED, _said(word), *then], add_generation_prompt=add_generation_prompt) for word in WORDS]


def alike(first: Sequence[object], second: Sequence[object]) -> int:
    """How many tokens, or letters, two sequences have in common from the start."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (this, that) in pairs if this != that), min(len(first), len(second)))


def _said(text: str) -> Message:
    return {"role": "assistant", "content": text}


def closing_token(tokenizer: Any) -> int | None:
    """The token that the chat template puts after an earlier response; None where it puts none of its own.

    With GLM's templates it is the token that begins the next message, which is also what the model ends a turn with.
    """
    marker = WORDS[0]
    rendered: str = tokenizer.apply_chat_template([ASKED, _said(marker), ASKED], tokenize=False)
    after = tokenizer.encode(rendered.rpartition(marker)[2], add_special_tokens=False)
    return int(after[0]) if after and after[0] in tokenizer.added_tokens_decoder else None


def end_of_turn(tokenizer: Any) -> int:
    """The token that ends a response: the template's own, or the end of a text where the template puts none.

    The two differ for base models, whose end of text is not the end of a turn.
    """
    end = closing_token(tokenizer)
    return int(tokenizer.eos_token_id) if end is None else end


def drops_thinking(builder: Any) -> bool:
    """Whether the chat template leaves the thinking out of an earlier response, as it comes back from its tokens."""

    def earlier(thought: str) -> list[int]:
        ids = builder.tokenizer.encode(f"{OPEN}\n{thought}\n{CLOSE}\n\nSo.", add_special_tokens=False)
        text = builder.tokenizer.decode(ids, skip_special_tokens=True)
        return list(builder.build_initial_tokens([ASKED, _said(text), ASKED]))

    return earlier("one") == earlier("another")


def thinking_closed(response: str, opened: bool) -> str:
    """The response with an end of its thinking where it was cut before one, so that a template finds what to drop.

    Args:
        opened: whether the template itself opens the thinking, before the response.
    """
    text = f"{OPEN}{response}" if opened else response
    return f"{response}\n{CLOSE}\n\n" if text.rfind(OPEN) > text.rfind(CLOSE) else response
