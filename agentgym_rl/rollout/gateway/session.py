"""Sessions: what a harness is allowed, what was said, and how it ended."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hmac import compare_digest

from agentgym_rl.data.episode import Ending, Turn
from agentgym_rl.envs.bounds import cut, encodable
from agentgym_rl.rollout.conversation import NoResponse
from agentgym_rl.rollout.gateway.chat import Chat, Sampled
from agentgym_rl.rollout.gateway.request import ChatMessage, Refusal, Reply, Request

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a session may use; a request beyond it is answered with an error."""

    max_turns: int | None = None
    """Most replies of the model."""
    max_tokens: int | None = None
    """Most tokens that the model writes."""
    max_new_tokens: int = 512
    """Most tokens of one reply; a request may ask for fewer."""

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_tokens", "max_new_tokens"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} is {value}; give at least 1")


class Session:
    """One harness's conversations with the model. Its requests may run side by side.

    Args:
        clock: time in seconds.
    """

    def __init__(self, chat: Chat, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.id, self.key = secrets.token_hex(8), secrets.token_urlsafe(24)
        self.chat, self.limits, self._clock = chat, limits, clock
        self.turns: list[Turn] = []
        self.shown: list[list[ChatMessage]] = []
        """By turn, the messages of the harness since the assistant's last one."""
        self.reward: float | None = None
        self.failure: BaseException | None = None
        """What the model failed with; the harness could not go on, and it is not its doing."""
        self.stopped: Ending | None = None
        """The limit that the harness has met; None where it went on within it."""
        self.over = asyncio.Event()
        """No further request has a reply."""
        self.began, self.used = time.time(), clock()
        self._opened = clock()
        self._tokens = 0
        self._asking: list[tuple[Callable[[], bool], int]] = []
        """Of each request that runs, whether its client is there, and most tokens of its reply."""

    @property
    def idle(self) -> float:
        """Seconds since the last request; 0 while one runs."""
        return 0.0 if self._asking else self._clock() - self.used

    async def answer(self, request: Request, present: Callable[[], bool]) -> Reply | None:
        """The model's reply to a request; None, and nothing kept, where nobody is there any more to receive it.

        Args:
            present: whether the client is still there.

        Raises:
            Refusal: there is no reply; it says why.
        """
        self._check_open()
        room, asked = self._room(request), self._clock()
        asking = (present, room)
        self._asking.append(asking)
        try:
            sampled = await self._sample(request, room)
            if not present():
                return None
            self._check_open()  # meanwhile the reward may have been told, or another request have failed
            self._keep(request, sampled, asked)
            return sampled.reply
        finally:
            self._asking.remove(asking)
            self.used = self._clock()

    async def _sample(self, request: Request, room: int) -> Sampled:
        try:
            return await self.chat.sample(request, room)
        except NoResponse as error:
            self.stopped = error.ending
            too_long = error.ending is Ending.CONTEXT_LIMIT
            raise Refusal(str(error), "context_length_exceeded" if too_long else error.ending.value) from error
        except Refusal:
            raise
        except Exception as error:  # whatever the model fails with, the harness is told, and the episode's end says so
            log.warning("session %s: the model failed: %s: %s", self.id, type(error).__name__, encodable(str(error)))
            self.failure = error
            self.over.set()
            raise self._failed() from error

    def _keep(self, request: Request, sampled: Sampled, asked: float) -> None:
        if self.stopped is not Ending.TURN_LIMIT:  # a shorter conversation may fit, but no further turn
            self.stopped = None
        response, reply = sampled.keep(), sampled.reply
        self._tokens += reply.completion_tokens
        last = max((at for at, each in enumerate(request.messages) if each["role"] == "assistant"), default=-1)
        self.shown.append(list(request.messages[last + 1 :]))
        turn = Turn(
            response=response.text, action=response.text, observation="", reward=0.0, invalid=False,
            tokens=response.span, segment=response.segment, log_prob=response.log_prob, finish_reason=reply.finish,
            pieces=list(response.pieces), log_probs=list(response.log_probs),
            began_s=asked - self._opened, model_s=self._clock() - asked,
        )  # fmt: skip
        self.turns.append(turn)

    def end(self, reward: float) -> None:
        """The harness says what its work is worth, which ends the session. It may say so again.

        Raises:
            Refusal: it said otherwise before, or the session is over.
        """
        if self.reward is None:
            self._check_open()
        elif self.reward != reward:
            raise Refusal(f"the reward is {self.reward:g} already; it is given once", "session_over", 409)
        self.reward, self.used = reward, self._clock()
        self.over.set()

    def release(self) -> None:
        """Drop what was said; how the session ended is still told. Only for one that is over."""
        self.turns, self.shown = [], []
        del self.chat

    def _check_open(self) -> None:
        if self.failure is not None:
            raise self._failed()
        if self.over.is_set():
            raise Refusal("the session is over", "session_over", 409)

    def _failed(self) -> Refusal:
        said = cut(f"{type(self.failure).__name__}: {self.failure}", 300)
        return Refusal(f"the model failed, and the session is over: {said}", "model_failed", 503)

    def _room(self, request: Request) -> int:
        """Most tokens of the next reply.

        Raises:
            Refusal: a limit is reached.
        """
        limits = self.limits
        rooms = [room for present, room in self._asking if present()]  # of requests side by side
        if limits.max_turns is not None and len(self.turns) + len(rooms) >= limits.max_turns:
            self.stopped = Ending.TURN_LIMIT
            raise Refusal(f"the limit of {limits.max_turns} replies is reached; finish without the model", "turn_limit")
        room = min(limits.max_new_tokens, request.max_tokens or limits.max_new_tokens)
        if limits.max_tokens is not None:
            room = min(room, limits.max_tokens - self._tokens - sum(rooms))
        if room < 1:
            self.stopped = Ending.CONTEXT_LIMIT
            raise Refusal(
                f"the limit of {limits.max_tokens} tokens is reached; finish without the model", "token_limit"
            )
        return room


class Sessions:
    """Open sessions, and those that are over, which still tell so until they are reclaimed or closed.

    Args:
        limit: most at once; one that is over makes room for another.
        ttl: seconds after which one without a request is reclaimed.
        clock: time in seconds.
    """

    def __init__(self, limit: int = 4096, ttl: float = 1800.0, clock: Callable[[], float] = time.monotonic) -> None:
        if limit < 1 or ttl <= 0:
            raise ValueError(f"limit={limit} and ttl={ttl:g} should be above 0")
        self._limit, self.ttl, self._clock = limit, ttl, clock
        self._known: dict[str, Session] = {}

    def open(self, chat: Chat, limits: Limits) -> Session:
        """A new session.

        Raises:
            ValueError: as many as allowed are open.
        """
        if len(self) >= self._limit:
            over = next((session for session in self if session.over.is_set()), None)
            if over is None:
                raise ValueError(f"{self._limit} sessions are open; close some, or allow more")
            self.close(over)
        session = Session(chat, limits, self._clock)
        self._known[session.id] = session
        return session

    def find(self, name: str, key: str) -> Session:
        """The session of a name, for whoever has its key.

        Raises:
            Refusal: there is none, or the key is another's; which of them is not told.
        """
        session = self._known.get(name)
        wanted = "no session" if session is None else session.key
        if not compare_digest(key.encode(), wanted.encode()) or session is None:
            raise Refusal("there is no such session, or this is not its key", "no_session", 401)
        return session

    def close(self, session: Session) -> None:
        """End a session, which may have been reclaimed, and forget it."""
        session.over.set()
        self._known.pop(session.id, None)

    def close_all(self) -> None:
        """End every session."""
        for session in self:
            self.close(session)

    def reclaim(self) -> list[Session]:
        """Close the sessions without a request for longer than ``ttl``."""
        idle = [session for session in self if session.idle > self.ttl]
        for session in idle:
            if not session.over.is_set():
                log.warning("session %s had no request for %g s and is closed", session.id, self.ttl)
            self.close(session)
        return idle

    def __iter__(self) -> Iterator[Session]:
        """In the order in which they were opened."""
        return iter([*self._known.values()])

    def __len__(self) -> int:
        return len(self._known)
