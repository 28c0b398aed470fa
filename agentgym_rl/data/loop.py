"""The episode loop: world <-> conversation, one asyncio task an episode."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentgym_rl.data.conversation import Conversation
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.data.settings import RolloutSettings
from agentgym_rl.envs.actions import InvalidAction, parse_react
from agentgym_rl.envs.core import EnvError, EnvTimeout, Message, Observation, Step, Task, TaskNotFound, TextEnv

T = TypeVar("T")


class Aborted(EnvError):
    """The LLM server dropped the request (a pause of generation)."""


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


async def _attempt(
    world: TextEnv, task: Task, conversation: Conversation, settings: RolloutSettings, horizon: int
) -> Episode:
    """Play one attempt.

    Raises:
        EnvError: the infrastructure failed; the attempt says nothing about the agent.
    """
    spec = world.spec
    messages: list[Message] = spec.conversation_start(world.style)
    first, _ = await _timed(world.reset(task), settings.step_seconds, f"reset of {task}")
    messages.append({"role": "user", "content": first.text})
    await conversation.start(messages)

    turns: list[Turn] = []
    ending = Ending.TURN_LIMIT
    invalid_in_a_row = 0
    for number in range(horizon):
        started = time.monotonic()
        reply = await conversation.reply()
        model_s = time.monotonic() - started
        if reply is None:
            ending = Ending.CONTEXT_LIMIT
            break
        if reply.aborted:
            raise Aborted(f"the LLM server aborted turn {number + 1} of {task}")
        messages.append({"role": "assistant", "content": reply.text})

        action = parse_react(reply.text)
        world_s = 0.0
        if isinstance(action, InvalidAction):
            command = None
            step = Step(Observation(action.observation), 0.0, terminated=False, info={"invalid": True})
        else:
            command = action.command
            step, world_s = await _timed(world.step(command), settings.step_seconds, f"step {command!r} of {task}")
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
                log_prob=reply.log_prob,
                model_s=model_s,
                world_s=world_s,
            )
        )
        if step.terminated:
            ending = Ending.TERMINATED
            break
        if step.truncated or number + 1 == horizon:
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
        success=spec.success(reward),
        horizon=horizon,
        messages=messages,
        turns=turns,
        prompt_tokens=conversation.prompt_tokens,
        response_tokens=conversation.response_tokens,
    )


async def play(
    make_world: Callable[[], TextEnv],
    task: Task,
    make_conversation: Callable[[], Conversation],
    settings: RolloutSettings,
    horizon: int | None = None,
) -> tuple[Episode, Conversation]:
    """Play one episode, again from the start when the infrastructure fails.

    ``horizon`` is the turn limit of this episode; without it ``settings.max_turns``, then the world's own. The
    conversation of the last attempt is returned beside the episode: its tokens are what is learnt from.

    Raises:
        TaskNotFound: the task does not exist (not retried).
        ContextTooSmall: the prompt does not fit (not retried).
    """
    for attempt in range(1, settings.retries + 2):
        world = make_world()
        conversation = make_conversation()
        turns = horizon or settings.max_turns or world.spec.max_turns
        try:
            async with asyncio.timeout(settings.episode_seconds):
                episode = await _attempt(world, task, conversation, settings, turns)
        except TaskNotFound:
            raise
        except (EnvError, TimeoutError) as error:
            ending = (
                Ending.ABORTED
                if isinstance(error, Aborted)
                else Ending.TIMEOUT
                if isinstance(error, EnvTimeout | TimeoutError)
                else Ending.ENV_ERROR
            )
            episode = Episode(
                env=task.env,
                item_id=str(task),
                ending=ending,
                reward=0.0,
                success=False,
                horizon=turns,
                error=f"{type(error).__name__}: {error or f'episode took longer than {settings.episode_seconds:g} s'}",
            )
        finally:
            await world.close()
        episode.attempts = attempt
        if episode.ending.counts:
            break
    return episode, conversation
