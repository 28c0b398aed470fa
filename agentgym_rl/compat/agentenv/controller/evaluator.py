"""Evaluating an agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym_rl.compat.agentenv.controller.task import BaseTask, Speaker
from agentgym_rl.compat.agentenv.controller.types import EvaluationOutput, ExperienceOutput

Indices = Sequence[int] | Sequence[Sequence[int]]
"""Tasks of the first environment, or of each environment."""

FULL = (1, 100)
"""Rewards that AgentGym counts as success."""


class BaseAgentEnvController:
    """An agent, and the tasks it plays."""

    def __init__(self, agent: Speaker, tasks: Sequence[BaseTask]) -> None:
        self.agent = agent
        self.tasks = tasks

    def generate_experience(
        self, idxs: Indices | None = None, generation_config: Any = None, max_rounds: int | None = None
    ) -> list[ExperienceOutput]:
        """Play tasks; all of them where none are named.

        Raises:
            ValueError: tasks are named for another number of environments than there are.
        """
        of_each = [range(task.len) for task in self.tasks] if idxs is None else _of_each(idxs)
        one_list = idxs is not None and all(isinstance(idx, int) for idx in idxs)
        tasks = self.tasks[:1] if one_list else self.tasks
        if len(of_each) != len(tasks):
            raise ValueError(f"idxs has lists for {len(of_each)} environments, there are {len(tasks)}")
        return [
            experience
            for task, listed in zip(tasks, of_each, strict=True)
            for experience in task.generate_experience(self.agent, listed, generation_config, max_rounds)
        ]


class Evaluator(BaseAgentEnvController):
    """Plays tasks and averages."""

    def eval(
        self, generation_config: Any = None, max_rounds: int | None = None, idxs: Indices | None = None
    ) -> EvaluationOutput:
        """Play tasks and average their rewards.

        Raises:
            ValueError: there is no task.
        """
        experiences = self.generate_experience(idxs, generation_config, max_rounds)
        if not experiences:
            raise ValueError("idxs is empty; name at least one task")
        rewards = [experience.reward for experience in experiences]
        return EvaluationOutput(
            experiences=experiences,
            score=sum(rewards) / len(rewards),
            success=sum(reward in FULL for reward in rewards) / len(rewards),
        )


def _of_each(idxs: Indices) -> list[Sequence[int]]:
    whole = [idx for idx in idxs if isinstance(idx, int)]
    lists = [idx for idx in idxs if not isinstance(idx, int)]
    if whole and lists:
        raise ValueError("idxs mixes tasks and lists of tasks; give one or the other")
    return lists or [whole]
