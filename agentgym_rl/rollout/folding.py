"""What is left of a conversation whose earlier turns are hidden.

A folded conversation is the instruction, the first observation with a remark on what is left out, and the last turns.
Each fold ends a segment and begins the next, so that an episode of any length is trained on in a bounded context. The
outcome of the episode goes to all of its segments (Flow-GRPO, arXiv 2510.05592, where every turn is a sample). Notes
that the model writes before a fold are its own tokens and are trained on like any response, as in SUPO (arXiv
2510.06727).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentgym_rl.envs.actions import Action
from agentgym_rl.envs.core import Message
from agentgym_rl.envs.formats import Parse

ASK = "Earlier turns will be hidden. Note what you need to remember."
"""Asks for notes."""


@dataclass(slots=True)
class Segment:
    """One prompt and what followed it, token for token; ``response_*`` and ``log_probs`` have one length."""

    prompt_ids: list[int]
    response_ids: list[int] = field(default_factory=list)
    response_mask: list[int] = field(default_factory=list)
    """1 on the model's own tokens."""
    log_probs: list[float] = field(default_factory=list)
    """As sampled, in nats; 0.0 where the mask is 0."""

    @property
    def ids(self) -> list[int]:
        return self.prompt_ids + self.response_ids

    def followed_by(self, ids: Sequence[int]) -> Segment:
        """The segment with further tokens that are not the model's own."""
        return Segment(
            self.prompt_ids,
            [*self.response_ids, *ids],
            self.response_mask + [0] * len(ids),
            self.log_probs + [0.0] * len(ids),
        )

    def responded(self, ids: Sequence[int], log_probs: Sequence[float]) -> Segment:
        """The segment with further tokens that are learned from: the model's own, or those of a prefix."""
        mask = self.response_mask + [1] * len(ids)
        return Segment(self.prompt_ids, [*self.response_ids, *ids], mask, [*self.log_probs, *log_probs])


@dataclass(frozen=True, slots=True)
class Exchange:
    """A response and the observation after it."""

    response: str
    observation: str
    ids: Sequence[int] = ()
    """The response's tokens."""


def folded(opening: Sequence[Message], exchanges: Sequence[Exchange], keep: int, notes: str) -> list[Message]:
    """The messages of a folded conversation.

    Args:
        opening: instruction and, last, the first observation.
        exchanges: all so far.
        keep: how many of them stay, from the end.
        notes: what the model wrote about them; may be empty.
    """
    hidden = len(exchanges) - keep
    remark = f"(Turns 1 to {hidden} are not shown.)" if hidden > 1 else "(Turn 1 is not shown.)" if hidden else ""
    noted = f"Your notes:\n{notes}" if notes else ""
    first = "\n\n".join(part for part in (opening[-1]["content"], remark, noted) if part)
    messages: list[Message] = [*opening[:-1], {"role": "user", "content": first}]
    for exchange in exchanges[hidden:]:
        messages += [
            {"role": "assistant", "content": exchange.response},
            {"role": "user", "content": exchange.observation},
        ]
    return messages


def plain_notes(exchanges: Sequence[Exchange], parse: Parse, fits: Callable[[str], bool]) -> str:
    """Notes for a demonstration, which has none: as many of its last commands as ``fits`` allows."""
    actions = (parse(exchange.response) for exchange in exchanges)
    commands = [action.command for action in actions if isinstance(action, Action)]
    while commands and not fits(notes := f"Done: {'; '.join(commands)}"):
        commands.pop(0)
    return notes if commands else "Nothing yet."
