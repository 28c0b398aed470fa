"""AgentGym's HTTP protocol, for the server and the client.

AgentGym's servers share their routes (``/create``, ``/reset``, ``/step``, ``/observation``, ``/close``) and little
else: the key of a session, the field that names the task and the shape of each response differ between environments. A
:class:`Dialect` describes them. Its ``write_*`` methods make what a server sends, its ``read_*`` methods read it as a
client does; both are pure. Facts as of AgentGym 3ef9235.

Responses that are objects have more keys than AgentGym's: after a step ``earned`` (the reward in [0, 1]),
``truncated`` and ``info``; after a reset ``text``, where the text for the agent is not what AgentGym's client makes of
the other keys. AgentGym's clients ignore these keys; responses without them can be read as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from pathlib import Path
from typing import Any, Literal

from agentgym_rl.envs.actions import Action, ActionFormat, InvalidAction
from agentgym_rl.envs.core import EnvSpec, EnvTimeout, Observation, ProtocolError, Step
from agentgym_rl.envs.formats import reader
from agentgym_rl.envs.registry import base_name
from agentgym_rl.envs.tables import load

MAX_SESSION = 2**53
"""Session ids are below this, so that every JSON reader keeps them exact."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of a session's episode."""

    index: int
    """Index of the task."""
    label: str
    """Difficulty of the task."""
    step: Step
    """The last step; after a reset the first observation, without a reward."""
    total: float = 0.0
    """Sum of the rewards so far."""

    def after(self, step: Step) -> State:
        """The state after a step."""
        return replace(self, step=step, total=self.total + step.reward)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The protocol of one environment. The defaults are for an environment that AgentGym does not have."""

    env: str
    title: str = ""
    """The name that AgentGym's server gives itself at ``/``; those without say ``ok``."""
    tasks: int | None = None
    """AgentGym's server has the tasks from 0 to this number; None where there is no such limit."""
    renumbered: int | None = None
    """From this index on AgentGym's server has other tasks than the environment as it is installed here."""
    key: Literal["id", "env_idx"] = "id"
    """Name of the session id. It distinguishes AgentGym's two families: with ``id`` an environment's errors are
    ``{"error": text}`` under status 200, with ``env_idx`` they have a status of their own."""

    create_body: Mapping[str, Any] | None = None
    """Body of ``/create``; None where AgentGym sends none."""
    create_bare: bool = False
    """The response to ``/create`` is the bare session id."""
    create_starts: bool = False
    """``/create`` starts a task, and its response has the first observation, too."""
    recycles: bool = False
    """AgentGym's server has a limit of sessions; past it ``/create`` gives out those that are in use once more."""

    index: str = "data_idx"
    """The field of ``/reset`` that names the task."""
    index_missing: int | Literal["error", "same"] = "error"
    """The meaning of ``/reset`` without that field: an index, or the task of the session."""
    reset_fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of ``/reset``, with the values AgentGym's client sends."""
    reset_keys: tuple[str, ...] = ("id", "observation", "done", "reward")
    """Keys of the response to ``/reset``. Without any: the bare text (``reset_pair``: in a list, before a null)."""
    reset_pair: bool = False
    first_from: Literal["reset", "observation"] = "reset"
    """The route whose response has the first text for the agent."""

    text: Literal["observation", "state"] = "observation"
    """Key of the text in the response to ``/step``."""
    done: Literal["done", "terminated"] = "done"
    reward: Literal["step", "raw", "progress"] = "step"
    """Meaning of ``reward`` after a step: ours, in [0, 1]; AgentGym's of this step; or AgentGym's of the episode so far
    (``raw_reward`` in ``info``, both)."""
    score: Literal["", "total", "raw"] = ""
    """There is a ``score`` of the episode so far, too, which AgentGym's client takes for the reward: the sum of
    rewards, or AgentGym's own (``raw_reward`` in ``info``), which a mistake makes negative."""
    full: float = 1.0
    """``reward`` and ``score`` of a solved task."""
    success_above: float = 0.99
    """An episode is a success when AgentGym's final reward is greater than this, as its filters have it."""
    reward_ends: bool = False
    """Any reward ends the episode. BabyAI's server revokes an end with a reward of 0.5 or less, and repeats the reward
    after every later step."""
    pays_at_end: bool = False
    """Before the end the reward has another meaning: that an action was carried out (WebArena), or the progress of the
    task (TODO), which a wrong final state does not reduce."""
    lists_actions: bool = False
    """Responses have ``available_actions``; AgentGym's client adds them to the text after ``/reset``."""
    whole_response: bool = False
    """``action`` is the model's whole response; elsewhere AgentGym's client reads it and sends the command."""

    observation_object: bool = False
    """The response to ``/observation`` is that of ``/reset`` instead of the bare text."""
    vocabulary: bool = False
    """There is ``/filtered_vocab``: the words that may be guessed."""
    without_words: str = ""
    """The first text of AgentGym's server, to which its client adds those words."""

    # The client's side.

    def new_session(self, body: object) -> int:
        """The session id in the response to ``/create``. Raises ProtocolError: there is none."""
        session = body if self.create_bare else _object(body).get(self.key)
        if not isinstance(session, int) or isinstance(session, bool):
            raise ProtocolError(f"{self.env}: the response to /create has no session id: {_cut(body)}")
        return session

    def reset_body(self, session: int, index: int) -> dict[str, Any]:
        return {self.key: session, self.index: index, **self.reset_fields}

    def step_body(self, session: int, action: str) -> dict[str, Any]:
        return {self.key: session, "action": action}

    def write_action(self, spec: EnvSpec, command: str) -> str:
        """``action`` for a command of the environment."""
        return spec.write(command, "") if self.whole_response else command

    def read_reset(self, body: object) -> Observation:
        """The first observation from the response to ``/reset``; see ``first_from``.

        Raises:
            ProtocolError: the response has another shape.
            EnvTimeout: the server reports that the environment did not start.
        """
        if not self.reset_keys:
            return Observation(self._text(body[0] if self.reset_pair and isinstance(body, list) and body else body))
        fields = _object(body)
        actions = self._actions(fields)
        if "text" in fields:
            return Observation(self._text(fields["text"]), actions)
        text = self._together(fields)
        if self.first_from == "observation" and text == "TimeoutError":
            raise EnvTimeout(f"{self.env}: the server could not reset the session in time")
        return Observation(text, actions)

    def read_words(self, first: Observation, body: object) -> Observation:
        """The first observation with the words from the response to ``/filtered_vocab``.

        Raises:
            ProtocolError: it is no list of words.
        """
        if not isinstance(body, list) or not all(isinstance(word, str) for word in body):
            raise ProtocolError(f"{self.env}: the response to /filtered_vocab is no list of words: {_cut(body)}")
        return replace(first, text=f"{first.text}\nThe hidden word is one of these {len(body)}:\n{' '.join(body)}")

    def read_observation(self, body: object) -> Observation:
        """The observation from the response to ``/observation``. Raises ProtocolError: it has another shape."""
        return Observation(self._text(_object(body).get("observation") if self.observation_object else body))

    def read_step(self, body: object, total: float) -> Step:
        """The step from the response to ``/step``. Its reward is in [0, 1], and so is the sum over the episode;
        AgentGym's reward is in ``info["raw_reward"]``.

        Args:
            total: the sum of rewards before this step.

        Raises:
            ProtocolError: the response has another shape.
        """
        fields = _object(body)
        raw, done = finite(fields.get("score" if self.score else "reward")), fields.get(self.done)
        if raw is None or not isinstance(done, bool):
            raise ProtocolError(f"{self.env}: the response to /step lacks a reward or an end: {_cut(body)}")
        share = min(max(raw / self.full, 0.0), 1.0) if done or not self.pays_at_end else 0.0
        earned = finite(fields.get("earned"))
        if earned is None:
            earned = share - total if self.score or self.reward == "progress" else min(share, 1.0 - total)
        earned = min(max(earned, 0.0), 1.0)
        truncated = fields.get("truncated") is True
        ended = (done and not (truncated and self.done == "done")) or (self.reward_ends and earned > 0)
        info = fields.get("info")
        return Step(
            Observation(self._text(fields.get(self.text)), self._actions(fields)),
            earned,
            terminated=ended,
            truncated=truncated and not ended,
            info={"raw_reward": raw, **(info if isinstance(info, dict) else {})},
        )

    def _together(self, fields: Mapping[str, Any]) -> str:
        """The text that AgentGym's client makes of the response to ``/reset``."""
        text = self._text(fields.get("observation"))
        if "task_description" in self.reset_keys:
            text = f"{self._text(fields.get('task_description'))}\n{text}"
        return text + _listed(self._actions(fields) or ())

    def _actions(self, answer: Mapping[str, Any]) -> tuple[str, ...] | None:
        actions = answer.get("available_actions")
        return tuple(map(str, actions)) if self.lists_actions and isinstance(actions, list) else None

    def _text(self, text: object) -> str:
        if not isinstance(text, str):
            raise ProtocolError(f"{self.env}: the response has no text: {_cut(text)}")
        return text

    # The server's side.

    def read_action(self, spec: EnvSpec, action: str) -> Action | InvalidAction:
        """The action of a client's ``action``."""
        return reader(spec, ActionFormat.REACT)(action) if self.whole_response else Action(action)

    def write_create(self, session: int, state: State | None) -> Any:
        """The response to ``/create``; ``state`` where a task was started."""
        if self.create_bare:
            return session
        return {self.key: session} if state is None else {self.key: session, **self._start(session, state)}

    def write_reset(self, session: int, state: State) -> Any:
        if self.reset_keys:
            return self._start(session, state)
        return [state.step.observation.text, None] if self.reset_pair else state.step.observation.text

    def write_step(self, state: State) -> dict[str, Any]:
        fields = {
            self.text: state.step.observation.text,
            "reward": self._reward(state),
            "earned": state.step.reward,
            self.done: state.step.terminated if self.done == "terminated" else state.step.done,
            "truncated": state.step.truncated,
            "info": dict(state.step.info),
        }
        if self.score:
            total = self.full * state.total
            fields["score"] = float(state.step.info.get("raw_reward", total)) if self.score == "raw" else total
        if self.lists_actions:
            fields["available_actions"] = list(state.step.observation.actions or ())
        return fields

    def write_observation(self, session: int, state: State) -> Any:
        return self._start(session, state) if self.observation_object else self._shown(state.step.observation)

    def write_close(self, closed: bool) -> Any:
        return {"closed": "closed" if closed else "unknown"} if self.done == "terminated" else closed

    def _start(self, session: int, state: State) -> dict[str, Any]:
        """The keys of ``reset_keys``."""
        text = self._shown(state.step.observation)
        description, _, rest = text.partition("\n")
        fields: dict[str, Any] = {
            "observation": rest if "task_description" in self.reset_keys else text,
            "reward": self._reward(state),
            "score": self.full * state.total,
            "done": state.step.done,
            "deleted": False,
            "task_description": description,
            "task_name": state.label,
            "var_num": state.index,
            "task_type": state.label,
            "available_actions": list(state.step.observation.actions or ()),
            "sites": [],
            "object": state.label,
        }
        fields[self.key] = session
        chosen = {key: fields[key] for key in self.reset_keys}
        if self._together(chosen) != state.step.observation.text:
            chosen["text"] = state.step.observation.text
        return chosen

    def _shown(self, observation: Observation) -> str:
        """The text without the actions, which the client adds again."""
        listed = _listed(observation.actions or ()) if self.lists_actions else ""
        return observation.text.removesuffix(listed)

    def _reward(self, state: State) -> float:
        if self.reward == "step":
            return self.full * state.step.reward
        return float(state.step.info.get("raw_reward", state.total if self.reward == "progress" else state.step.reward))


def error_in(body: object) -> str | None:
    """The text of an error that came under status 200, or None."""
    return str(body["error"]) if isinstance(body, dict) and "error" in body else None


def _listed(actions: tuple[str, ...]) -> str:
    return f"\nAVAILABLE ACTIONS: {','.join(actions)}" if actions else ""


def _object(body: object) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise ProtocolError(f"the response should be an object: {_cut(body)}")
    return body


def finite(value: object) -> float | None:
    """A number as a float; None for anything else, and where it is none that floats have."""
    try:
        number = float(value) if isinstance(value, int | float) else nan
    except OverflowError:
        return None
    return number if isfinite(number) else None


def _cut(body: object) -> str:
    return repr(body)[:200]


def _read_dialects() -> dict[str, Dialect]:
    """The dialects of AgentGym's environments. ``like`` in a table takes its other fields from that environment's."""
    tables = load(Path(__file__).with_name("dialects.toml"), dict[str, dict[str, Any]])
    dialects = {}
    for env, table in tables.items():
        fields = {**tables.get(table.pop("like", ""), {}), **table}
        if "reset_keys" in fields:
            fields["reset_keys"] = tuple(fields["reset_keys"])
        dialects[env] = Dialect(env=env, **fields)
    return dialects


DIALECTS: Mapping[str, Dialect] = _read_dialects()


def dialect(env: str) -> Dialect:
    """The dialect of an environment, whatever its part; the defaults for one that AgentGym does not have."""
    return DIALECTS.get(base_name(env)) or Dialect(env=base_name(env))
