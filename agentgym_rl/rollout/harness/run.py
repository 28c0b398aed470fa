"""One episode of a harness.

Who is at fault when a harness ends badly, in this order:

* The model or the gateway failed, the time was up, a signal from outside ended the harness (such as ``kill -9`` or the
  system's out-of-memory killer), it could not be started, or it ended before it had a reply of the model: the
  infrastructure. The episode runs again, and does not count if that happens each time.
* A limit of turns or tokens was its last answer: the episode ends there and counts, with the reward of its grader or 0.
* It exits with another status than 0, or a fault of its own ends it (SIGSEGV, SIGABRT): the harness. Reward 0, and it
  counts.
* It exits with 0, and neither told a reward nor has a grader: the infrastructure, which has to give one of them.

A reward that was told counts, however the program ends.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.envs.core import EnvFault, EnvTimeout, EnvUnavailable, Task, TextEnv
from agentgym_rl.envs.extras import check_posix
from agentgym_rl.envs.registry import base_name
from agentgym_rl.rollout.conversation import NoFurtherEpisode, PromptTooLong
from agentgym_rl.rollout.gateway.chat import Chat
from agentgym_rl.rollout.gateway.plain import plain
from agentgym_rl.rollout.gateway.server import Gateway
from agentgym_rl.rollout.gateway.session import Limits, Session
from agentgym_rl.rollout.harness import process
from agentgym_rl.rollout.harness.grade import grade
from agentgym_rl.rollout.harness.process import MARK, Exit
from agentgym_rl.rollout.harness.settings import Harness
from agentgym_rl.rollout.harness.shared import SharedGateway
from agentgym_rl.rollout.loop import failed, unsolved
from agentgym_rl.rollout.settings import RolloutSettings

MAX_TASK = 100_000
"""Most characters of a task: a process takes no longer variable."""
OWN_FAULTS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS)
"""Signals that a program's own errors end it with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One episode to run."""

    task: Task
    max_turns: int
    """Most replies of the model."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the harness is told beside the item id: any JSON."""
    sample: int = 0
    """Its number among the episodes of the task."""
    success_above: float = 0.5
    """The episode is a success when its reward is greater than this."""


def assignment(env: TextEnv, task: Task, max_turns: int, sample: int = 0, preface: str = "") -> Assignment:
    """An episode of an environment's task, which the harness plays by itself.

    Args:
        preface: text of an algorithm's that the harness shall give the model first.
    """
    facts = {**env.briefing(task), **({"preface": preface} if preface else {})}
    return Assignment(
        task=task, max_turns=max_turns, facts=facts, sample=sample, success_above=env.spec.success_above
    )  # fmt: skip


async def run_harness(
    harness: Harness,
    assignment: Assignment,
    settings: RolloutSettings,
    shared: SharedGateway,
    make_chat: Callable[[], Chat],
) -> tuple[Episode, Chat]:
    """Run one episode, again in a new session when anything but the harness fails.

    Args:
        settings: ``max_new_tokens``, ``episode_seconds`` and ``retries`` hold for a harness, too.
        make_chat: makes the model's side of an attempt.

    Returns:
        The episode, and the chat of its last attempt, whose segments are learned from.

    Raises:
        NoFurtherEpisode: the model must not be asked again.
    """
    check_posix("a harness", "run it there, or in WSL")
    for number in range(1, settings.retries + 2):
        chat = make_chat()
        try:
            episode = await _attempt(harness, assignment, settings, await shared.opened(), chat)
        except NoFurtherEpisode:
            raise
        except Exception as error:  # noqa: BLE001 - every episode that is asked for is counted
            episode = failed(assignment.task, assignment.max_turns, error)
        episode.attempts = number
        if episode.ending.counts or episode.ending is Ending.PROMPT_LIMIT:
            break
    return episode, chat


async def _attempt(
    harness: Harness, assignment: Assignment, settings: RolloutSettings, gateway: Gateway, chat: Chat
) -> Episode:
    """One attempt at an episode.

    Raises:
        Exception: what failed outside the harness.
    """
    limits = Limits(
        max_turns=assignment.max_turns, max_tokens=harness.max_tokens, max_new_tokens=settings.max_new_tokens
    )
    session, seconds = gateway.open(chat, limits), settings.episode_seconds
    try:
        with TemporaryDirectory(prefix="agentgym-rl-", ignore_cleanup_errors=True) as place:
            folder = Path(place, "episode")
            folder.mkdir()
            env = variables(harness, assignment, gateway, session)
            exit = await process.run(harness.words, folder, env, seconds, harness.memory_mb, session.over)
            session.over.set()  # a grader asks the model nothing
            blame(exit, session, seconds, gateway.serving)
            reward = session.reward
            if reward is None and (exit.status == 0 or session.stopped is not None):
                reward = await grade(harness, _task(assignment), folder, env)
    finally:
        gateway.close(session)
        chat.close()
    crashed = exit.status != 0 and session.reward is None and session.stopped is None
    if reward is None and not crashed and session.stopped is None:
        raise EnvFault(
            "the harness ended without a reward: post one to $AGENTGYM_REWARD_URL, or give harness.grade_function, "
            f"grade_command or grade_file{_said(exit)}"
        )
    ending = Ending.TERMINATED if session.stopped is None or session.reward is not None else session.stopped
    error = f"the harness exited with status {exit.status}{_said(exit)}" if crashed else None
    return episode_of(session, assignment, ending, reward or 0.0, error)


def blame(exit: Exit, session: Session, seconds: float, serving: bool) -> None:
    """Raise what failed outside the harness, where that is why it ended.

    Raises:
        BaseException: what the model failed with.
        EnvTimeout: the time was up.
        PromptTooLong: the model never replied, as the conversation was too long.
        EnvUnavailable: the gateway's server has ended, or the program was ended from outside, could not be started, or
            never had a reply.
    """
    if session.reward is not None and session.turns:
        return
    if session.failure is not None:
        raise session.failure
    if not serving:
        raise EnvUnavailable("the gateway's server ended during the episode")
    if exit.late:
        raise EnvTimeout(f"the harness took longer than {seconds:g} s{_said(exit)}")
    if session.reward is not None and session.stopped is None:
        raise EnvUnavailable("the harness told a reward, but never had a reply of the model; ask for one first")
    if session.reward is None and exit.status < 0 and -exit.status not in OWN_FAULTS:
        raise EnvUnavailable(f"signal {-exit.status} from outside ended the harness{_said(exit)}")
    if not session.turns and session.stopped is Ending.CONTEXT_LIMIT:
        raise PromptTooLong("the first request of the harness does not fit into the model's context")
    if not session.turns and session.stopped is None:
        raise EnvUnavailable(f"the harness ended with status {exit.status} before the model had replied{_said(exit)}")


def variables(harness: Harness, assignment: Assignment, gateway: Gateway, session: Session) -> dict[str, str]:
    """The environment of a harness's process.

    Raises:
        ValueError: the task is too long.
    """
    task = json.dumps(_task(assignment))
    if len(task) > MAX_TASK:
        raise ValueError(f"the facts of {assignment.task} have {len(task)} characters; give at most {MAX_TASK}")
    address, apart = gateway.address(session), os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    of_session = {
        "AGENTGYM_TASK": task,
        "AGENTGYM_BASE_URL": f"{address}/v1",
        "AGENTGYM_KEY": session.key,
        "AGENTGYM_URL_WITH_KEY": gateway.address(session, with_key=True),
        "AGENTGYM_REWARD_URL": f"{address}/reward",
        "OPENAI_BASE_URL": f"{address}/v1",
        "OPENAI_API_KEY": session.key,
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": session.key,
        MARK: session.id,
    }
    proxies = dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(filter(None, (apart, "127.0.0.1,localhost,::1"))))
    return {**os.environ, **proxies, **harness.env, **of_session}


def episode_of(session: Session, assignment: Assignment, ending: Ending, reward: float, error: str | None) -> Episode:
    """The record of a session. Its turns are the model's replies in their order, whatever branch they belong to."""
    if not session.turns:
        return unsolved(assignment.task, assignment.max_turns, ending, error)
    texts = [_text(session, turn) for turn in range(len(session.turns))]
    turns: list[Turn] = session.turns
    for turn, observation in zip(turns, [*texts[1:], ""], strict=False):
        turn.observation = observation
    turns[-1].reward = reward
    messages = [{"role": "user", "content": texts[0]}]
    for turn in turns:
        messages += [{"role": "assistant", "content": turn.response}, {"role": "user", "content": turn.observation}]
    segments = session.chat.segments
    return Episode(
        env=assignment.task.env,
        item_id=str(assignment.task),
        ending=ending,
        reward=reward,
        success=reward > assignment.success_above,
        max_turns=assignment.max_turns,
        messages=messages[:-1],
        turns=turns,
        prompt_tokens=sum(len(segment.prompt_ids) for segment in segments),
        response_tokens=sum(len(segment.response_ids) for segment in segments),
        began=session.began,
        error=error,
    )


def _text(session: Session, turn: int) -> str:
    """What the model was told since its last message, in words."""
    return "\n\n".join(message["content"] for message in plain(session.shown[turn]))


def _task(assignment: Assignment) -> dict[str, Any]:
    """What the harness is told; the task's id is the environment's own, whatever part of a run it belongs to."""
    base_task = Task(base_name(assignment.task.env), assignment.task.index)
    return {**assignment.facts, "item_id": str(base_task), "sample": assignment.sample}


def _said(exit: Exit) -> str:
    return f"; its output ends with: {exit.output}" if exit.output else ""
