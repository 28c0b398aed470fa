"""Language models behind an OpenAI-compatible API."""

from __future__ import annotations

import asyncio
import os
import re
import time
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.core import Message, Task, TextEnv
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.formats import Parse
from agentgym_rl.rollout.conversation import Response
from agentgym_rl.rollout.loop import Aborted, Watch, run_episode
from agentgym_rl.rollout.policies.base import Policy, Price, Usage
from agentgym_rl.rollout.settings import RolloutSettings

NAME = re.compile(r"openai:(?P<model>[^@]+)@(?P<url>https?://.+)")
"""``openai:<model>@<url>``, such as ``openai:Qwen/Qwen2.5-7B-Instruct@http://localhost:8000/v1``."""


class ModelRefused(ValueError):
    """The API refuses every request: wrong key, unknown model, malformed request."""


class BudgetSpent(ValueError):
    """The model has cost as much as it may."""


class ChatModel(Policy):
    """A model behind an API. The key is read from ``OPENAI_API_KEY``.

    The client library repeats requests after rate limits and faults of the server, with growing pauses.

    Args:
        name: ``openai:<model>@<url>``.
        seed: sent with the requests of an episode, plus the number of the sample.
        price: gives the cost.
        max_cost: in the currency of the price; None is no limit. Requests under way when it is reached are still paid.
        per_minute: most requests a minute; None is no limit beside the server's own.
        retries: of a request.

    Raises:
        ValueError: the name is not ``openai:<model>@<url>``, a limit is out of range, or there is a limit on the cost
            without a price.
        MissingExtra: the package openai is not installed.
    """

    usage: Usage

    def __init__(
        self,
        name: str,
        *,
        temperature: float,
        seed: int = 0,
        price: Price = (0, 0),
        max_cost: float | None = None,
        per_minute: float | None = None,
        retries: int = 6,
    ) -> None:
        match = NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"policy {name!r} is not openai:<model>@<url>, such as openai:gpt-4o@https://host/v1")
        if max_cost is not None and (max_cost <= 0 or not any(price)):
            raise ValueError(f"max_cost={max_cost:g} needs to be above 0, and a price, like price=0.15,0.60")
        if per_minute is not None and per_minute <= 0:
            raise ValueError(f"per_minute={per_minute:g} needs to be above 0")
        with needs(name, "api"):
            import openai
        self._errors = openai
        self._client = openai.AsyncOpenAI(
            base_url=match["url"], api_key=os.environ.get("OPENAI_API_KEY", "none"), max_retries=retries
        )
        self.name, self._model, self.usage = name, match["model"], Usage()
        self.temperature, self.seed = temperature, seed
        self.price, self.max_cost, self.per_minute = price, max_cost, per_minute
        self._next = 0.0

    async def run(
        self, env: TextEnv, task: Task, settings: RolloutSettings, sample: int = 0, watch: Watch | None = None
    ) -> Episode:
        """See :meth:`Policy.run`.

        Raises:
            ModelRefused, BudgetSpent: see :meth:`respond`.
        """
        seed = self.seed + sample
        episode, _ = await run_episode(
            lambda: env, task, lambda: ApiConversation(self, seed, settings.max_new_tokens), settings, watch=watch
        )
        return episode

    async def respond(self, messages: list[Message], seed: int, max_tokens: int) -> Response | None:
        """The model's next message, of at most ``max_tokens``; None when the conversation is too long for it.

        Raises:
            Aborted: the server did not answer any of the requests; the episode may run again.
            ModelRefused: another request would be refused too.
            BudgetSpent: nothing was requested, as the limit on the cost is reached.
        """
        await self._wait_for_turn()
        try:
            answer: Any = await self._client.chat.completions.create(
                model=self._model,
                messages=messages,  # type: ignore[arg-type]
                temperature=self.temperature,
                max_completion_tokens=max_tokens,
                seed=seed,
            )
        except (
            self._errors.APIConnectionError,
            self._errors.InternalServerError,
            self._errors.RateLimitError,
        ) as error:
            raise Aborted(f"{self.name} did not answer: {error}") from error
        except self._errors.APIStatusError as error:
            if isinstance(error, self._errors.BadRequestError) and "context" in str(error).lower():
                return None
            raise ModelRefused(f"{self.name}: {error}") from error
        used = answer.usage
        self.usage.add(*((used.prompt_tokens, used.completion_tokens) if used is not None else (0, 0)))
        return Response(answer.choices[0].message.content or "")

    async def _wait_for_turn(self) -> None:
        cost = self.usage.cost(self.price)
        if self.max_cost is not None and cost >= self.max_cost:
            raise BudgetSpent(
                f"{self.name} has cost {cost:.2f}, of {self.max_cost:g} that it may; the same command with a "
                "greater max_cost= goes on"
            )
        if self.per_minute is not None:
            now = time.monotonic()
            self._next, wait = max(now, self._next) + 60 / self.per_minute, self._next - now
            await asyncio.sleep(max(0.0, wait))


class ApiConversation:
    """A conversation with a :class:`ChatModel`; tokens are not counted."""

    prompt_tokens = 0
    response_tokens = 0

    def __init__(self, model: ChatModel, seed: int, max_tokens: int) -> None:
        self.model, self.seed, self.max_tokens = model, seed, max_tokens
        self.messages: list[Message] = []

    async def start(self, messages: list[Message], parse: Parse) -> None:
        self.messages = list(messages)

    async def respond(self) -> Response | None:
        response = await self.model.respond(self.messages, self.seed, self.max_tokens)
        if response is not None:
            self.messages.append({"role": "assistant", "content": response.text})
        return response

    async def observe(self, observation: str) -> bool:
        self.messages.append({"role": "user", "content": observation})
        return True
