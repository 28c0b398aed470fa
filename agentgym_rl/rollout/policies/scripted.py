"""Policies without a model: the oracle, random actions, a person who types, and a function."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import zip_longest

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.core import EnvFault, EnvTimeout, EnvUnavailable, Message, OracleUnavailable, Step, Task, TextEnv
from agentgym_rl.envs.formats import Parse, write
from agentgym_rl.rollout.conversation import PolicyStopped, Respond, Scripted
from agentgym_rl.rollout.loop import Watch, failed, run_attempt, run_episode, turn_limit, unsolved
from agentgym_rl.rollout.policies.base import Policy
from agentgym_rl.rollout.settings import RolloutSettings

SIMPLE_COMMANDS = ("look", "inventory", "go forward", "turn left", "turn right", "check available actions")
"""What the random policy tries where an environment does not list its actions."""


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
    """Chooses uniformly among the actions that the environment lists.

    Args:
        seed: of the choices, beside task and sample; None leaves it out.
    """

    name = "random"

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed

    async def run(
        self, env: TextEnv, task: Task, settings: RolloutSettings, sample: int = 0, watch: Watch | None = None
    ) -> Episode:
        parts = (self.seed, task, sample or None)
        script = RandomScript(" ".join(str(part) for part in parts if part is not None), env, settings.action_format)

        def both(action: str | None, step: Step) -> None:
            script.watch(action, step)
            if watch is not None:
                watch(action, step)

        episode, _ = await run_episode(lambda: env, task, lambda: Scripted(script), settings, watch=both)
        return episode


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
        respond: gives the response to the messages so far.
    """

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.name = getattr(respond, "__name__", type(respond).__name__)

    async def run(
        self, env: TextEnv, task: Task, settings: RolloutSettings, sample: int = 0, watch: Watch | None = None
    ) -> Episode:
        episode, _ = await run_episode(lambda: env, task, lambda: Scripted(self.respond), settings, watch=watch)
        return episode


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
        said = next(self._said, None)
        if said is None:
            raise PolicyStopped
        command, thought = said
        return to_response(command, self._env, self._format, thought)


class RandomScript:
    """Chooses uniformly among the listed actions, which :meth:`watch` receives."""

    def __init__(self, seed: str, env: TextEnv, action_format: ActionFormat = ActionFormat.react) -> None:
        self._rng = random.Random(seed)
        self._env = env
        self._format = action_format
        self._possible: Sequence[str] = SIMPLE_COMMANDS

    def __call__(self, messages: list[Message]) -> str:
        return to_response(self._rng.choice(self._possible), self._env, self._format)

    def watch(self, action: str | None, step: Step) -> None:
        self._possible = step.observation.actions or SIMPLE_COMMANDS


def to_response(command: str, env: TextEnv, action_format: ActionFormat = ActionFormat.react, thought: str = "") -> str:
    """A command as a response in the environment's style."""
    if not thought and env.style == "agentgym":
        thought = f"My next action is: {command}."
    return write(env.spec, action_format, command, thought)
