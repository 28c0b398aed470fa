"""The tokens of a session: a tree of responses, whose branches are segments.

A request that goes on from a response appends to its segment. One that goes on from a response which the segment has
already gone beyond (a retry, a branch), or from none, begins another segment; what it repeats of the first has mask 0
there. So each sampled token is learned from once, and a segment is what the model was fed, token for token.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from agentgym_rl.rollout.folding import Segment


@dataclass(frozen=True, slots=True)
class Place:
    """Where a response ends: its segment and its span in the segment's response tokens."""

    segment: int
    span: tuple[int, int]


@dataclass(slots=True)
class Known:
    """The conversations of a session: one, and by the key of the next message those that go on from it."""

    place: Place | None = None
    """Where it ends; None unless it ends with a response."""
    longer: dict[Hashable, Known] = field(default_factory=dict)

    def longest(self, keys: Sequence[Hashable]) -> tuple[int, Place | None]:
        """The longest conversation that begins one and ends with a response: how long it is, and where it ends."""
        conversation, found = self, (0, self.place)
        for number, key in enumerate(keys, start=1):
            following = conversation.longer.get(key)
            if following is None:
                break
            conversation = following
            if conversation.place is not None:
                found = number, conversation.place
        return found

    def add(self, keys: Sequence[Hashable], place: Place) -> None:
        """Keep where a conversation ends."""
        conversation = self
        for key in keys:
            conversation = conversation.longer.setdefault(key, Known())
        conversation.place = place


class Tree:
    """Segments, which grow by append.

    Args:
        prompt_limit: most tokens of a segment's prompt; what comes before its first response and does not fit there,
            stands before the response with mask 0.
    """

    def __init__(self, prompt_limit: int) -> None:
        self.prompt_limit = prompt_limit
        self.segments: list[Segment] = []

    def ids(self, place: Place | None) -> list[int]:
        """All tokens up to a response; none of None."""
        if place is None:
            return []
        segment = self.segments[place.segment]
        return segment.prompt_ids + segment.response_ids[: place.span[1]]

    def prompt_tokens(self, place: Place | None, prompt: Sequence[int]) -> int:
        """How many tokens of a prompt from ``place`` on are the prompt of its segment."""
        return min(len(prompt), self.prompt_limit) if place is None else len(self.segments[place.segment].prompt_ids)

    def add(
        self, place: Place | None, prompt: Sequence[int], sampled: Sequence[int], log_probs: Sequence[float]
    ) -> Place:
        """Keep a response.

        Args:
            place: the response that the prompt goes on from.
            prompt: all tokens that the model was fed.
            sampled: its response, with the log-probabilities of its tokens in nats.
        """
        known = self.ids(place)
        assert list(prompt[: len(known)]) == known, "a prompt extends what it goes on from"
        if place is not None and len(self.segments[place.segment].response_ids) == place.span[1]:
            number, segment = place.segment, self.segments[place.segment].followed_by(prompt[len(known) :])
        else:
            cut = self.prompt_tokens(place, prompt)
            number, segment = len(self.segments), Segment(list(prompt[:cut])).followed_by(prompt[cut:])
            self.segments.append(segment)
        start = len(segment.response_ids)
        self.segments[number] = segment.responded(sampled, log_probs)
        return Place(number, (start, start + len(sampled)))
