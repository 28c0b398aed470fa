"""verl's Continuous Token builder for a model: how conversations become tokens, turn by turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from transformers import AutoConfig
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

REMEMBERED = 512
"""Lists of messages whose tokens a process remembers."""

_renderers: dict[Any, Callable[..., list[int]]] = {}


def continuous_token_builder(model: str, tokenizer: Any, arguments: Mapping[str, Any]) -> Any:
    """The builder an agent-loop worker would choose for the model (a folder or a hub id).

    Args:
        arguments: of the chat template, e.g. ``{"enable_thinking": False}``.
    """
    model_type = AutoConfig.from_pretrained(model).model_type
    return remembering(
        create_continuous_token_builder(tokenizer, hf_model_type=model_type, chat_template_kwargs=dict(arguments))
    )


def remembering(builder: Any) -> Any:
    """The same builder with a cache of what builders of its kind rendered lately in this process.

    Every turn verl's builder renders the same placeholder messages to see which tokens follow them, and the episodes of
    a group begin with the same prompt.
    """
    kind = (type(builder), builder.tokenizer, json.dumps(builder.chat_template_kwargs, sort_keys=True, default=repr))
    builder._render_tokens = _renderers.setdefault(kind, _once(builder._render_tokens))
    return builder


def _once(render: Callable[..., list[int]]) -> Callable[..., list[int]]:
    @lru_cache(REMEMBERED)
    def remembered(messages: str, add_generation_prompt: bool) -> tuple[int, ...]:
        return tuple(render(json.loads(messages), add_generation_prompt=add_generation_prompt))

    def tokens(messages: Any, *, add_generation_prompt: bool, tools: Any = None) -> list[int]:
        if tools:
            return render(messages, add_generation_prompt=add_generation_prompt, tools=tools)
        return list(remembered(json.dumps(messages), add_generation_prompt))

    return tokens
