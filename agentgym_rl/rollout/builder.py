"""verl's Continuous Token builder for a model: how conversations become tokens, turn by turn."""

from __future__ import annotations

import json
from typing import Any

from transformers import AutoConfig
from verl.utils.tokenizer import continuous_token
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

MADE_UP = [continuous_token._SYNTHETIC_SYSTEM_MESSAGE, continuous_token._SYNTHETIC_USER_MESSAGE]
"""What the builder puts before an observation to see which tokens follow; always the same."""

_rendered: dict[Any, list[int]] = {}


def continuous_token_builder(model: str, tokenizer: Any) -> Any:
    """The builder an agent-loop worker would choose for the model (a folder or a hub id)."""
    return remembering(
        create_continuous_token_builder(
            tokenizer, hf_model_type=AutoConfig.from_pretrained(model).model_type, chat_template_kwargs={}
        )
    )


def remembering(builder: Any) -> Any:
    """The same builder, which renders the made-up messages once a process; verl's does so every turn.

    That is a quarter of the CPU time a turn takes in the agent loop.
    """
    render = builder._render_tokens
    key = (type(builder), builder.tokenizer, json.dumps(builder.chat_template_kwargs, sort_keys=True, default=repr))

    def tokens(messages: Any, *, add_generation_prompt: bool, tools: Any = None) -> list[int]:
        if add_generation_prompt or tools or messages != MADE_UP:
            found: list[int] = render(messages, add_generation_prompt=add_generation_prompt, tools=tools)
            return found
        if key not in _rendered:
            _rendered[key] = render(messages, add_generation_prompt=False)
        return _rendered[key]

    builder._render_tokens = tokens
    return builder
