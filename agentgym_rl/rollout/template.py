"""What a model's chat template does with responses: how it ends them, and what it drops of earlier ones."""

from __future__ import annotations

from typing import Any

OPEN, CLOSE = "<think>", "</think>"
"""Marks of thinking in a response: those of Qwen3, DeepSeek-R1 and GLM-4.5."""


def closing_token(tokenizer: Any) -> int | None:
    """The token that the chat template puts after an assistant's text; None where it puts none of its own."""
    marker = "marker"
    conversation = [{"role": "user", "content": "?"}, {"role": "assistant", "content": marker}]
    rendered: str = tokenizer.apply_chat_template(conversation, tokenize=False)
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
        user = {"role": "user", "content": "?"}
        return list(builder.build_initial_tokens([user, {"role": "assistant", "content": text}, user]))

    return earlier("one") == earlier("another")


def thinking_closed(response: str, opened: bool) -> str:
    """The response with an end of its thinking where it was cut before one, so that a template finds what to drop.

    Args:
        opened: whether the template itself opens the thinking, before the response.
    """
    said = f"{OPEN}{response}" if opened else response
    return f"{response}\n{CLOSE}\n\n" if said.rfind(OPEN) > said.rfind(CLOSE) else response
