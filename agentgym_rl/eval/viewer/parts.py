"""A response cut into thought, action and the rest, token by token."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

from agentgym_rl.data.episode import Turn
from agentgym_rl.envs.calls import TAGGED

Kind = Literal["thought", "action", "other"]
Span = tuple[int, int, Kind]
"""Start and end in the response's text, and its kind."""

_THOUGHT = re.compile(r"Thought:\s*(.*?)(?=\s*Action:|\Z)", re.DOTALL)
_JSON_THOUGHT = re.compile(r'"thought"\s*:\s*"((?:[^"\\]|\\.)*)"')
_JSON_CALL = re.compile(r'"(?:function_name|name)"\s*:.*\}', re.DOTALL)
_CODE = re.compile(r"```(?:python)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_LINE = re.compile(r"[^\n]+")


def parts(turn: Turn) -> list[dict[str, Any]]:
    """``[{"kind", "tokens": [[text, log-probability or None], ...]}, ...]``, in the order of writing.

    Without tokens a part is one piece of text.
    """
    cut = list(spans(turn))
    texts: list[dict[str, Any]] = []
    for text, at, log_prob in _pieces(turn, cut):
        kind = next((kind for start, end, kind in cut if start <= at < end), "other")
        if not texts or texts[-1]["kind"] != kind:
            texts.append({"kind": kind, "tokens": []})
        texts[-1]["tokens"].append([text, log_prob])
    return texts


def spans(turn: Turn) -> Iterator[Span]:
    """The thoughts and the action of a response."""
    response = turn.response
    if response.lstrip().startswith("{"):
        if thought := _JSON_THOUGHT.search(response):
            yield *thought.span(1), "thought"
        if call := _JSON_CALL.search(response):
            yield *call.span(), "action"
    elif (tagged := TAGGED.search(response)) is not None:
        yield 0, tagged.start(), "thought"
        yield *tagged.span(1), "action"
    elif (code := _CODE.search(response)) is not None:
        for line in _LINE.finditer(response, *code.span(1)):
            yield *line.span(), "thought" if line[0].lstrip().startswith("#") else "action"
    else:
        if thought := _THOUGHT.search(response):
            yield *thought.span(1), "thought"
        _, marker, after = response.rpartition("Action:")
        if marker:
            start = len(response) - len(after.lstrip())
            end = response.find("\n", start)
            to_end = end < 0 or (turn.action is not None and "\n" in turn.action)
            yield start, len(response) if to_end else end, "action"


def _pieces(turn: Turn, spans: list[Span]) -> Iterator[tuple[str, int, float | None]]:
    """Each piece: text, position of its first visible character in the response (-1 beyond it), log-probability."""
    if not turn.pieces:
        edges = sorted({0, len(turn.response), *(edge for start, end, _ in spans for edge in (start, end))})
        for start, end in pairwise(edges):
            yield turn.response[start:end], start, None
        return
    written = "".join(turn.pieces)
    same = next(
        (at for at, (a, b) in enumerate(zip(written, turn.response, strict=False)) if a != b), len(turn.response)
    )
    log_probs = [*turn.log_probs, *[None] * (len(turn.pieces) - len(turn.log_probs))]
    at = 0
    for piece, log_prob in zip(turn.pieces, log_probs, strict=False):
        first = at + len(piece) - len(piece.lstrip())
        yield piece, first if first < same else -1, log_prob
        at += len(piece)
