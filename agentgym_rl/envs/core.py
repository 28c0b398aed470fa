"""The contract of a text environment.

An environment is a :class:`TextEnv`: text comes in, text goes out. It has no notion of tokens, models, prompt templates
or turn budgets. The same :class:`Task` is the same game on every machine and in every process.

The return values of a step have Gymnasium's meaning:

* ``terminated`` - the task itself ended, solved or lost; no reward can follow.
* ``truncated`` - the environment stopped for a reason outside the task, such as its own step limit.
* ``reward`` - the reward of this one step. Rewards are in [0, 1] and so is their sum over an episode; raw scores stay
  in ``info``.
"""

from __future__ import annotations

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeVar, final

from agentgym_rl.envs import item_ids
from agentgym_rl.envs.actions import Action, ActionFormat, InvalidAction, format_react, parse_react
from agentgym_rl.envs.bounds import encodable
from agentgym_rl.envs.knobs import Knob
from agentgym_rl.envs.picture import Picture, Transcript
from agentgym_rl.envs.tools import Tool

Style = Literal["agentgym", "compact", "verl_agent"]
"""The wording of instruction and observations: AgentGym's, a brief one for small models, or verl-agent's, which only
environments that it has know (:attr:`TextEnv.styles`)."""

T = TypeVar("T")

_SLACK = 1e-6
"""By which rounding may take the sum of rewards beyond 1."""
_RULE = 'rewards are in [0, 1], and so is their sum over an episode; a raw score goes into info["raw_reward"]'

Message = dict[str, str]
"""One chat message: ``{"role": "system" | "user" | "assistant", "content": text}``."""


class EnvError(Exception):
    """Base of the failures of an environment that are not the agent's doing."""


class UnknownEnv(EnvError):
    """No environment of that name is installed."""


class MissingExtra(EnvError):
    """The environment needs a package that is not installed; the message names the pip command."""


class TaskNotFound(EnvError):
    """The item id is malformed, or the environment has no such task."""


class EnvUnavailable(EnvError):
    """The environment cannot be reached or has died. The whole episode may be retried."""


class EnvTimeout(EnvError):
    """No answer in time. The step may have happened: retry the episode, never the step."""


class EnvFault(EnvError):
    """The environment raised what it should not: a bug of it. The whole episode may be retried."""


class ProtocolError(EnvError):
    """A call out of order (a step before reset or after the end) or a malformed answer."""


class OracleUnavailable(EnvError):
    """No solving action sequence can be computed for this task."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task of one environment. ``str(task)`` is AgentGym's item id, such as ``textcraft_12``."""

    env: str
    index: int

    def __str__(self) -> str:
        return f"{self.env}_{self.index}"

    @classmethod
    def parse(cls, item_id: str) -> Task:
        """Read an item id in any of AgentGym's forms, see :func:`agentgym_rl.envs.item_ids.read`.

        Raises:
            TaskNotFound: the text is no item id.
        """
        parsed = item_ids.read(item_id)
        if parsed is None:
            raise TaskNotFound(f"{item_id!r} is not an item id; expected <env>_<integer>, such as textcraft_12")
        return cls(*parsed)


@dataclass(frozen=True, slots=True)
class Observation:
    """The text that the agent reads."""

    text: str
    actions: tuple[str, ...] | None = None
    """The actions that are possible now, where the environment can list them."""


Prompt = Callable[[Sequence[Observation], Sequence[str], int], str]
"""From all observations so far, the commands between them, and how many earlier turns to show, to a whole prompt."""


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one action. ``info["invalid"]`` is true when the environment could not carry the action out."""

    observation: Observation
    reward: float
    terminated: bool
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated


@dataclass(frozen=True, slots=True)
class Achieved:
    """A goal that commands reach in a task, other than its own."""

    goal: str
    """As :meth:`TextEnv.goal` words it."""
    upto_turn: int
    """How many of the commands it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """The facts of an environment that hold for all its tasks."""

    name: str
    instructions: Mapping[str, str]
    """The instruction in each wording that has one."""
    splits: Mapping[str, Sequence[int]]
    """Task indices of each split, frozen. ``train`` and ``test`` always exist."""
    max_turns: int
    """Default turn limit of an episode; the rollout enforces it, never the environment."""
    success_above: float
    """An episode is a success when its summed reward is greater than this (AgentGym's thresholds)."""
    tools: tuple[Tool, ...] = ()
    """The actions as functions, for function calling and code as action."""
    read: Callable[[str], Action | InvalidAction] = parse_react
    """Reads a ReAct response."""
    write: Callable[[str, str], str] = format_react
    """Writes the ReAct response that carries a command and a thought."""
    prompt: Prompt | None = None
    """Writes the prompt of each turn, where the wording has one a turn; None where observations follow each other."""
    raw_reward_range: tuple[float, float] = (0.0, 1.0)
    deterministic: bool = True
    """The same task and actions give the same observations and rewards."""
    replayable: bool = True
    """A prefix of actions can be replayed in a fresh session to reach the same state."""
    extra: str | None = None
    """The pip extra with the packages of the environment."""
    licence: str = ""
    """Licence and origin of the data."""
    repeats: str = ""
    """Why what a task shows (:meth:`TextEnv.content`) may occur in another split, too; empty where it never does."""
    official: str = ""
    """Where the tasks that AgentGym's item ids mean, or the benchmark's, come from: ``built in``, ``by file``, ``by
    server`` or both; empty where there are none. Elsewhere the same id is another task, or none."""
    other_ids: str = ""
    """What ids of AgentGym's data are here, where they are not its tasks, and what to give for those; empty where they
    are its tasks, or refused."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Splits that cannot be used where the environment runs, each with where and why: ``on http://...: ...``."""

    @property
    def action_formats(self) -> tuple[ActionFormat, ...]:
        """The formats that a response may have."""
        if self.tools and self.prompt is None:
            return tuple(ActionFormat)
        return ActionFormat.REACT, ActionFormat.TAGS

    def indices(self, split: str) -> Sequence[int]:
        """The task indices of a split.

        Raises:
            ValueError: there is no such split; names those there are.
        """
        if split not in self.splits:
            raise ValueError(f"{self.name} has no split {split!r}; its splits: {', '.join(self.splits)}")
        return self.splits[split]

    def success(self, episode_reward: float) -> bool:
        return episode_reward > self.success_above

    def instruction(self, style: Style) -> str:
        """What the agent is told before the first observation; nothing in a wording whose prompts tell all."""
        return "" if self.prompt is not None else self.instructions[style]

    def conversation_start(self, style: Style) -> list[Message]:
        """The messages that precede the first observation.

        ``agentgym`` puts the instruction in a user message that the assistant acknowledges, as AgentGym's
        trajectories do; ``compact`` puts it in the system message. There is none where prompts tell all.
        """
        if self.prompt is not None:
            return []
        if style == "compact":
            return [{"role": "system", "content": self.instructions[style]}]
        return [
            {"role": "user", "content": self.instructions[style]},
            {"role": "assistant", "content": ACKNOWLEDGEMENT},
        ]


ACKNOWLEDGEMENT = "OK. I'll follow your instructions and try my best to solve the task."
"""The assistant's fixed second message in AgentGym's conversations (a protocol constant)."""


def _checked(value: object, kind: type[T], by: str) -> T:
    """What an environment returned, which may be of another's making; raises TypeError where it is of another type."""
    if not isinstance(value, kind):
        raise TypeError(f"{by} returns {value!r:.80}; it must return a {kind.__name__}")
    return value


class TextEnv(ABC):
    """One session of an environment: reset, step until done, close. A session can be reset again, also after a close.

    :meth:`reset`, :meth:`step` and :meth:`close` enforce the order of calls. An environment writes :meth:`_reset` and
    :meth:`_step`, and :meth:`_close` where it holds something. It is found by the entry-point group
    ``agentgym_rl.envs`` and constructed by :func:`agentgym_rl.envs.make`.
    """

    name: ClassVar[str]
    styles: ClassVar[tuple[Style, ...]] = ("agentgym", "compact")
    """The wordings that it has."""
    knobs: ClassVar[tuple[Knob, ...]] = ()
    """Options that set what its tasks are like, for a mixture that searches among them."""
    _spec: EnvSpec
    _in_episode = False
    """Whether a step may follow. An environment that cannot go on after a failed step sets it to False."""
    _earned = 0.0
    """The sum of the episode's rewards before a step."""
    _pursued = ""
    """The goal that :meth:`pursue` gave; empty for the tasks' own."""

    def __init__(self, style: Style = "agentgym") -> None:
        self.check_style(style)
        self.style: Style = style

    @classmethod
    def check_style(cls, style: str) -> None:
        """Raises ValueError: the environment has no such style."""
        if style not in cls.styles:
            raise ValueError(f"{cls.name} has no style {style!r}; choose {' or '.join(cls.styles)}")

    @property
    def spec(self) -> EnvSpec:
        """The fixed facts of this environment. It sets ``_spec`` when it is made, or overrides this property."""
        return self._spec

    @final
    async def reset(self, task: Task) -> Observation:
        """Start a task afresh.

        Raises:
            TaskNotFound: the task is not one of this environment.
            EnvUnavailable, EnvTimeout: the environment cannot start it.
        """
        self._index(task)
        self._in_episode = False
        first = self._opened(_checked(await self._reset(task), Observation, f"{type(self).__name__}._reset"))
        self._in_episode, self._earned = True, 0.0
        return _encodable(first)

    @final
    async def step(self, action: str) -> Step:
        """Carry out one action. An action that the environment cannot understand is an observation, not an exception.

        Halves of surrogate pairs, in the action and in the observation, are replaced (:func:`.bounds.encodable`).

        Raises:
            ProtocolError: no task was reset, or the episode is over.
            EnvUnavailable, EnvTimeout: the environment failed.
            EnvFault: its reward, or their sum over the episode, is not in [0, 1].
        """
        return await self._guarded(self._step, action)

    @final
    async def close(self) -> None:
        """End the episode and free what the session holds. May be called twice."""
        self._in_episode = False
        await self._close()

    def quote(self, instruction: str, opening: str) -> None:
        """Speak as a conversation of AgentGym's does, in the style ``agentgym``.

        Args:
            instruction: its first message.
            opening: its third, the first that the environment says. AgentGym's clients put the rules of some
                environments there, before or in place of the first observation: see :meth:`_opened`.

        Raises:
            ValueError: the opening is not one of this environment.
        """
        self._spec = replace(self.spec, instructions={**self.spec.instructions, "agentgym": instruction})

    def _opened(self, first: Observation) -> Observation:
        """The first observation with the rules that :meth:`quote` was given."""
        return first

    @abstractmethod
    async def _reset(self, task: Task) -> Observation:
        """Start ``task``, whose ``env`` is this environment's, whatever was started before.

        Raises:
            TaskNotFound: there is no task of this index.
        """

    @abstractmethod
    async def _step(self, action: str) -> Step:
        """Carry out one action of an episode that was started and is not over."""

    async def _close(self) -> None:
        """Free what the session holds. It may hold nothing, and may be reset afterwards."""
        return None

    async def _guarded(self, step: Callable[[str], Awaitable[Step]], action: str) -> Step:
        """The result of ``step``, which is called only within an episode."""
        if not self._in_episode:
            raise ProtocolError(f"{self.spec.name}: step before reset or after the end of the episode; reset first")
        result = _checked(await step(encodable(action)), Step, f"{type(self).__name__}._step")
        if not 0 <= result.reward <= 1:
            raise EnvFault(f"{type(self).__name__}._step gives the reward {str(result.reward)[:80]}; {_RULE}")
        self._earned += result.reward
        if self._earned > 1 + _SLACK:
            raise EnvFault(f"the rewards of {type(self).__name__}._step sum to {self._earned:g}; {_RULE}")
        if result.done:
            self._in_episode = False
        observation = _encodable(result.observation)
        return result if observation is result.observation else replace(result, observation=observation)

    def _index(self, task: Task) -> int:
        """The index of a task.

        Raises:
            TaskNotFound: the task belongs to another environment.
        """
        if task.env != self.spec.name:
            raise TaskNotFound(f"{task} is not a task of {self.spec.name}")
        return task.index

    @abstractmethod
    def goal(self, task: Task) -> str:
        """The task in one line of text. Panels hash it, so that a changed environment changes the hash."""

    def briefing(self, task: Task) -> dict[str, Any]:
        """What a harness is told of a task beside its id: values of JSON. By default the goal."""
        return {"goal": self.goal(task)}

    async def content(self, task: Task) -> str:
        """What the agent can see and do in a task, as text: tasks with equal texts are one game under several ids.

        The default is the first observation, which starts the task in this session. An environment overrides it where
        that leaves out what makes games different, or has what does not, such as the order of a list. No text occurs
        in two splits, unless :attr:`EnvSpec.repeats` says why.

        Raises:
            TaskNotFound, EnvUnavailable, EnvTimeout: see :meth:`reset`.
        """
        return (await self.reset(task)).text

    @abstractmethod
    def difficulty(self, task: Task) -> str:
        """A short label to group results by, such as ``depth 2``. Cheap: called for whole splits."""

    def revision(self, task: Task) -> int:
        """Counts the games that have had this id, goal and difficulty; digests of panels hold it. 1 by default."""
        return 1

    def oracle(self, task: Task) -> list[str]:
        """Actions that solve the task.

        Raises:
            OracleUnavailable: none can be computed.
        """
        raise OracleUnavailable(f"{self.spec.name} has no oracle")

    def thoughts(self, task: Task) -> list[str]:
        """A thought for each action of :meth:`oracle`, which demonstrations have before it; "" is none.

        An empty list, the default, leaves them to the policy ``oracle``.
        """
        return []

    @property
    def relabels(self) -> bool:
        """Whether it can tell which other goals an episode reached, and play them."""
        return type(self).achieved is not TextEnv.achieved

    def achieved(self, task: Task, commands: Sequence[str]) -> Achieved | None:
        """Another goal than the task's own that commands reach in it; None where they reach none.

        Optional. An environment that has it starts its tasks with the goal of :meth:`pursue`. Under the goal found
        here, the first ``upto_turn`` commands earn success by the last one and nothing before. It needs no session, and
        leaves the present episode as it is.

        Raises:
            TaskNotFound: there is no such task.
        """
        raise NotImplementedError(f"{self.spec.name} cannot tell which goals an episode reached")

    def pursue(self, goal: str) -> None:
        """Give the tasks of this session another goal from the next reset on; all else in them stays.

        :meth:`goal` and :meth:`content` are of that goal, too. A reset raises TaskNotFound where the task cannot have
        it.

        Args:
            goal: as :meth:`achieved` gives it; empty for the tasks' own.

        Raises:
            ValueError: the environment cannot change goals (:attr:`relabels`).
        """
        if not self.relabels:
            raise ValueError(f"{self.spec.name} cannot change the goals of its tasks")
        self._pursued = goal

    def _no_such_goal(self, task: Task) -> TaskNotFound:
        """The error about a goal that :meth:`pursue` was given."""
        return TaskNotFound(f"{task} cannot have the goal {self._pursued!r}")

    def steps_left(self, task: Task, commands: Sequence[str]) -> list[float] | None:
        """Fewest commands that still solve the task: before the first of these, and after each.

        Optional; None where the environment cannot tell. 0 is solved, infinity says that nothing solves it any more. It
        needs no session, and leaves the present episode as it is.

        Raises:
            TaskNotFound: there is no such task.
        """
        return None

    @classmethod
    def pictures(cls, transcript: Transcript) -> Sequence[Picture | None]:
        """Pictures of an episode for the viewer: one before the first turn and one after each turn.

        None stands for a picture that is not known, for example of an episode of another version. An environment that
        draws nothing returns no pictures.

        Raises:
            EnvError: the episode would have to be played again for them, and the environment cannot run here.
        """
        return ()


def _encodable(observation: Observation) -> Observation:
    text = encodable(observation.text)
    return observation if text is observation.text else replace(observation, text=text)


THREADS = ThreadPoolExecutor(64, "env")
"""For all blocking environments of a process. Python's default pool is used for tokenizing, which must not wait."""


def _new_threads() -> None:
    """Start with new threads: a forked process has none of its parent's, and would wait for them for ever."""
    global THREADS
    THREADS = ThreadPoolExecutor(64, "env")


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_new_threads)


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """What a blocking call returns, made in one of :data:`THREADS`.

    Raises:
        RuntimeError: it raised StopIteration, which a future cannot hold, so that its caller would wait for ever.
    """

    def made() -> T:
        try:
            return call(*arguments)
        except StopIteration as error:
            raise RuntimeError(f"{call} raised StopIteration") from error

    return await asyncio.get_running_loop().run_in_executor(THREADS, made)


class BlockingEnv(TextEnv):
    """An environment whose code blocks. Its calls run in threads so that other episodes do not wait for them.

    A step that was given up at its time limit goes on in its thread: resets and steps of the session wait for its end,
    so that it changes no later episode. Closing waits for nothing, and may end it.
    """

    @cached_property
    def _one_call(self) -> threading.Lock:
        return threading.Lock()

    def _alone(self, call: Callable[..., T], *arguments: Any) -> T:
        with self._one_call:
            return call(*arguments)

    @abstractmethod
    def _reset_blocking(self, task: Task) -> Observation:
        """See :meth:`TextEnv._reset`."""

    @abstractmethod
    def _step_blocking(self, action: str) -> Step:
        """See :meth:`TextEnv._step`."""

    def _close_blocking(self) -> None:
        """See :meth:`TextEnv._close`."""

    async def _reset(self, task: Task) -> Observation:
        return await in_thread(self._alone, self._reset_blocking, task)

    async def _step(self, action: str) -> Step:
        return await in_thread(self._alone, self._step_blocking, action)

    async def _close(self) -> None:
        await in_thread(self._close_blocking)
