"""Conversations as tokens, with those that are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.envs.core import Message
from agentgym_rl.envs.formats import Parse
from agentgym_rl.rollout.conversation import ContextTooSmall
from agentgym_rl.rollout.folding import Exchange, Segment, plain_notes
from agentgym_rl.rollout.prefix import Prefix, Replayed
from agentgym_rl.rollout.settings import Context, RolloutSettings
from agentgym_rl.rollout.template import end_of_turn
from agentgym_rl.rollout.tokens import TokenConversation, response_ids


@dataclass(frozen=True, slots=True)
class Example:
    """One conversation, tokenised exactly as a rollout would have seen it."""

    input_ids: list[int]
    loss_weight: list[float]
    """1 on each token that is learned from, 0 on everything the model did not write. Same length as ``input_ids``."""
    prompt: int = 0
    """Tokens before the first response."""


def encode(trajectory: Trajectory, tokenizer: Any, builder: Any, limit: int) -> Example:
    """Tokenise a trajectory turn by turn with verl's Continuous Token builder.

    A response is its text and the end-of-turn token, after the end of a thought where the prompt opens one that the
    text does not close; the loss flags select the responses that are trained on.

    Raises:
        ContextTooSmall: it takes more than ``limit`` tokens.
        ValueError: none of its responses is trained on.
    """
    messages = _shown(trajectory)
    first, end = trajectory.first_trained, end_of_turn(tokenizer)
    ids: list[int] = list(builder.build_initial_tokens(messages[:first]))
    prompt, weight = len(ids), [0.0] * len(ids)
    for number in range(first, len(messages)):
        message = messages[number]
        if message["role"] == "assistant":
            response = [*tokenizer.encode(message["content"], add_special_tokens=False), end]
            ids = list(builder.merge_assistant_tokens(ids, response).token_ids)
            weight += [float(bool(trajectory.loss[number]))] * (len(ids) - len(weight))
        else:
            ids = list(builder.merge_context_tokens(messages[:number], messages[: number + 1], ids).token_ids)
            weight += [0.0] * (len(ids) - len(weight))
    if len(ids) > limit:
        raise ContextTooSmall(
            f"trajectory {trajectory.item_id} takes {len(ids)} tokens, more than model.prompt_tokens + "
            f"model.response_tokens = {limit}"
        )
    return Example(ids, weight, prompt)


async def encode_segments(
    trajectory: Trajectory,
    tokenizer: Any,
    builder: Any,
    *,
    prompt_limit: int,
    response_limit: int,
    settings: RolloutSettings,
    parse: Parse,
) -> list[Example]:
    """A trajectory as the segments that a rollout with ``settings`` would have made of it, as far as they have a loss.

    Where the rollout's model writes notes, the demonstration has its last commands instead.

    Raises:
        ContextTooSmall: a turn or the instruction does not fit.
        ValueError: none of its responses is trained on.
    """
    messages = _shown(trajectory)
    first = trajectory.first_trained

    def tokens(text: str) -> list[int]:
        return response_ids(text, tokenizer, builder)

    def notes(exchanges: Sequence[Exchange]) -> list[int]:
        return tokens(plain_notes(exchanges, parse, lambda text: len(tokens(text)) <= settings.notes_tokens))

    responses = [message["content"] for message in messages[first:] if message["role"] == "assistant"]
    conversation = TokenConversation(
        server=None,
        tokenizer=tokenizer,
        builder=builder,
        sampling={},
        prompt_limit=prompt_limit,
        response_limit=response_limit,
        settings=settings,
        prefix=Prefix(responses=[Replayed(ids=tokens(response)) for response in responses], learn=True),
        notes=notes,
    )
    too_long = ContextTooSmall(
        f"trajectory {trajectory.item_id} does not fit: a response takes more than rollout.max_new_tokens="
        f"{settings.max_new_tokens}, a turn more than model.prompt_tokens={prompt_limit}, or the whole more than "
        f"model.response_tokens={response_limit}"
    )
    await conversation.start(messages[:first], parse)
    for number in range(first, len(messages)):
        if messages[number]["role"] != "assistant":
            whole = settings.context is Context.recent
            said = messages[number]
            if not await (conversation.restart([said]) if whole else conversation.observe(said["content"])):
                raise too_long
            continue
        response = await conversation.respond()
        if response is None:
            raise too_long
        if not trajectory.loss[number]:
            start, stop = response.span
            conversation.segments[response.segment].response_mask[start:stop] = [0] * (stop - start)
    return [of_segment(segment) for segment in conversation.segments if any(segment.response_mask)]


def _shown(trajectory: Trajectory) -> list[Message]:
    """The messages up to the last response: a rollout does not show the model what ended its episode."""
    last = max((at for at, loss in enumerate(trajectory.loss) if loss is not None), default=0)
    return list(trajectory.messages[: last + 1])


def of_segment(segment: Segment) -> Example:
    """An example of the exact tokens of a segment."""
    return from_rollout([*segment.prompt_ids, *segment.response_ids], segment.response_mask)


def from_rollout(input_ids: Sequence[int], response_mask: Sequence[int]) -> Example:
    """An example of the exact tokens of an episode: prompt and response, with the mask of the response."""
    prompt = len(input_ids) - len(response_mask)
    return Example(list(input_ids), [0.0] * prompt + [float(value) for value in response_mask], prompt)
