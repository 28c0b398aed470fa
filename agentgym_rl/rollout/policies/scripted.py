"""Policies without a model: the oracle, random actions, a person who types, and a function."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import zip_longest
from weakref import WeakKeyDictionary

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.core import (
    EnvFault,
    EnvTimeout,
    EnvUnavailable,
    Message,
    OracleUnavailable,
    Step,
    Task,
    TextEnv,
    in_thread,
)
from agentgym_rl.envs.formats import Parse, write
from agentgym_rl.rollout.conversation import NoFurtherEpisode, PolicyStopped, Respond, Scripted
from agentgym_rl.rollout.loop import Watch, failed, run_attempt, run_episode, turn_limit, unsolved
from agentgym_rl.rollout.policies.base import Policy
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.texts import Written

OTHERS = 16
"""Tasks whose solutions the random policy draws from where an environment does not list its actions."""


class NoActions(NoFurtherEpisode, ValueError):
    """There is nothing that the random policy could choose from."""


class Oracle(Policy):
    """Follows the environment's own solution. A task without one gives an unsolved episode without messages,
    whose ``error`` says why. An oracle that plays to find its way may meet a failure of the infrastructure, which is no
    unsolved task; it tries again."""

    name = "oracle"

    async def run(
        self, env: TextEnv, task: Task, settings: RolloutSettings, sample: int = 0, watch: Watch | None = None
    ) -> Episode:
        limit = turn_limit(env, settings)
        for number in range(1, settings.retries + 2):
            try:
                commands, thoughts = env.oracle(task), env.thoughts(task)
                break
            except OracleUnavailable as error:
                return unsolved(task, limit, error=str(error))
            except (EnvUnavailable, EnvTimeout, EnvFault) as error:
                episode = failed(task, limit, error)
                episode.attempts = number
        else:
            return episode
        if not commands:
            return unsolved(task, limit)

        def converse() -> Scripted:  # an episode that is run again begins with the first command
            return Scripted(OracleScript(commands, env, settings.action_format, thoughts))

        episode, _ = await run_episode(lambda: env, task, converse, settings, min(limit, len(commands)), watch=watch)
        return episode


class Random(Policy):
    """Chooses uniformly among the actions that the environment lists; where it lists none, among the commands of its
    oracle in other tasks.

    Args:
        seed: of the choices, beside task and sample; None leaves it out.
    """

    name = "random"

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        self._solutions: WeakKeyDictionary[TextEnv, dict[Task, list[str]]] = WeakKeyDictionary()

    async def run(
        self, env: TextEnv, task: Task, settings: RolloutSettings, sample: int = 0, watch: Watch | None = None
    ) -> Episode:
        """See :meth:`Policy.run`.

        Raises:
            NoActions: the environment lists no actions, and has no oracle.
        """
        parts = (self.seed, task, sample or None)
        seed = " ".join(str(part) for part in parts if part is not None)
        script = RandomScript(seed, env, settings.action_format, lambda: self._commands(env, task))

        def converse() -> Scripted:  # an episode that is run again draws the same
            script.begin()
            return Scripted(script)

        def both(action: str | None, step: Step) -> None:
            script.watch(action, step)
            if watch is not None:
                watch(action, step)

        episode, _ = await run_episode(lambda: env, task, converse, settings, watch=both)
        return episode

    def _commands(self, env: TextEnv, task: Task) -> list[str]:
        """What solves other tasks."""
        if env not in self._solutions:
            self._solutions[env] = _solutions(env)
        commands = [command for other, steps in self._solutions[env].items() if other != task for command in steps]
        if not commands:
            raise NoActions(
                f"{env.spec.name} lists no actions and has no oracle, so that there is nothing to choose from; give "
                "another policy than random"
            )
        return commands


class Human(Policy):
    """Asks a person, or a program that types.

    Args:
        ask: gives the next line; raises :class:`PolicyStopped` when there is none.
        parse: reads a line; None reads it as a response in the settings' action format.
    """

    name = "human"

    def __init__(self, ask: Respond, parse: Parse | None) -> None:
        self.ask, self.parse = ask, parse

    async def run(
        self, env: TextEnv, task: Task, settings: RolloutSettings, sample: int = 0, watch: Watch | None = None
    ) -> Episode:
        """One attempt: a person does not repeat an episode. Infrastructure failures are raised."""
        return await run_attempt(env, task, Scripted(self.ask), settings, parse=self.parse, watch=watch)


class Function(Policy):
    """Asks a function for each response; it may ask any model.

    Args:
        respond: gives the response to the messages so far; called in a thread, by as many episodes at once as run.
    """

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.name = getattr(respond, "__name__", type(respond).__name__)  # an object has no name

    async def run(
        self, env: TextEnv, task: Task, settings: RolloutSettings, sample: int = 0, watch: Watch | None = None
    ) -> Episode:
        preface = self.preface(env, task)
        episode, _ = await run_episode(
            lambda: env, task, lambda: Scripted(self.respond, threaded=True), settings, watch=watch, preface=preface
        )
        return episode

    async def write(self, messages: Sequence[Message], *, seed: int, temperature: float, max_tokens: int) -> Written:
        """See :meth:`Policy.write`; the function takes no parameters of a model."""
        return Written(await in_thread(self.respond, list(messages)))


class OracleScript:
    """Gives the commands one after the other, then stops.

    In the ``agentgym`` style each response has a thought, as trajectories of that style do; where the environment has
    none for its command, one that claims nothing beyond the command itself.

    Args:
        thoughts: of the environment, one for each command; "", and all that are missing, are none.
    """

    def __init__(
        self,
        commands: Sequence[str],
        env: TextEnv,
        action_format: ActionFormat = ActionFormat.react,
        thoughts: Sequence[str] = (),
    ) -> None:
        self._said = zip_longest(commands, thoughts, fillvalue="")
        self._env = env
        self._format = action_format

    def __call__(self, messages: list[Message]) -> str:
        step = next(self._said, None)
        if step is None:
            raise PolicyStopped
        command, thought = step
        return to_response(command, self._env, self._format, thought)


class RandomScript:
    """Chooses uniformly among the listed actions, which :meth:`watch` receives.

    Args:
        unlisted: gives the commands to choose from where none are listed.
    """

    def __init__(
        self, seed: str, env: TextEnv, action_format: ActionFormat, unlisted: Callable[[], Sequence[str]]
    ) -> None:
        self._seed = seed
        self._env = env
        self._format = action_format
        self._unlisted = unlisted
        self.begin()

    def begin(self) -> None:
        """Draw from the start again."""
        self._rng = random.Random(self._seed)
        self._listed: Sequence[str] | None = None

    def __call__(self, messages: list[Message]) -> str:
        return to_response(self._rng.choice(self._listed or self._unlisted()), self._env, self._format)

    def watch(self, action: str | None, step: Step) -> None:
        self._listed = step.observation.actions


def _solutions(env: TextEnv) -> dict[Task, list[str]]:
    """The oracle's commands in some tasks of the first split, the same ones in every process."""
    name, indices = env.spec.name, next(iter(env.spec.splits.values()))
    drawn = random.Random(f"solutions of {name}").sample(range(len(indices)), min(OTHERS, len(indices)))
    solutions: dict[Task, list[str]] = {}
    for task in (Task(name, indices[place]) for place in drawn):
        with suppress(OracleUnavailable):
            solutions[task] = env.oracle(task)
    return solutions


def to_response(command: str, env: TextEnv, action_format: ActionFormat = ActionFormat.react, thought: str = "") -> str:
    """A command as a response in the environment's style."""
    if not thought and env.style != "compact":
        thought = f"My next action is: {command}."
    return write(env.spec, action_format, command, thought)
