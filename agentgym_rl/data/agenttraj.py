"""AgentTraj: the JSON files of demonstrations that AgentGym publishes.

A file is a list of ``{"item_id", "conversations": [{"from", "loss", "value"}]}``. ``from`` is human or gpt; a
conversation in the compact style starts with one message from system, an addition of this package. ``loss`` is whether
a gpt message is trained on, and null for the others. Other forms are read, too (:mod:`agentgym_rl.data.entries`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from agentgym_rl.data import entries
from agentgym_rl.data.files import rows, write_text
from agentgym_rl.envs import item_ids
from agentgym_rl.envs.core import ACKNOWLEDGEMENT, Message

SENDERS = {"user": "human", "assistant": "gpt", "system": "system"}
ACKNOWLEDGEMENTS = (ACKNOWLEDGEMENT, "Ok.")
"""The answers to the instruction that AgentGym's clients put into their conversations; no model wrote them."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One conversation with an environment.

    Raises:
        ValueError: the messages are not a conversation, or a flag does not fit its message.
    """

    item_id: str
    messages: tuple[Message, ...]
    loss: tuple[bool | None, ...]
    """For each message: None unless it is the assistant's, and then whether it is trained on."""

    def __post_init__(self) -> None:
        if not self.item_id:
            raise ValueError("item_id is empty")
        if not self.messages:
            raise ValueError("the conversation has no messages")
        if len(self.loss) != len(self.messages):
            raise ValueError(f"{len(self.messages)} messages but {len(self.loss)} loss flags")
        expected = "user"
        for number, (message, loss) in enumerate(zip(self.messages, self.loss, strict=True), start=1):
            role = message["role"]
            if role != expected and not (number == 1 and role == "system"):
                raise ValueError(
                    f"message {number} is from {SENDERS.get(role, role)!r}, expected {SENDERS[expected]!r}; after an "
                    "optional system message human and gpt take turns"
                )
            if (role == "assistant") != isinstance(loss, bool):
                allowed = "true or false" if role == "assistant" else "null"
                raise ValueError(f"message {number} from {SENDERS[role]!r} has loss {json.dumps(loss)}, not {allowed}")
            expected = "assistant" if role == "user" else "user"

    @classmethod
    def of(cls, item_id: str, messages: Sequence[Message], start: int) -> Trajectory:
        """A trajectory that trains on every response after the first ``start`` messages, except empty ones.

        What follows the last response is left out: it is not trained on, and the published files end with a response.
        """
        last = max((at for at, message in enumerate(messages) if message["role"] == "assistant"), default=0)
        conversation = tuple(messages[: last + 1])
        loss = tuple(
            at >= start and bool(message["content"].strip()) if message["role"] == "assistant" else None
            for at, message in enumerate(conversation)
        )
        return cls(item_id, conversation, loss)

    @property
    def first_trained(self) -> int:
        """Position of the first response that is trained on.

        Raises:
            ValueError: there is none.
        """
        if True not in self.loss:
            raise ValueError(f"trajectory {self.item_id} has no response to train on")
        return self.loss.index(True)


def read(path: str | Path) -> list[Trajectory]:
    """The trajectories of a file, here or on the hub (:func:`agentgym_rl.data.files.rows`).

    Unknown keys of an entry are ignored.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not AgentTraj JSON; names file, entry (from 1) and fault.
    """
    trajectories = []
    for number, entry in enumerate(rows(path), start=1):
        try:
            trajectories.append(decode(entry))
        except ValueError as error:
            raise ValueError(f"{path}, entry {number}: {error}") from error
    return trajectories


def of_env(path: str | Path, env: str) -> list[Trajectory]:
    """The trajectories of one environment in a file, which may have those of several.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not AgentTraj JSON, or has none of the environment.
    """
    trajectories = read(path)
    envs = [
        parts[0] if (parts := item_ids.read(trajectory.item_id)) else trajectory.item_id for trajectory in trajectories
    ]
    chosen = [candidate for candidate, name in zip(trajectories, envs, strict=True) if name == env]
    if not chosen:
        raise ValueError(f"{path} has no trajectory of {env}, only of {', '.join(sorted(set(envs))[:8]) or 'nothing'}")
    return chosen


def write(path: str | Path, trajectories: Iterable[Trajectory]) -> None:
    """Write trajectories to a file, whole."""
    entries = [encode(trajectory) for trajectory in trajectories]
    write_text(path, json.dumps(entries, ensure_ascii=False, indent=2) + "\n")


def encode(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as one entry of a file."""
    return {
        "item_id": trajectory.item_id,
        "conversations": [
            {"from": SENDERS[message["role"]], "loss": loss, "value": message["content"]}
            for message, loss in zip(trajectory.messages, trajectory.loss, strict=True)
        ],
    }


def decode(entry: Any) -> Trajectory:
    """A trajectory from one entry of a file, its messages in any of the forms of :mod:`agentgym_rl.data.entries`.

    They are in ``conversations`` or ``messages``; TRL's ``prompt`` and ``completion`` are one conversation, whose
    ``prompt`` is not trained on. Every other response is trained on where the file does not say otherwise, but for the
    acknowledgement of a conversation of AgentGym's, which its clients wrote (:func:`acknowledged`).

    Raises:
        ValueError: the entry does not follow the format, or an empty response is to be trained on.
    """
    item_id = _item_id(entry)
    completed = entry.get("completion") is not None
    keys = ("prompt", "completion") if completed else (entries.given(entry, "conversations", "messages"),)
    parts = [entries.field(entry, key, list, "the entry") for key in keys]
    read = [entries.message(raw, f"message {number}") for number, raw in enumerate(chain(*parts), start=1)]
    messages = tuple(message for message, _ in read)
    untrained = range(len(parts[0]) if completed else 2 if acknowledged(messages) else 0)
    loss = tuple(
        (at not in untrained if flag is None else flag) if message["role"] == "assistant" else None
        for at, (message, flag) in enumerate(read)
    )
    trajectory = Trajectory(item_id, messages, loss)
    for number, (message, flag) in enumerate(zip(messages, loss, strict=True), start=1):
        if flag and not message["content"].strip():
            raise ValueError(f'message {number} is an empty response to train on; write it, or give it "loss": false')
    return trajectory


def acknowledged(messages: Sequence[Message]) -> bool:
    """Whether a conversation begins as AgentGym's do: an instruction, a client's answer to it, an observation."""
    if [message["role"] for message in messages[:3]] != ["user", "assistant", "user"]:
        return False
    return _plain(messages[1]["content"]) in map(_plain, ACKNOWLEDGEMENTS)


def _plain(text: str) -> str:
    return text.strip().rstrip(".").casefold()


def _item_id(entry: Any) -> str:
    item_id = entries.item_id(entry)
    return str(entries.field(entry if item_id is None else {"item_id": item_id}, "item_id", str, "the entry"))
