"""Conversations as tokens, with those that are learned from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from sys import maxsize
from typing import Any

from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.envs.actions import InvalidAction
from agentgym_rl.envs.core import Message, Observation, Step
from agentgym_rl.envs.formats import Parse
from agentgym_rl.rollout.conversation import ContextTooSmall, Response
from agentgym_rl.rollout.folding import Exchange, Segment, plain_notes
from agentgym_rl.rollout.loop import turn_of
from agentgym_rl.rollout.prefix import Prefix, Replayed
from agentgym_rl.rollout.settings import Context, RolloutSettings
from agentgym_rl.rollout.tokens import TokenConversation, response_ids


@dataclass(frozen=True, slots=True)
class Example:
    """One conversation, tokenised exactly as a rollout would have seen it."""

    input_ids: list[int]
    loss_weight: list[float]
    """1 on each token that is learned from, 0 on everything the model did not write. Same length as ``input_ids``."""
    prompt: int = 0
    """Tokens before the first response."""


async def encode(
    trajectory: Trajectory,
    tokenizer: Any,
    builder: Any,
    *,
    env: str,
    prompt_limit: int,
    response_limit: int,
    settings: RolloutSettings,
    parse: Parse,
) -> tuple[Episode, list[Example]]:
    """A trajectory as the episode that a rollout with ``settings`` would have made of it, and its segments with a loss.

    A response is its text and the end-of-turn token, after the end of a thought where the prompt opens one that the
    text does not close. Notes, which the rollout's model writes, are the last commands. The episode is a success with
    reward 1. Its turns begin with the first response that is trained on; one in none of the segments has segment -1.

    Raises:
        ContextTooSmall: it does not fit. Of one segment, only the sum of both limits holds.
        ValueError: none of its responses is trained on.
    """
    messages, first = _shown(trajectory), trajectory.first_trained
    limits = (prompt_limit, response_limit)
    if settings.one_segment:
        limits, settings = (maxsize, maxsize), replace(settings, max_new_tokens=maxsize)

    def tokens(text: str) -> list[int]:
        return response_ids(text, tokenizer, builder)

    def notes(exchanges: Sequence[Exchange]) -> list[int]:
        return tokens(plain_notes(exchanges, parse, lambda text: len(tokens(text)) <= settings.notes_tokens))

    texts = [message["content"] for message in messages[first:] if message["role"] == "assistant"]
    conversation = TokenConversation(
        server=None,
        tokenizer=tokenizer,
        builder=builder,
        sampling={},
        prompt_limit=limits[0],
        response_limit=limits[1],
        settings=settings,
        prefix=Prefix(responses=[Replayed(ids=tokens(response)) for response in texts], learn=True),
        notes=notes,
    )
    too_long = ContextTooSmall(
        f"trajectory {trajectory.item_id} does not fit: a response takes more than rollout.max_new_tokens="
        f"{settings.max_new_tokens}, a turn more than model.prompt_tokens={prompt_limit}, or the whole more than "
        f"model.response_tokens={response_limit}"
    )
    await conversation.start(messages[:first], parse)
    responses: list[Response] = []
    for message, learned in zip(messages[first:], trajectory.loss[first:], strict=False):
        if message["role"] != "assistant":
            restarts = settings.context is Context.recent
            if not await (conversation.restart([message]) if restarts else conversation.observe(message["content"])):
                raise too_long
            continue
        response = await conversation.respond()
        if response is None:
            raise too_long
        responses.append(replace(response, text=message["content"]))
        if not learned:
            start, stop = response.span
            conversation.segments[response.segment].response_mask[start:stop] = [0] * (stop - start)
    size = conversation.prompt_tokens + conversation.response_tokens
    if settings.one_segment and size > prompt_limit + response_limit:
        raise ContextTooSmall(
            f"trajectory {trajectory.item_id} takes {size} tokens, more than model.prompt_tokens + "
            f"model.response_tokens = {prompt_limit + response_limit}"
        )
    learned_from = [number for number, segment in enumerate(conversation.segments) if any(segment.response_mask)]
    episode = Episode(
        env=env,
        item_id=trajectory.item_id,
        ending=Ending.TERMINATED,
        reward=1.0,
        success=True,
        max_turns=len(responses),
        messages=[{**message} for message in messages],
        turns=[*_turns(responses, [message["content"] for message in messages[first + 1 :: 2]], parse)],
        prompt_tokens=conversation.prompt_tokens,
        response_tokens=conversation.response_tokens,
    )
    for turn in episode.turns:
        turn.segment = learned_from.index(turn.segment) if turn.segment in learned_from else -1
    return episode, [of_segment(conversation.segments[number]) for number in learned_from]


def _turns(responses: Sequence[Response], observations: Sequence[str], parse: Parse) -> Iterator[Turn]:
    """The turns of a success: each response with the observation after it; the last one's is not known."""
    for response, observation in zip_longest(responses, observations):
        action, ends = parse(response.text), observation is None
        info = {"invalid": isinstance(action, InvalidAction)}
        yield turn_of(response, action, Step(Observation(observation or ""), float(ends), terminated=ends, info=info))


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
