"""verl's Continuous Token builder for a model: how conversations become tokens, turn by turn."""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder


def continuous_token_builder(model: str, tokenizer: Any) -> Any:
    """The builder an agent-loop worker would choose for the model (a folder or a hub id)."""
    return create_continuous_token_builder(
        tokenizer, hf_model_type=AutoConfig.from_pretrained(model).model_type, chat_template_kwargs={}
    )
