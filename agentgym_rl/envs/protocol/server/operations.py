"""The operations behind the routes of one environment."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

from agentgym_rl.envs.actions import InvalidAction
from agentgym_rl.envs.core import EnvError, Observation, ProtocolError, Step, Task, TaskNotFound, in_thread
from agentgym_rl.envs.numbering import digests
from agentgym_rl.envs.protocol.server.metrics import Metrics
from agentgym_rl.envs.protocol.server.sessions import Session, Sessions
from agentgym_rl.envs.protocol.wire import State, dialect
from agentgym_rl.envs.registry import make

MAX_INDEX = 2**53
NUMBERING = "/numbering"
"""The route that is about no session."""

Body = Mapping[str, Any]
"""A request's JSON object, or the parameters of its URL."""


class UnknownSession(EnvError):
    """The environment has no session of that id."""


class Malformed(Exception):
    """A request does not have the protocol's form; ``where`` is the field."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.where = where


@runtime_checkable
class Vocabulary(Protocol):
    """An environment with a list of words."""

    @property
    def words(self) -> Sequence[str]: ...


class Operations:
    """The operations of one served environment. Each takes a request and gives the JSON value of the response.

    Operations raise :class:`EnvError` for what AgentGym calls an error of the environment, and :class:`Malformed`.
    Their docstrings are the summaries in the OpenAPI description. ``options`` are those of the environment's class.
    """

    def __init__(self, name: str, options: Mapping[str, Any], sessions: Sessions, metrics: Metrics) -> None:
        self.name = name
        self.dialect = dialect(name)
        self._make = partial(make, name, **options)
        self._sessions = sessions
        self._opened, self._created = metrics.open.labels(name), metrics.created.labels(name)
        self._closed, self._steps = metrics.closed.labels(name), metrics.steps.labels(name)
        self._labels = not {"task_name", "task_type", "object"}.isdisjoint(self.dialect.reset_keys)
        self._digests: dict[str, str] = {}
        self.spec = self._make().spec  # so that wrong options are refused now, not at the first request
        self.table: dict[tuple[str, str], Callable[[Body], Awaitable[Any]]] = {
            ("POST", "/create"): self.create,
            ("POST", "/reset"): self.reset,
            ("POST", "/step"): self.step,
            ("POST", "/close"): self.close,
            ("GET", "/observation"): self.observation,
            ("GET", "/available_actions"): self.available_actions,
            ("GET", "/detail"): self.detail,
            ("GET", NUMBERING): self.numbering,
        }
        if self.dialect.vocabulary:
            self.table["GET", "/filtered_vocab"] = self.filtered_vocab

    async def create(self, body: Body) -> Any:
        """Open a session."""
        if any(body.get(key) is not None for key in ("commands", "goal")):
            raise ProtocolError("sessions with commands and a goal of the client's are not offered; reset to a task")
        session = self._sessions.open(self.name, self._make)
        self._created.inc()
        self._opened.inc()
        if self.dialect.create_starts:
            async with session.lock:
                await self._start(session, Task(self.name, self.spec.splits["train"][0]))
        return self.dialect.write_create(session.id, session.state)

    async def reset(self, body: Body) -> Any:
        """Start a task."""
        session = self._session(body)
        index = self._index(body, session)
        if not 0 <= index < MAX_INDEX:
            raise TaskNotFound(f"{self.name} has no task {index}; indices go from 0 to 2^53 - 1")
        async with session.lock:
            self._check(session)
            state = await self._start(session, Task(self.name, index))
        return self.dialect.write_reset(session.id, state)

    async def step(self, body: Body) -> Any:
        """Carry out an action."""
        session = self._session(body)
        sent = body.get("action")
        if not isinstance(sent, str):
            raise Malformed("action", "is missing" if sent is None else "should be a string")
        if not sent.isascii() and any("\ud800" <= letter <= "\udfff" for letter in sent):
            raise Malformed("action", "holds half a surrogate pair")
        async with session.lock:
            state = self._started(session)
            if state.step.done:
                raise ProtocolError(f"The task of session {session.id} has finished; reset it first.")
            action = self.dialect.read_action(self.spec, sent)
            if isinstance(action, InvalidAction):
                step = Step(Observation(action.observation), 0.0, terminated=False, info={"invalid": True})
            else:
                step = await session.env.step(action.command)
            session.state = state = state.after(step)
            self._sessions.use(session)
        self._steps.inc()
        return self.dialect.write_step(state)

    async def close(self, body: Body) -> Any:
        """Close a session; false where it was closed before."""
        session = self._sessions.find(integer(body, self.dialect.key), self.name)
        closed = session is not None and await self._sessions.close(session)
        if closed:
            self._closed.inc()
            self._opened.dec()
        return self.dialect.write_close(closed)

    async def observation(self, body: Body) -> Any:
        """The last observation."""
        session = self._session(body)
        return self.dialect.write_observation(session.id, self._started(session))

    async def available_actions(self, body: Body) -> Any:
        """The actions that are possible now, where the environment lists them."""
        return list(self._started(self._session(body)).step.observation.actions or ())

    async def detail(self, body: Body) -> Any:
        """Observation, reward and end of the last step."""
        state = self._started(self._session(body))
        return {
            "observation": state.step.observation.text,
            "reward": state.step.reward,
            "score": state.total,
            "done": state.step.done,
            "deleted": False,
        }

    async def filtered_vocab(self, body: Body) -> Any:
        """The words that may be guessed."""
        session = self._session(body)  # AgentGym's client asks before its first reset
        if not isinstance(session.env, Vocabulary):
            raise ProtocolError(f"{self.name} has no words")
        return list(session.env.words)

    async def numbering(self, body: Body) -> Any:
        """Name of the environment, and a digest of each split's tasks."""
        self._digests = self._digests or await in_thread(digests, self._make())
        return {"env": self.name, "splits": self._digests}

    async def _start(self, session: Session, task: Task) -> State:
        session.state = None
        observation = await session.env.reset(task)
        label = session.env.difficulty(task) if self._labels else ""
        session.state = State(task.index, label, Step(observation, 0.0, terminated=False))
        self._sessions.use(session)
        return session.state

    def _session(self, body: Body) -> Session:
        number = integer(body, self.dialect.key)
        session = self._sessions.find(number, self.name)
        if session is None:
            raise UnknownSession(f"The {self.dialect.key} {number} is not valid: no such session, closed or expired.")
        return session

    def _check(self, session: Session) -> None:
        """Refuse a session that was closed while its lock was waited for."""
        if session.closed:
            raise UnknownSession(f"The session {session.id} has been deleted.")

    def _started(self, session: Session) -> State:
        self._check(session)
        self._sessions.use(session)
        if session.state is None:
            raise ProtocolError(f"The session {session.id} has no task yet; reset it first.")
        return session.state

    def _index(self, body: Body, session: Session) -> int:
        if body.get(self.dialect.index) is not None:
            return integer(body, self.dialect.index)
        match self.dialect.index_missing:
            case "error":
                raise Malformed(self.dialect.index, "is missing")
            case "same":
                return self._started(session).index
            case index:
                return index


def integer(body: Body, key: str) -> int:
    """A field that must be an integer, or text or a float that AgentGym's servers take for one.

    Raises:
        Malformed: it is missing or something else.
    """
    value = body.get(key)
    if isinstance(value, str) and re.fullmatch(r"\s*\+?[0-9]{1,19}(\.0*)?\s*", value):
        value = int(value.partition(".")[0])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Malformed(key, "is missing" if value is None else "should be an integer")
    return value
