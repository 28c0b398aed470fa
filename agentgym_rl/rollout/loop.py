"""The episode loop: an environment and a conversation take turns, one asyncio task per episode."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.envs.actions import Action, InvalidAction
from agentgym_rl.envs.bounds import cut, encodable
from agentgym_rl.envs.core import EnvError, EnvFault, EnvTimeout, Observation, Step, Task, TextEnv
from agentgym_rl.envs.formats import ECHO, Parse, guarded, opening, reader
from agentgym_rl.rollout.conversation import Conversation, NoFurtherEpisode, NoResponse, PromptTooLong, Response
from agentgym_rl.rollout.prompts import Prompts
from agentgym_rl.rollout.settings import RolloutSettings

log = logging.getLogger(__name__)

T = TypeVar("T")
C = TypeVar("C", bound=Conversation)

Watch = Callable[[str | None, Step], None]
"""Called with the first observation (as a step without action), then with every action and the step it led to."""


class Aborted(EnvError):
    """The LLM server dropped the request (generation was paused)."""


async def run_episode(
    make_env: Callable[[], TextEnv],
    task: Task,
    make_conversation: Callable[[], C],
    settings: RolloutSettings,
    max_turns: int | None = None,
    parse: Parse | None = None,
    watch: Watch | None = None,
    preface: str = "",
) -> tuple[Episode, C | None]:
    """Run one episode, again from the start in a fresh session when anything but the agent fails.

    Whatever is raised, an episode comes back: what it was, is its ``error``, and its ending does not count. Only a
    prompt that does not fit is not tried again. Arguments are those of :func:`run_attempt`.

    Returns:
        The episode, and the conversation of its last attempt, whose tokens are trained on; None where the attempt
        failed before it had one.

    Raises:
        NoFurtherEpisode: the policy has no further response, or must not be asked again.
    """
    for number in range(1, settings.retries + 2):
        conversation, env, limit = None, None, max_turns or settings.max_turns or 0
        clock = asyncio.timeout(settings.episode_seconds)
        try:
            async with clock:
                env = opened(make_env, task)
                limit = turn_limit(env, settings, max_turns)
                conversation = make_conversation()
                episode = await run_attempt(env, task, conversation, settings, max_turns, parse, watch, preface)
        except NoFurtherEpisode:
            raise
        except Exception as error:  # noqa: BLE001 - every episode that is asked for is counted
            late = TimeoutError(f"episode took longer than {settings.episode_seconds:g} s")
            episode = failed(task, limit, late if clock.expired() else error)
        finally:
            if env is not None:
                await close(env, settings.step_seconds)
        episode.attempts = number
        if episode.ending.counts or episode.ending is Ending.PROMPT_LIMIT:
            break
    return episode, conversation


async def run_attempt(
    env: TextEnv,
    task: Task,
    conversation: Conversation,
    settings: RolloutSettings,
    max_turns: int | None = None,
    parse: Parse | None = None,
    watch: Watch | None = None,
    preface: str = "",
) -> Episode:
    """Run one episode once in an open session, which stays open.

    A response that cannot be read uses up a turn; the environment is not called, and the agent reads why. The same
    holds where the parser itself fails, which the turn records as its ``fault``.

    Args:
        max_turns: turn limit of this episode; without it ``settings.max_turns``, then the environment's own.
        parse: reads an action from a response; by default that of the environment and ``settings.action_format``.
        preface: text before the first observation (:class:`agentgym_rl.rollout.prompts.Prompts`).

    Raises:
        EnvError: the infrastructure failed; the attempt does not count.
        ContextTooSmall: the prompt does not fit.
        NoFurtherEpisode: the policy has no further response, or must not be asked again.
        ValueError: see :func:`check_rules`.
    """
    limit = turn_limit(env, settings, max_turns)
    start = opening(env.spec, env.style, settings.action_format)
    prompts = Prompts(env, settings, preface)
    parse = guarded(parse) if parse else reader(env.spec, settings.action_format)
    began, clock = time.time(), time.monotonic()
    first, reset_s = await timed(env.reset(task), settings.step_seconds, f"reset of {task}")
    if watch:
        watch(None, Step(first, 0.0, terminated=False))
    messages = [*start, prompts.message(first)]
    await conversation.start(messages, parse)

    turns: list[Turn] = []
    ending, reason = Ending.TURN_LIMIT, None
    invalid_in_a_row = 0
    while True:
        started = time.monotonic()
        try:
            response = await conversation.respond()
        except NoResponse as error:
            ending, reason = error.ending, encodable(str(error))
            break
        model_s = time.monotonic() - started
        if response is None:
            ending = Ending.CONTEXT_LIMIT
            break
        if response.aborted:
            raise Aborted(f"the LLM server aborted turn {len(turns) + 1} of {task}")
        messages.append({"role": "assistant", "content": response.text})

        action, step, parse_s, env_s = await _act(env, task, response, parse, settings)
        turn = turn_of(response, action, step)
        if watch:
            watch(response.text if turn.action is None else turn.action, step)
        turn.began_s, turn.model_s, turn.parse_s, turn.env_s = started - clock, model_s, parse_s, env_s
        turns.append(turn)
        invalid_in_a_row = invalid_in_a_row + 1 if turn.invalid else 0
        if step.terminated:
            ending = Ending.TERMINATED
            break
        if step.truncated or len(turns) == limit:
            break
        if settings.invalid_limit is not None and invalid_in_a_row >= settings.invalid_limit:
            ending = Ending.INVALID_LIMIT
            break
        message = prompts.message(step.observation, turn.action or "")
        added = conversation.restart([*start, message]) if prompts.whole else conversation.observe(message["content"])
        if not await added:
            ending = Ending.CONTEXT_LIMIT
            break
        messages.append(message)

    reward = sum(turn.reward for turn in turns)
    return Episode(
        env=task.env,
        item_id=str(task),
        ending=ending,
        reward=reward,
        success=env.spec.success(reward),
        max_turns=limit,
        messages=messages,
        preface=preface,
        turns=turns,
        began=began,
        reset_s=reset_s,
        prompt_tokens=conversation.prompt_tokens,
        response_tokens=conversation.response_tokens,
        error=reason,
    )


def check_rules(env: TextEnv, settings: RolloutSettings) -> None:
    """Check that the rules suit an environment.

    Raises:
        ValueError: the turn limit is less than 1, the environment has no such action format, or its wording another
            context.
    """
    turn_limit(env, settings)
    opening(env.spec, env.style, settings.action_format)
    Prompts(env, settings)


def turn_limit(env: TextEnv, settings: RolloutSettings, max_turns: int | None = None) -> int:
    """``max_turns``, or else the settings' limit, or else the environment's own.

    Raises:
        ValueError: it is less than 1.
    """
    limits = (max_turns, settings.max_turns, env.spec.max_turns)
    limit = next(limit for limit in limits if limit is not None)
    if limit < 1:
        raise ValueError(f"max_turns is {limit}; give at least 1")
    return limit


def unsolved(task: Task, limit: int, ending: Ending = Ending.TURN_LIMIT, error: str | None = None) -> Episode:
    """An episode without turns."""
    told = None if error is None else encodable(error)
    return Episode(
        env=task.env, item_id=str(task), ending=ending, reward=0.0, success=False, max_turns=limit, error=told
    )


def failed(task: Task, limit: int, error: BaseException) -> Episode:
    """An episode without turns that an exception ended; one that nothing else reports is logged."""
    ending = ending_of(error)
    if ending is Ending.ROLLOUT_ERROR:
        log.error("the rollout of %s failed", task, exc_info=error)
    return unsolved(task, limit, ending, f"{type(error).__name__}: {error}")


def opened(make_env: Callable[[], TextEnv], task: Task) -> TextEnv:
    """The environment of a task.

    Raises:
        EnvError: it cannot be made; an :class:`EnvFault` where its constructor raised anything else.
    """
    try:
        return make_env()
    except EnvError:
        raise
    except Exception as error:  # one environment must not end a run
        log.exception("a bug of the environment: %s could not be made", task.env)
        raise EnvFault(f"the environment of {task} could not be made: {type(error).__name__}: {error}") from error


async def _act(
    env: TextEnv, task: Task, response: Response, parse: Parse, settings: RolloutSettings
) -> tuple[Action | InvalidAction, Step, float, float]:
    """What a response is read as, the step that it leads to, and the seconds for the one and the other."""
    begun = time.monotonic()
    action = parse(response.text)
    parse_s = time.monotonic() - begun
    if isinstance(action, InvalidAction):
        refused = Step(Observation(action.observation), 0.0, terminated=False, info={"invalid": True})
        return action, refused, parse_s, 0.0
    what = f"step {cut(action.command, ECHO)!r} of {task}"
    step, env_s = await timed(env.step(action.command), settings.step_seconds, what)
    return action, step, parse_s, env_s


def turn_of(response: Response, action: Action | InvalidAction, step: Step) -> Turn:
    """The record of a response, of what it was read as and of what that led to."""
    well_formed = action.well_formed if isinstance(action, Action) else None
    return Turn(
        response=response.text,
        action=action.command if isinstance(action, Action) else None,
        fault=None if isinstance(action, Action) else action.fault,
        observation=step.observation.text,
        reward=step.reward,
        invalid=bool(step.info.get("invalid")) if well_formed is None else not well_formed,
        tokens=response.span,
        segment=response.segment,
        notes=response.notes,
        log_prob=response.log_prob,
        pieces=list(response.pieces),
        log_probs=list(response.log_probs),
        calls=response.calls,
        finish_reason=response.finish_reason,
    )


def ending_of(error: BaseException) -> Ending:
    """The ending of an episode in which this was raised."""
    match error:
        case Aborted():
            return Ending.ABORTED
        case EnvTimeout() | TimeoutError():
            return Ending.TIMEOUT
        case EnvError():
            return Ending.ENV_ERROR
        case PromptTooLong():
            return Ending.PROMPT_LIMIT
    return Ending.ROLLOUT_ERROR


async def timed(call: Awaitable[T], seconds: float, what: str) -> tuple[T, float]:
    """The result of an environment's call and the seconds it took.

    Raises:
        EnvTimeout: it took longer than ``seconds``.
        EnvFault: it raised anything but an :class:`EnvError`.
    """
    start, clock = time.monotonic(), asyncio.timeout(seconds)
    try:
        async with clock:
            result = await call
    except EnvError:
        raise
    except Exception as error:  # one action must not end a run
        if isinstance(error, TimeoutError) and clock.expired():
            raise EnvTimeout(f"{what} took longer than {seconds:g} s") from error
        log.exception("a bug of the environment: %s failed", what)
        raise EnvFault(f"{what} failed: {type(error).__name__}: {error}") from error
    return result, time.monotonic() - start


async def close(env: TextEnv, seconds: float = RolloutSettings.step_seconds) -> None:
    """Close a session. A failure to close does not undo the episodes that ran in it."""
    try:
        await timed(env.close(), seconds, "close")
    except EnvError as error:
        log.warning("a session of %s was left open: %s", env.spec.name, error)
