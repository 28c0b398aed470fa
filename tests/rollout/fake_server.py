"""An LLM server that samples what a test tells it to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Output:
    token_ids: list[int]
    log_probs: list[float]
    stop_reason: str = "completed"
    extra_fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Request:
    id: str
    prompt: list[int]
    sampling: dict[str, Any]
    output: Output


class FakeServer:
    """Gives these replies in turn, each cut to the request's ``max_tokens``; the last one over and over."""

    def __init__(self, replies: Sequence[Sequence[int]], stop_reason: str = "completed", **extra_fields: Any) -> None:
        self.replies = [list(reply) for reply in replies]
        self.stop_reason = stop_reason
        self.extra_fields = extra_fields
        self.requests: list[Request] = []

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Output:
        turn = len(self.requests)
        sampled = self.replies[min(turn, len(self.replies) - 1)][: sampling_params["max_tokens"]]
        log_probs = [-(turn + 1) / 4 - at / 1024 for at in range(len(sampled))]
        output = Output(sampled, log_probs, self.stop_reason, dict(self.extra_fields))
        self.requests.append(Request(request_id, list(prompt_ids), dict(sampling_params), output))
        return output
