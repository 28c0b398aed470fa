"""A taskset of verifiers (v1): tasks of our environments, which prime-rl trains on and ``vf-eval`` evaluates.

verifiers finds a taskset by the name of a package; ``examples/verifiers_taskset`` is one to install.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from agentgym_rl.envs.actions import ActionFormat, InvalidAction
from agentgym_rl.envs.core import Observation, Step, Style
from agentgym_rl.envs.core import Task as OurTask
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.formats import opening, reader
from agentgym_rl.envs.registry import make

with needs("agentgym_rl.compat.verifiers", "verifiers"):
    import verifiers.v1 as vf

__all__ = ["AgentGymEnv", "AgentGymTaskset"]


class Config(vf.TasksetConfig):  # type: ignore[misc]
    """Which tasks: ``--env.taskset.env textcraft --env.taskset.split test``."""

    env: str = "textcraft"
    """Name of the environment."""
    split: str = "train"
    style: Style = "agentgym"
    """Wording of instruction and observations."""
    action_format: ActionFormat = ActionFormat.REACT
    """How a response carries its action."""
    max_turns: int | None = Field(None, ge=1)
    """Turn limit of an episode; None is the environment's own."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the environment's class."""


class Data(vf.TaskData):  # type: ignore[misc]
    """One task."""

    env: str
    item_id: str
    style: Style
    action_format: ActionFormat
    max_turns: int | None
    options: dict[str, Any]


class AgentGymTask(vf.Task[Data]):  # type: ignore[misc]
    """A task of one of our environments."""

    @property
    def key(self) -> str:
        return str(self.data.item_id)


class AgentGymTaskset(vf.Taskset[AgentGymTask, Config]):  # type: ignore[misc]
    """The tasks of a split."""

    def load(self) -> Iterator[AgentGymTask]:
        """The tasks, in the order of the split.

        Raises:
            UnknownEnv, MissingExtra: see :func:`agentgym_rl.envs.make`.
            ValueError: there is no such split.
        """
        config = self.config
        spec = make(config.env, style=config.style, **config.options).spec
        indices = spec.indices(config.split)
        if spec.prompt is not None:
            raise ValueError(f"style={config.style} has no instruction to begin with; choose agentgym or compact")
        prompt = opening(spec, config.style, config.action_format)[0]["content"]
        same = {key: getattr(config, key) for key in ("env", "style", "action_format", "max_turns", "options")}
        for index in indices:
            item_id = str(OurTask(config.env, index))
            yield AgentGymTask(
                Data(id=item_id, name=item_id, item_id=item_id, prompt=None, system_prompt=prompt, **same), config.task
            )


class EnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """The model under evaluation or training, by default without tools and in a process of this machine."""

    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})


class AgentGymEnv(vf.Env[EnvConfig]):  # type: ignore[misc]
    """An episode: the environment speaks as the user. Its reward is ``reward``; the metric ``success`` is 0 or 1.

    An exception of the environment is an error of the episode, which verifiers retries or leaves out; it is no
    reward of 0.
    """

    async def run(self, task: AgentGymTask, agents: vf.Agents) -> None:
        data = task.data
        env = make(data.env, style=data.style, **data.options)
        parse = reader(env.spec, data.action_format)
        limit = data.max_turns or env.spec.max_turns
        total, turns = 0.0, 0
        try:
            first = await env.reset(OurTask.parse(data.item_id))
            async with agents.agent.interaction(task) as interaction:
                turn = await interaction.turn(first.text)
                while not turn.terminated:
                    action = parse(turn.last_reply)
                    if isinstance(action, InvalidAction):
                        step = Step(Observation(action.observation), 0.0, terminated=False)
                    else:
                        step = await env.step(action.command)
                    total, turns = total + step.reward, turns + 1
                    if step.done or turns >= limit:
                        break
                    turn = await interaction.turn(step.observation.text)
        finally:
            await env.close()
        interaction.trace.record_reward("reward", total)
        interaction.trace.record_metric("success", float(env.spec.success(total)))
