"""Where the time of episodes went: generate, parse, step and what lies between; also in Chrome's trace-event format."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from agentgym_rl.data.episode import Episode

MEANINGS = {
    "generate": "waiting for the model's response",
    "parse": "reading the action from it",
    "step": "the environment's reset and steps",
    "wait": "what lies between: building prompts, waiting for the processor",
}
"""Kinds of spans."""
KINDS = tuple(MEANINGS)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of an episode, in seconds since the first episode began."""

    kind: str
    start: float
    seconds: float
    label: str
    """What was done in it."""

    @property
    def end(self) -> float:
        return self.start + self.seconds


@dataclass(frozen=True, slots=True)
class Lane:
    """One episode."""

    episode: Episode
    spans: list[Span]
    """In the order of time, without gaps."""

    @property
    def start(self) -> float:
        return self.spans[0].start

    @property
    def end(self) -> float:
        return self.spans[-1].end

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def spent(self, kind: str) -> float:
        """Seconds of one kind."""
        return sum(span.seconds for span in self.spans if span.kind == kind)


def lanes(episodes: Sequence[Episode]) -> list[Lane]:
    """Episodes as lanes, in the order in which they began; those without times are left out.

    Raises:
        ValueError: none has times.
    """
    timed = sorted(
        (episode for episode in episodes if episode.began), key=lambda episode: (episode.began, episode.item_id)
    )
    if not timed:
        raise ValueError(
            f"none of {len(episodes)} episodes has a start time, so no timeline can be drawn; those whose "
            "infrastructure failed have none"
        )
    return [Lane(episode, list(_spans(episode, episode.began - timed[0].began))) for episode in timed]


def _spans(episode: Episode, start: float) -> Iterator[Span]:
    yield Span("step", start, episode.reset_s, "reset")
    at = start + episode.reset_s
    for number, turn in enumerate(episode.turns, start=1):
        began_at = max(at, start + turn.began_s)
        if began_at > at:
            yield Span("wait", at, began_at - at, f"before turn {number}")
        tokens = turn.tokens[1] - turn.tokens[0]
        response = "replayed" if turn.calls == 0 else f"{tokens} tokens" if tokens else "response"
        at = began_at
        for kind, seconds, label in (
            ("generate", turn.model_s, f"turn {number}, {response}"),
            ("parse", turn.parse_s, f"turn {number}"),
            ("step", turn.env_s, f"turn {number}: {turn.action}"),
        ):
            if seconds > 0:
                yield Span(kind, at, seconds, label)
                at += seconds


def trace(drawn: Sequence[Lane]) -> dict[str, Any]:
    """Chrome's trace-event format: a process per environment, a thread per episode, a counter of episodes per kind."""
    envs = sorted({lane.episode.env for lane in drawn})
    events: list[dict[str, Any]] = [_name("process_name", number, 0, env) for number, env in enumerate(envs, start=1)]
    for thread, lane in enumerate(drawn, start=1):
        process = envs.index(lane.episode.env) + 1
        events.append(_name("thread_name", process, thread, lane.episode.item_id))
        for span in lane.spans:
            events.append(
                {
                    "ph": "X", "name": span.kind, "cat": span.kind, "pid": process, "tid": thread,
                    "ts": _us(span.start), "dur": _us(span.seconds), "args": {"what": span.label},
                }
            )  # fmt: skip
    for time, *counts in concurrency(drawn, 500):
        args = dict(zip(KINDS, counts, strict=True))
        events.append({"ph": "C", "name": "episodes", "pid": 0, "ts": _us(time), "args": args})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _us(seconds: float) -> float:
    """Microseconds, to the nanosecond."""
    return round(1e6 * seconds, 3)


def shares(drawn: Sequence[Lane]) -> dict[str, float]:
    """Share of each kind in the summed time of all episodes."""
    spent = {kind: sum(lane.spent(kind) for lane in drawn) for kind in KINDS}
    total = sum(spent.values())
    return {kind: seconds / total if total else 0.0 for kind, seconds in spent.items()}


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that ``share`` of the values do not exceed (nearest rank)."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def ended(drawn: Sequence[Lane], share: float) -> float:
    """When a share of the episodes had ended, in seconds since the first one began."""
    return percentile([lane.end for lane in drawn], share)


def concurrency(drawn: Sequence[Lane], slices: int) -> list[tuple[float, ...]]:
    """Over equal slices of time: the start of the slice, and the mean number of episodes in each of the kinds."""
    total = max(lane.end for lane in drawn)
    width = total / slices
    if width == 0:
        return []
    counts = {kind: [0.0] * slices for kind in KINDS}
    for lane in drawn:
        for span in lane.spans:
            column = counts[span.kind]
            first, last = int(span.start / width), min(int(span.end / width), slices - 1)
            for place in range(first, last + 1):
                inside = min(span.end, (place + 1) * width) - max(span.start, place * width)
                column[place] += max(0.0, inside) / width
    return [(place * width, *(counts[kind][place] for kind in KINDS)) for place in range(slices)]
