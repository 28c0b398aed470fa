"""Language models behind an OpenAI-compatible API."""

from __future__ import annotations

import os
import re
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.core import Message, MissingExtra, Task, TextEnv
from agentgym_rl.envs.formats import Parse
from agentgym_rl.rollout.conversation import Reply
from agentgym_rl.rollout.loop import Aborted, play
from agentgym_rl.rollout.policies.base import Player, Usage
from agentgym_rl.rollout.settings import RolloutSettings

NAME = re.compile(r"openai:(?P<model>[^@]+)@(?P<url>https?://.+)")
"""``openai:<model>@<url>``, such as ``openai:Qwen/Qwen2.5-7B-Instruct@http://localhost:8000/v1``."""


class ModelRefused(ValueError):
    """The API will not answer whatever is asked: wrong key, unknown model, malformed request."""


class ChatModel:
    """A model and how it is asked. The key is read from ``OPENAI_API_KEY``.

    Rate limits and faults of the server are waited out by the client library, with growing pauses.

    Raises:
        ValueError: the name is not ``openai:<model>@<url>``.
        MissingExtra: the package openai is not installed.
    """

    def __init__(self, name: str, *, temperature: float, turn_tokens: int, retries: int = 6) -> None:
        match = NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"policy {name!r} is not openai:<model>@<url>, such as openai:gpt-4o@https://host/v1")
        try:
            import openai
        except ModuleNotFoundError as error:
            raise MissingExtra(f"{name} needs openai; install it with: pip install 'agentgym-rl[api]'") from error
        self._errors = openai
        self._client = openai.AsyncOpenAI(
            base_url=match["url"], api_key=os.environ.get("OPENAI_API_KEY", "none"), max_retries=retries
        )
        self.name, self._model = name, match["model"]
        self._temperature, self._turn_tokens = temperature, turn_tokens
        self.usage = Usage()

    async def reply(self, messages: list[Message], seed: int) -> Reply | None:
        """The model's next message; None when the conversation is too long for it.

        Raises:
            Aborted: the server did not answer, however often it was asked; the episode may be played again.
            ModelRefused: asking again would not help.
        """
        try:
            answer: Any = await self._client.chat.completions.create(
                model=self._model,
                messages=messages,  # type: ignore[arg-type]
                temperature=self._temperature,
                max_completion_tokens=self._turn_tokens,
                seed=seed,
            )
        except (
            self._errors.APIConnectionError,
            self._errors.InternalServerError,
            self._errors.RateLimitError,
        ) as error:
            raise Aborted(f"{self.name} did not answer: {error}") from error
        except self._errors.BadRequestError as error:
            if "context" in str(error).lower():
                return None
            raise ModelRefused(f"{self.name}: {error}") from error
        except self._errors.APIStatusError as error:
            raise ModelRefused(f"{self.name}: {error}") from error
        self.usage.calls += 1
        if answer.usage is not None:
            self.usage.prompt_tokens += answer.usage.prompt_tokens
            self.usage.completion_tokens += answer.usage.completion_tokens
        return Reply(answer.choices[0].message.content or "")


class ApiConversation:
    """A conversation with a :class:`ChatModel`; tokens are not counted."""

    prompt_tokens = 0
    response_tokens = 0

    def __init__(self, model: ChatModel, seed: int) -> None:
        self.model = model
        self.seed = seed
        self.messages: list[Message] = []

    async def start(self, messages: list[Message], parse: Parse) -> None:
        self.messages = list(messages)

    async def reply(self) -> Reply | None:
        reply = await self.model.reply(self.messages, self.seed)
        if reply is not None:
            self.messages.append({"role": "assistant", "content": reply.text})
        return reply

    async def observe(self, observation: str) -> bool:
        self.messages.append({"role": "user", "content": observation})
        return True


def api(model: ChatModel, settings: RolloutSettings, seed: int) -> Player:
    """Plays with a model behind an API."""

    async def one(world: TextEnv, task: Task, sample: int) -> Episode:
        episode, _ = await play(lambda: world, task, lambda: ApiConversation(model, seed + sample), settings)
        return episode

    return Player(model.name, one, model.usage)
