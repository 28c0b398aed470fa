"""A gateway for harnesses that somebody else starts: whoever has its key opens a session for each episode."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from hmac import compare_digest
from pathlib import Path
from typing import Any

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs.bounds import encodable
from agentgym_rl.envs.core import Task, TaskNotFound, in_thread
from agentgym_rl.rollout.gateway.body import count, text_of
from agentgym_rl.rollout.gateway.chat import Chat
from agentgym_rl.rollout.gateway.request import MAX_NAME, Refusal
from agentgym_rl.rollout.gateway.session import Limits, Session, Sessions
from agentgym_rl.rollout.harness.run import Assignment, episode_of
from agentgym_rl.rollout.loop import ending_of

log = logging.getLogger(__name__)

TURNS = 1000
"""Limit of turns of a session that asks for none."""


class Service:
    """Opens sessions, and writes the episode of each that ends.

    Args:
        make_chat: makes the model's side of a session; its number is the seed.
        key: of this service.
        limits: of each session; one may ask for fewer turns.
        out: folder of the episodes, a file each; None keeps none.
    """

    def __init__(
        self, make_chat: Callable[[int], Chat], key: str, limits: Limits, out: Path | None, sessions: Sessions
    ) -> None:
        self._make_chat, self._key, self._limits, self._out, self._sessions = make_chat, key, limits, out, sessions
        self._numbers = itertools.count()
        self._watching: set[asyncio.Task[None]] = set()
        self._unwritten: list[Exception] = []
        """Why episodes could not be written."""

    def open(self, key: str, body: Mapping[str, Any]) -> Session:
        """A session for an episode.

        Args:
            body: may have ``item_id``, the task by which the episode is found again, and ``max_turns``.

        Raises:
            Refusal: the key is another's, a value is wrong, or as many sessions as allowed are open.
        """
        if not compare_digest(key.encode(), self._key.encode()):
            raise Refusal("this is not the gateway's key", "no_session", 401)
        at, most = next(self._numbers), self._limits.max_turns or TURNS
        try:
            task = Task.parse(text_of(body.get("item_id", f"harness_{at}"), "item_id", MAX_NAME))
        except TaskNotFound as error:
            raise Refusal(str(error)) from error
        turns = min(count(body, "max_turns") or most, most)
        try:
            session = self._sessions.open(self._make_chat(at), replace(self._limits, max_turns=turns))
        except ValueError as error:
            raise Refusal(str(error), "too_many_sessions", 429) from error
        watching = asyncio.create_task(self._keep(session, Assignment(task=task, max_turns=turns, sample=at)))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        return session

    async def _keep(self, session: Session, work: Assignment) -> None:
        """Write the episode of a session when it is over."""
        await session.over.wait()
        if self._out is not None:
            try:
                await in_thread(episode_store.write, self._out / f"{session.id}.parquet", [ended(session, work)])
            except Exception as error:  # other episodes may still be written
                log.exception("the episode of session %s is not written", session.id)
                self._unwritten.append(error)
        session.release()

    async def close(self) -> None:
        """End all sessions; returns when their episodes are written.

        Raises:
            Exception: why the first of those that could not be written was not.
        """
        self._sessions.close_all()
        await asyncio.gather(*self._watching)
        if self._unwritten:
            raise self._unwritten[0]


def ended(session: Session, work: Assignment) -> Episode:
    """The episode of a session that is over; one without a reward, or without a reply, does not count, unless a limit
    ended it."""
    if session.reward is not None and session.turns:
        return episode_of(session, work, Ending.TERMINATED, session.reward, None)
    if session.failure is not None:
        return episode_of(session, work, ending_of(session.failure), 0.0, encodable(str(session.failure)))
    if session.stopped is not None:
        return episode_of(session, work, session.stopped, 0.0, None)
    if not session.turns:
        return episode_of(session, work, Ending.ENV_ERROR, 0.0, "the session had no reply of the model")
    return episode_of(session, work, Ending.TIMEOUT, 0.0, "the session was closed without a reward")
