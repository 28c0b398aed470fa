"""verl's Continuous Token builder for a model: how conversations become tokens, turn by turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from transformers import AutoConfig
from verl.utils.tokenizer.continuous_token import MergeResult
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from agentgym_rl.envs.core import Message
from agentgym_rl.rollout.growth import rendered
from agentgym_rl.rollout.template import Frame

REMEMBERED = 512
"""Lists of messages whose tokens a process remembers."""

_kinds: dict[Any, tuple[Frame, Callable[..., list[int]]]] = {}


def continuous_token_builder(model: str, tokenizer: Any, arguments: Mapping[str, Any]) -> Any:
    """The builder an agent-loop worker would choose for the model (a folder or a hub id).

    Args:
        arguments: of the chat template, e.g. ``{"enable_thinking": False}``.
    """
    model_type = AutoConfig.from_pretrained(model).model_type
    return faithful(
        create_continuous_token_builder(tokenizer, hf_model_type=model_type, chat_template_kwargs=dict(arguments))
    )


def faithful(builder: Any) -> Any:
    """The same builder, which from now on appends what its chat template renders, for any family of models.

    verl's own builders render an observation without the response before it, so that they lose what a template puts
    between the two (the line break after ``<|im_end|>``), and know of some families only. Here an observation is what
    the template renders after a response, and a response that the model did not sample closes the thought that the
    prompt opened.

    ``render_exactly(messages, add_generation_prompt=, tools=)`` raises where the template does; verl's builder tries
    other messages.

    Builders of a kind share a cache of what they rendered lately in this process: every turn renders placeholders, and
    the episodes of a group begin with the same prompt.
    """
    kind = (type(builder), builder.tokenizer, json.dumps(builder.chat_template_kwargs, sort_keys=True, default=repr))
    if kind not in _kinds:
        _kinds[kind] = Frame(builder.tokenizer, _once(builder._render_tokens)), _once(partial(rendered, builder))
    frame, builder.render_exactly = _kinds[kind]

    def merge_context_tokens(
        previous_messages: Sequence[Message], updated_messages: Sequence[Message], runtime_token_ids: Sequence[int]
    ) -> MergeResult:
        """Messages after a response, which gets an end of turn where it was cut before one."""
        ids = frame.following(updated_messages[len(previous_messages) :], list(runtime_token_ids))
        return MergeResult([*runtime_token_ids, *ids], len(ids), "context")

    def merge_assistant_tokens(runtime_token_ids: Sequence[int], assistant_token_ids: Sequence[int]) -> MergeResult:
        """A response that was written elsewhere; what the model itself sampled is appended as it is."""
        ids = frame.written(assistant_token_ids)
        return MergeResult([*runtime_token_ids, *ids], len(ids), "assistant")

    builder._render_tokens = frame.render
    builder.merge_context_tokens, builder.merge_assistant_tokens = merge_context_tokens, merge_assistant_tokens
    return builder


def _once(render: Callable[..., list[int]]) -> Callable[..., list[int]]:
    @lru_cache(REMEMBERED)
    def remembered(request: str, add_generation_prompt: bool) -> tuple[int, ...]:
        messages, tools = json.loads(request)
        return tuple(render(messages, add_generation_prompt=add_generation_prompt, tools=tools))

    def tokens(messages: Any, *, add_generation_prompt: bool, tools: Any = None) -> list[int]:
        return list(remembered(json.dumps([messages, tools or None]), add_generation_prompt))

    return tokens
