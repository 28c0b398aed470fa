"""The record of one episode."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any


class Ending(StrEnum):
    """Why an episode ended.

    The first group is the agent's own doing, or its model's, and counts. The second is not: the whole episode is
    retried, then kept out of loss, group statistics and success rates, and counted in a metric of its own.
    """

    TERMINATED = "terminated"
    """The environment ended the task, solved or lost."""
    TURN_LIMIT = "turn_limit"
    """The turn limit was reached, ours or the environment's own."""
    CONTEXT_LIMIT = "context_limit"
    """The next observation or response would not fit into the context."""
    INVALID_LIMIT = "invalid_limit"
    """Too many actions in a row that the environment could not carry out (off unless configured)."""
    REFUSED = "refused"
    """The API of the model refused this request, such as by its content filter."""
    MALFORMED = "malformed"
    """The API of the model answered with nothing that can be read as a reply."""

    ENV_ERROR = "env_error"
    """The environment failed."""
    TIMEOUT = "timeout"
    """A call of the environment, or the whole episode, took too long."""
    ABORTED = "aborted"
    """The LLM server dropped the request, or did not answer."""
    PROMPT_LIMIT = "prompt_limit"
    """The instruction and first observation do not fit into the prompt, so that the agent was never asked."""
    ROLLOUT_ERROR = "rollout_error"
    """Anything else was raised, such as by the chat template or while the LLM server generated."""

    @property
    def counts(self) -> bool:
        """Whether the outcome is the agent's own doing, or its model's."""
        return self not in NOT_COUNTED


NOT_COUNTED = (Ending.ENV_ERROR, Ending.TIMEOUT, Ending.ABORTED, Ending.PROMPT_LIMIT, Ending.ROLLOUT_ERROR)
"""Endings that are not the agent's doing."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """One response of the model and the observation after it."""

    response: str
    action: str | None
    """The command in the response; ``None`` when it could not be read and the environment was not called."""
    observation: str
    """What the action led to; the last one of an episode is recorded here but never shown to the model."""
    reward: float
    invalid: bool
    fault: str | None = None
    """The exception that the parser raised on the response: a bug of the parser, for which the action is invalid."""
    tokens: tuple[int, int] = (0, 0)
    """Span [start, end) of the response in the response tokens of its segment."""
    segment: int = 0
    """Number of the response's segment in the episode."""
    notes: str = ""
    """What the model noted when the conversation was folded just before this turn (``rollout.context=summary``)."""
    log_prob: float | None = None
    """Sum of the sampled tokens' log-probabilities, in nats."""
    calls: int = 1
    """Responses that the model generated for this turn: 0 for a replayed one, more than 1 after resampling."""
    finish_reason: str | None = None
    """Why the model stopped, in the words of its API: ``stop``, ``length``, ...; None where it does not say."""
    pieces: list[str] = field(default_factory=list)
    """Text of each token the model wrote; empty where tokens are not known."""
    log_probs: list[float] = field(default_factory=list)
    """Log-probability of each of them, in nats; empty for a replayed turn."""
    began_s: float = 0.0
    """When the response was requested, in seconds since ``Episode.began``."""
    model_s: float = 0.0
    """Seconds until the response was complete."""
    parse_s: float = 0.0
    """Seconds spent on reading the action from it."""
    env_s: float = 0.0
    """Seconds of the environment."""


@dataclass(slots=True, kw_only=True)
class Episode:
    """One episode."""

    env: str
    item_id: str
    ending: Ending
    reward: float
    """Sum of the turns' rewards, in [0, 1]."""
    success: bool
    max_turns: int
    seed: int = 0
    model_step: int = 0
    """The global step of the weights that generated it."""
    messages: list[dict[str, str]] = field(default_factory=list)
    """The whole conversation, without the observation that ended it; what the model saw of it if it is one segment."""
    preface: str = ""
    """What the messages have before the first observation or, in wordings with a prompt a turn, before each."""
    turns: list[Turn] = field(default_factory=list)
    prompt_tokens: int = 0
    """Tokens before the first response, summed over segments."""
    response_tokens: int = 0
    """Tokens from the first response on, summed over segments."""
    began: float = 0.0
    """When its last attempt began, in seconds since 1970."""
    reset_s: float = 0.0
    """Seconds of the environment for its first observation."""
    attempts: int = 1
    error: str | None = None
    """What the infrastructure or the model's API said when it ended the episode; else ``None``."""
    tags: dict[str, Any] = field(default_factory=dict)
    """What it belongs to: panel, decoding, split."""
    advantages: list[float] = field(default_factory=list)
    """What an update took each turn to be worth; empty where none learned from it, or each token had a number."""

    @property
    def seconds(self) -> float:
        """Seconds of its turns, in model and environment."""
        return sum(turn.model_s + turn.env_s for turn in self.turns)

    @property
    def parser_faults(self) -> int:
        """Turns whose response the parser failed on."""
        return sum(turn.fault is not None for turn in self.turns)

    @property
    def start(self) -> int:
        """Number of messages before the first turn's response; the opening messages may contain responses too."""
        responses = [at for at, message in enumerate(self.messages) if message["role"] == "assistant"]
        return responses[-len(self.turns)] if self.turns else len(self.messages)

    @property
    def without_preface(self) -> list[dict[str, str]]:
        """The messages as they are without it."""
        before = prefaced(self.preface, "")
        return [
            {**message, "content": message["content"].removeprefix(before)} if message["role"] == "user" else message
            for message in self.messages
        ]

    @property
    def segments(self) -> int:
        """Number of its segments: 1 unless the conversation was folded or thinking stripped."""
        return 1 + max((turn.segment for turn in self.turns), default=0)

    @property
    def calls(self) -> int:
        """Responses that the model generated for it, without replayed ones."""
        return sum(turn.calls for turn in self.turns)

    @property
    def prefix_turns(self) -> int:
        """Turns that were replayed from an earlier episode."""
        return sum(turn.calls == 0 for turn in self.turns)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, lists shared with the episode."""
        return {**shallow(self), "ending": self.ending.value, "turns": [shallow(turn) for turn in self.turns]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Episode:
        """The inverse of :meth:`to_dict`."""
        turns = [Turn(**turn | {"tokens": tuple(turn["tokens"])}) for turn in data["turns"]]
        return cls(**data | {"ending": Ending(data["ending"]), "turns": turns})


def prefaced(*parts: str) -> str:
    """Texts before an observation and, last, the observation."""
    return "".join(f"{part}\n\n" for part in parts[:-1] if part) + parts[-1]


def shallow(record: Any) -> dict[str, Any]:
    """A dataclass as a dict; ``dataclasses.asdict`` looks at every token of a list."""
    return {field.name: getattr(record, field.name) for field in fields(record)}
