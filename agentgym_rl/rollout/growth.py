"""Whether the tokens of an episode, which grow turn by turn, are those that the chat template renders of it at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from agentgym_rl.envs.core import Message
from agentgym_rl.rollout.template import EMPTY, alike, end_of_turn

OPENINGS: dict[str, list[Message]] = {
    "compact": [{"role": "system", "content": "You play."}],
    "agentgym": [{"role": "user", "content": "You play."}, {"role": "assistant", "content": "OK."}],
}
"""How an episode begins in each wording in which it grows."""

OBSERVATIONS = ("Count to 3.", "Right.", "You said 2.")
RESPONSES = ("Thought:\nNext.\n\nAction:\nsay 1", "Action: say 2")

SHOWN = (30, 50)
"""Characters before and after the first difference that an error shows."""


class Misfit(ValueError):
    """The template renders an episode in another way than it grows, or not at all; the message shows both texts."""


def check(builder: Any, style: str) -> None:
    """An exchange of two turns and one demonstration must grow to the tokens that the template renders of them.

    A thought without words may differ: templates drop it from earlier responses, or show one in the last response only.

    Args:
        builder: made :func:`~agentgym_rl.rollout.builder.faithful`.
        style: the wording; in one that is not in ``OPENINGS`` each turn has a prompt of its own, and nothing grows.

    Raises:
        Misfit: they do not.
    """
    if style not in OPENINGS:
        return
    try:
        first_turn = rendered(builder, _messages(style, 1)[:-1], add_generation_prompt=False)
        two_turns = rendered(builder, _messages(style, 2), add_generation_prompt=True)
        demonstration, grown = _grown(builder, style)
    except (TemplateError, TypeError, ValueError) as error:
        raise Misfit(f"the chat template cannot render an episode in the {style} wording ({error})") from error
    try:
        _compare(builder.tokenizer, _without_rest(first_turn, demonstration), demonstration)
        _compare(builder.tokenizer, two_turns, grown)
    except Misfit as error:
        raise Misfit(f"in the {style} wording {error}") from None


def _messages(style: str, turns: int) -> list[Message]:
    """The messages of an episode up to the observation after so many turns."""
    messages: list[Message] = [*OPENINGS[style], {"role": "user", "content": OBSERVATIONS[0]}]
    for response, observation in zip(RESPONSES[:turns], OBSERVATIONS[1:], strict=False):
        messages += [{"role": "assistant", "content": response}, {"role": "user", "content": observation}]
    return messages


def rendered(
    builder: Any,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> list[int]:
    """What the template itself renders; verl's builder tries other messages where it raises."""
    return list(
        builder.tokenizer.apply_chat_template(
            messages,
            add_generation_prompt=add_generation_prompt,
            tools=tools,
            return_dict=False,
            **builder.chat_template_kwargs,
        )
    )


def _grown(builder: Any, style: str) -> tuple[list[int], list[int]]:
    """The tokens up to the end of the first response, and those of all turns."""
    ids, ends = list(builder.build_initial_tokens(_messages(style, 0))), []
    for turn, text in enumerate(RESPONSES, start=1):
        response = [*builder.tokenizer.encode(text, add_special_tokens=False), end_of_turn(builder.tokenizer)]
        ids = list(builder.merge_assistant_tokens(ids, response).token_ids)
        ends.append(len(ids))
        messages = _messages(style, turn)
        ids = list(builder.merge_context_tokens(messages[:-1], messages, ids).token_ids)
    return ids[: ends[0]], ids


def _without_rest(conversation: list[int], demonstration: list[int]) -> list[int]:
    """A conversation up to its last end of turn, which some templates leave to the next message."""
    if conversation == demonstration[:-1]:
        return demonstration
    ends = [at for at, token in enumerate(conversation, start=1) if token == demonstration[-1]]
    turns = demonstration.count(demonstration[-1])
    return conversation[: ends[turns - 1]] if len(ends) >= turns else conversation


def _compare(tokenizer: Any, expected: list[int], grown: list[int]) -> None:
    """What grew must be as expected, token for token but for thoughts without words."""
    if expected == grown:
        return
    template, episode = (tokenizer.decode(ids) for ids in (expected, grown))
    plain = [EMPTY.sub("", text) for text in (template, episode)]
    if plain != [template, episode] and plain[0] == plain[1]:
        return
    at = alike(template, episode)
    part = slice(max(0, at - SHOWN[0]), at + SHOWN[1])
    raise Misfit(f"the chat template renders {template[part]!r} where an episode has {episode[part]!r}")


def repairs(builder: Any) -> list[str]:
    """What verl's own builder for the model would get wrong, in words; empty where it appends the template's tokens.

    Args:
        builder: made :func:`~agentgym_rl.rollout.builder.faithful`.
    """
    tokenizer, messages, faults = builder.tokenizer, _messages("agentgym", 1), []
    response = [*tokenizer.encode(RESPONSES[0], add_special_tokens=False), end_of_turn(tokenizer)]
    ours = builder.merge_context_tokens(messages[:-1], messages, response).token_ids
    try:
        verls = type(builder).merge_context_tokens(builder, messages[:-1], messages, response)
    except (TemplateError, TypeError, ValueError):
        faults.append("an observation only after a response")
    else:
        if verls.removed_prefix_token_count:
            faults.append(f"the loss on {tokenizer.decode(response[-1:])}")
        if verls.token_ids != ours:
            after, theirs = (tokenizer.decode(ids[len(response) :]) for ids in (ours, verls.token_ids))
            missing = repr(after.removesuffix(theirs)) if after.endswith(theirs) else "the end of a turn"
            faults.append(f"{missing} after a response")
    written = builder.merge_assistant_tokens([], response).token_ids
    if lead := tokenizer.decode(written[: -len(response)]):
        faults.append(f"{lead!r} before a response without a thought")
    return faults
