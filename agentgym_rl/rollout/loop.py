"""The episode loop: a world and a conversation take turns, one asyncio task an episode."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.envs.actions import Action
from agentgym_rl.envs.core import EnvError, EnvTimeout, Observation, Step, Task, TaskNotFound, TextEnv
from agentgym_rl.envs.formats import Parse, opening, reader
from agentgym_rl.rollout.conversation import Conversation
from agentgym_rl.rollout.settings import RolloutSettings

log = logging.getLogger(__name__)

T = TypeVar("T")
C = TypeVar("C", bound=Conversation)

Watch = Callable[[str | None, Step], None]
"""Told of the first observation (as a step without action) and of every action and what it led to."""


class Aborted(EnvError):
    """The LLM server dropped the request (a pause of generation)."""


async def play(
    make_world: Callable[[], TextEnv],
    task: Task,
    make_conversation: Callable[[], C],
    settings: RolloutSettings,
    horizon: int | None = None,
    parse: Parse | None = None,
    watch: Watch | None = None,
) -> tuple[Episode, C]:
    """Play one episode, again from the start in a fresh session when the infrastructure fails.

    The conversation of the last attempt is returned beside the episode: its tokens are what is learnt from. Arguments
    are those of :func:`attempt`.

    Raises:
        TaskNotFound: the task does not exist (not retried).
        ContextTooSmall: the prompt does not fit (not retried).
        StopPlaying: the policy left.
        ValueError: the turn limit is less than 1.
    """
    for number in range(1, settings.retries + 2):
        world = make_world()
        conversation = make_conversation()
        try:
            async with asyncio.timeout(settings.episode_seconds):
                episode = await attempt(world, task, conversation, settings, horizon, parse, watch)
        except TaskNotFound:
            raise
        except (EnvError, TimeoutError) as error:
            what = str(error) or f"episode took longer than {settings.episode_seconds:g} s"
            episode = Episode(
                env=task.env,
                item_id=str(task),
                ending=_failure(error),
                reward=0.0,
                success=False,
                horizon=turn_limit(world, settings, horizon),
                error=f"{type(error).__name__}: {what}",
            )
        finally:
            await _close(world, settings.step_seconds)
        episode.attempts = number
        if episode.ending.counts:
            break
    return episode, conversation


async def attempt(
    world: TextEnv,
    task: Task,
    conversation: Conversation,
    settings: RolloutSettings,
    horizon: int | None = None,
    parse: Parse | None = None,
    watch: Watch | None = None,
) -> Episode:
    """Play one episode once in an open session, which stays open.

    A reply that cannot be read uses up a turn; the world is not called, and the agent reads why.

    Args:
        horizon: turn limit of this episode; without it ``settings.max_turns``, then the world's own.
        parse: how replies are read; without it as the world and ``settings.action_format`` say.

    Raises:
        EnvError: the infrastructure failed; what was played says nothing about the agent.
        ContextTooSmall: the prompt does not fit.
        StopPlaying: the policy left.
        ValueError: the turn limit is less than 1, or the world has no such action format.
    """
    limit = turn_limit(world, settings, horizon)
    messages = opening(world.spec, world.style, settings.action_format)
    parse = parse or reader(world.spec, settings.action_format)
    began, clock = time.time(), time.monotonic()
    first, reset_s = await _timed(world.reset(task), settings.step_seconds, f"reset of {task}")
    if watch:
        watch(None, Step(first, 0.0, terminated=False))
    messages.append({"role": "user", "content": first.text})
    await conversation.start(messages, parse)

    turns: list[Turn] = []
    ending = Ending.TURN_LIMIT
    invalid_in_a_row = 0
    while True:
        started = time.monotonic()
        reply = await conversation.reply()
        model_s = time.monotonic() - started
        if reply is None:
            ending = Ending.CONTEXT_LIMIT
            break
        if reply.aborted:
            raise Aborted(f"the LLM server aborted turn {len(turns) + 1} of {task}")
        messages.append({"role": "assistant", "content": reply.text})

        read = time.monotonic()
        action = parse(reply.text)
        parse_s, world_s = time.monotonic() - read, 0.0
        if isinstance(action, Action):
            what = f"step {action.command!r} of {task}"
            step, world_s = await _timed(world.step(action.command), settings.step_seconds, what)
        else:
            step = Step(Observation(action.observation), 0.0, terminated=False, info={"invalid": True})
        command = action.command if isinstance(action, Action) else None
        if watch:
            watch(reply.text if command is None else command, step)
        invalid = bool(step.info.get("invalid"))
        invalid_in_a_row = invalid_in_a_row + 1 if invalid else 0
        turns.append(
            Turn(
                response=reply.text,
                action=command,
                observation=step.observation.text,
                reward=step.reward,
                invalid=invalid,
                tokens=reply.span,
                sample=reply.sample,
                notes=reply.notes,
                log_prob=reply.log_prob,
                pieces=list(reply.pieces),
                log_probs=list(reply.log_probs),
                calls=reply.calls,
                began_s=started - clock,
                model_s=model_s,
                parse_s=parse_s,
                world_s=world_s,
            )
        )
        if step.terminated:
            ending = Ending.TERMINATED
            break
        if step.truncated or len(turns) == limit:
            break
        if settings.invalid_limit is not None and invalid_in_a_row >= settings.invalid_limit:
            ending = Ending.INVALID_LIMIT
            break
        if not await conversation.observe(step.observation.text):
            ending = Ending.CONTEXT_LIMIT
            break
        messages.append({"role": "user", "content": step.observation.text})

    reward = sum(turn.reward for turn in turns)
    return Episode(
        env=task.env,
        item_id=str(task),
        ending=ending,
        reward=reward,
        success=world.spec.success(reward),
        horizon=limit,
        messages=messages,
        turns=turns,
        began=began,
        reset_s=reset_s,
        prompt_tokens=conversation.prompt_tokens,
        response_tokens=conversation.response_tokens,
    )


def turn_limit(world: TextEnv, settings: RolloutSettings, horizon: int | None) -> int:
    """``horizon``, or else the settings' limit, or else the world's own.

    Raises:
        ValueError: it is less than 1.
    """
    limits = (horizon, settings.max_turns, world.spec.max_turns)
    limit = next(limit for limit in limits if limit is not None)
    if limit < 1:
        raise ValueError(f"max_turns is {limit}; give at least 1")
    return limit


def _failure(error: EnvError | TimeoutError) -> Ending:
    if isinstance(error, Aborted):
        return Ending.ABORTED
    return Ending.TIMEOUT if isinstance(error, EnvTimeout | TimeoutError) else Ending.ENV_ERROR


async def _timed(call: Awaitable[T], seconds: float, what: str) -> tuple[T, float]:
    """The result of a world's call and how long it took.

    Raises:
        EnvTimeout: it took longer than ``seconds``.
    """
    start = time.monotonic()
    try:
        async with asyncio.timeout(seconds):
            result = await call
    except TimeoutError as error:
        raise EnvTimeout(f"{what} took longer than {seconds:g} s") from error
    return result, time.monotonic() - start


async def _close(world: TextEnv, seconds: float) -> None:
    """Close a session. One that cannot be closed does not undo the episode that was played in it."""
    try:
        await _timed(world.close(), seconds, "close")
    except EnvError as error:
        log.warning("a session of %s was left open: %s", world.spec.name, error)
