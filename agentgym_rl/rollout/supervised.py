"""Conversations as tokens to learn from: supervised examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.conversation import ContextTooSmall
from agentgym_rl.envs.core import Message


@dataclass(frozen=True, slots=True)
class Example:
    """One conversation, tokenised exactly as a rollout would have seen it."""

    input_ids: list[int]
    loss_weight: list[float]
    """Weight of each token in the loss: 0 on everything the model did not write. Same length as ``input_ids``."""


def encode(trajectory: Trajectory, tokenizer: Any, builder: Any, limit: int) -> Example:
    """Tokenise a trajectory turn by turn with verl's Continuous Token builder.

    A reply is its text and the end-of-turn token; loss is on replies whose flag says so.

    Raises:
        ContextTooSmall: it takes more than ``limit`` tokens.
        ValueError: no reply of it is learnt from.
    """
    messages: list[Message] = list(trajectory.messages)
    if True not in trajectory.loss:
        raise ValueError(f"trajectory {trajectory.item_id} has no reply to learn from")
    first = trajectory.loss.index(True)
    ids: list[int] = list(builder.build_initial_tokens(messages[:first]))
    weight = [0.0] * len(ids)
    for number in range(first, len(messages)):
        message = messages[number]
        if message["role"] == "assistant":
            reply = [*tokenizer.encode(message["content"], add_special_tokens=False), tokenizer.eos_token_id]
            ids = list(builder.merge_assistant_tokens(ids, reply).token_ids)
            weight += [float(bool(trajectory.loss[number]))] * (len(ids) - len(weight))
        else:
            ids = list(builder.merge_context_tokens(messages[:number], messages[: number + 1], ids).token_ids)
            weight += [0.0] * (len(ids) - len(weight))
    if len(ids) > limit:
        raise ContextTooSmall(
            f"trajectory {trajectory.item_id} takes {len(ids)} tokens, more than model.prompt_tokens + "
            f"model.response_tokens = {limit}"
        )
    return Example(ids, weight)


def from_rollout(input_ids: Sequence[int], response_mask: Sequence[int]) -> Example:
    """An example of the exact tokens of an episode: prompt and response, with the mask of the response."""
    prompt = len(input_ids) - len(response_mask)
    return Example(list(input_ids), [0.0] * prompt + [float(value) for value in response_mask])
