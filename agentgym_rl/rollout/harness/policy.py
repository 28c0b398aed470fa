"""A harness as a policy: what evaluates a model evaluates a harness, and its score is one number."""

from __future__ import annotations

import shlex
from functools import partial

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.core import Task, TextEnv
from agentgym_rl.rollout.gateway.texts import chat_of
from agentgym_rl.rollout.harness.run import assignment, run_harness
from agentgym_rl.rollout.harness.settings import Harness
from agentgym_rl.rollout.harness.shared import SharedGateway
from agentgym_rl.rollout.loop import Watch, turn_limit
from agentgym_rl.rollout.policies.base import Policy
from agentgym_rl.rollout.seeds import seed_of
from agentgym_rl.rollout.settings import RolloutSettings


class HarnessPolicy(Policy):
    """A harness with a model. The environment gives task, goal, turn limit and what a success is; the harness plays it
    by itself, so that the session stays unused.

    Args:
        model: a language model, behind an API or here, or a function.
        seed: of the model's sampling.

    Raises:
        ValueError: the model is a policy that reads no messages.
    """

    own_context = True
    seed: int

    def __init__(self, harness: Harness, model: Policy, seed: int = 0) -> None:
        self.harness, self.model, self.seed = harness, model, seed
        self.name = f"{harness.function or shlex.join(harness.command)} with {model.name}"
        self.weights = " ".join(filter(None, [model.weights, harness.digest]))
        self.usage, self.backend, self.temperature = model.usage, model.backend, model.temperature
        self.prompt_tokens, self.response_tokens = model.prompt_tokens, model.response_tokens
        self.prompts, self.exemplars = model.prompts, model.exemplars
        self._gateway = SharedGateway()
        chat_of(model, seed)

    async def run(
        self, env: TextEnv, task: Task, settings: RolloutSettings, sample: int = 0, watch: Watch | None = None
    ) -> Episode:
        seed = seed_of(self.seed, task, sample)
        work = assignment(env, task, turn_limit(env, settings), sample, self.preface(env, task))
        chat = partial(chat_of, self.model, seed, settings.thinking)
        episode, _ = await run_harness(self.harness, work, settings, self._gateway, chat)
        return episode

    async def close(self) -> None:
        await self._gateway.close()
        await self.model.close()
