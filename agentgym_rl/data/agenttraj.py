"""AgentTraj: the JSON files of demonstrations that AgentGym publishes.

A file is a list of ``{"item_id", "conversations": [{"from", "loss", "value"}]}``. ``from`` is human or gpt; a
conversation in the compact style starts with one message from system, an addition of this package. ``loss`` is whether
a gpt message is trained on, and null for the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.data.files import rows, write_text
from agentgym_rl.envs import item_ids
from agentgym_rl.envs.bounds import encodable
from agentgym_rl.envs.core import Message

ROLES = {"human": "user", "gpt": "assistant", "system": "system"}
SENDERS = {role: sender for sender, role in ROLES.items()}


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
                wanted = "true or false" if role == "assistant" else "null"
                raise ValueError(f"message {number} from {SENDERS[role]!r} has loss {json.dumps(loss)}, not {wanted}")
            expected = "assistant" if role == "user" else "user"

    @classmethod
    def of(cls, item_id: str, messages: Sequence[Message], start: int) -> Trajectory:
        """A trajectory that trains on every response after the first ``start`` messages.

        What follows the last response is left out: it is not trained on, and the published files end with a response.
        """
        last = max((at for at, message in enumerate(messages) if message["role"] == "assistant"), default=0)
        kept = tuple(messages[: last + 1])
        loss = tuple(at >= start if message["role"] == "assistant" else None for at, message in enumerate(kept))
        return cls(item_id, kept, loss)

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
    envs = [found[0] if (found := item_ids.read(one.item_id)) else one.item_id for one in trajectories]
    own = [one for one, name in zip(trajectories, envs, strict=True) if name == env]
    if not own:
        raise ValueError(f"{path} has no trajectory of {env}, only of {', '.join(sorted(set(envs))[:8]) or 'nothing'}")
    return own


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
    """A trajectory from one entry of a file.

    Its messages may also be ``{"role", "content"}``. They carry no loss: the first three are the instruction, its
    acknowledgement and the first observation, and all later responses are trained on.

    Raises:
        ValueError: the entry does not follow the format.
    """
    item_id = _field(entry, "item_id", str, "the entry")
    messages: list[Message] = []
    loss: list[bool | None] = []
    for number, message in enumerate(_field(entry, "conversations", list, "the entry"), start=1):
        where = f"message {number}"
        if isinstance(message, dict) and "role" in message:  # as AgentGym's API evaluation and AgentGym-RL log them
            messages.append({key: _field(message, key, str, where) for key in ("role", "content")})
            continue
        sender = _field(message, "from", str, where)
        if sender not in ROLES:
            raise ValueError(f"{where} is from {sender!r}, expected one of {', '.join(ROLES)}")
        messages.append({"role": ROLES[sender], "content": _field(message, "value", str, where)})
        loss.append(message.get("loss"))
    if not loss:
        return Trajectory.of(item_id, messages, start=3)
    return Trajectory(item_id, tuple(messages), tuple(loss))


def _field(value: Any, key: str, kind: type, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {_kind(value)}, expected an object")
    if key not in value:
        raise ValueError(f"{where} has no {key!r}; its keys: {', '.join(value) or 'none'}")
    if not isinstance(value[key], kind):
        raise ValueError(f"{key!r} of {where} is {_kind(value[key])}, expected {_KINDS[kind]}")
    if kind is str and encodable(value[key]) != value[key]:
        raise ValueError(f"{key!r} of {where} holds half a surrogate pair, which no tokenizer takes")
    return value[key]


_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "a number")
