"""Requests to an OpenAI-compatible API: repeated after faults, without what its server does not know."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from agentgym_rl.envs.completions import OPTIONAL, Answer, Meaning, read
from agentgym_rl.envs.core import Message

log = logging.getLogger(__name__)

FEW = 2
"""Repeated requests to a server that was never reached: most likely it does not run, or the address is wrong."""

UNREACHED = {"ConnectError", "ConnectTimeout"}
"""Errors without a connection; of httpx or of httpx2, whichever openai has."""

LONGEST_PAUSE = 60.0
"""Most seconds that a server's wish for a pause is followed."""


class ChatClient:
    """Asks one model. The key is read from ``OPENAI_API_KEY``.

    The first request is made alone: only when it is answered, others follow.

    Args:
        name: of the model, for messages.
        turn: awaited before each request.
        retries: of a request, after rate limits and faults of the server, with growing pauses.
        without: those of :data:`.completions.OPTIONAL` that are not sent; ``max_tokens`` takes the place of
            ``max_completion_tokens``. Those that a refusal names join them, once a request is answered without.

    Raises:
        ValueError: a parameter of ``without`` is another.
    """

    def __init__(
        self,
        name: str,
        url: str,
        model: str,
        *,
        turn: Callable[[], Awaitable[None]],
        retries: int,
        without: Collection[str],
    ) -> None:
        import openai

        if needed := set(without) - set(OPTIONAL):
            raise ValueError(f"without={min(needed)} is always sent; what can be left out is {', '.join(OPTIONAL)}")
        self._errors = openai
        self._client = openai.AsyncOpenAI(
            base_url=url, api_key=os.environ.get("OPENAI_API_KEY") or "none", max_retries=0
        )
        self._name, self._model = name, model
        self._turn, self._retries, self._without = turn, retries, set(without)
        self._first, self._asked = asyncio.Lock(), False
        self.reached = False
        """Whether a connection was ever made."""

    async def ask(self, messages: list[Message], seed: int, max_tokens: int, temperature: float) -> Answer:
        """The answer to a request."""
        async with self._first:
            if not self._asked:
                self._asked = True
                return await self._repeat(messages, seed, max_tokens, temperature)
        return await self._repeat(messages, seed, max_tokens, temperature)

    async def _repeat(self, messages: list[Message], seed: int, max_tokens: int, temperature: float) -> Answer:
        """The answer to a request; asked again after a fault, and without parameters that the API does not know."""
        without, tries, few = set(self._without), 0, min(FEW, self._retries)
        while True:
            await self._turn()
            answer, headers = await self._post(messages, seed, max_tokens, temperature, without)
            if answer.unknown - without:
                without |= answer.unknown
            elif answer.meaning is Meaning.FAULT and tries < (self._retries if self.reached else few):
                await asyncio.sleep(pause(headers, tries))
                tries += 1
            else:
                break
        if answer.meaning is Meaning.REPLY and without - self._without:
            self._without |= without
            log.warning("%s does not know %s; its requests go without", self._name, " and ".join(sorted(without)))
        return answer

    async def _post(
        self, messages: list[Message], seed: int, max_tokens: int, temperature: float, without: Collection[str]
    ) -> tuple[Answer, Mapping[str, str]]:
        """The answer to one request, and its headers."""
        limit = "max_tokens" if "max_completion_tokens" in without else "max_completion_tokens"
        options: dict[str, Any] = {limit: max_tokens} | ({} if "seed" in without else {"seed": seed})
        try:
            raw = await self._client.chat.completions.with_raw_response.create(
                model=self._model,
                messages=messages,  # type: ignore[arg-type]
                temperature=temperature,
                **options,
            )
            response = raw.http_response
        except self._errors.APIStatusError as error:
            response = error.response
        except self._errors.APIConnectionError as error:
            self.reached |= type(error.__cause__).__name__ not in UNREACHED
            return Answer(Meaning.FAULT, str(error)), {}
        self.reached = True
        return read(response.status_code, response.content), response.headers


def pause(headers: Mapping[str, str], tries: int) -> float:
    """Seconds before a request is repeated: what the server asks for, if that is short, else longer with each try."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(name, "")
        if re.fullmatch(r"\d+(\.\d+)?", value, re.ASCII) and (seconds := float(value) / unit) <= LONGEST_PAUSE:
            return seconds
    return min(8.0, 0.5 * 2.0**tries) * random.uniform(0.75, 1)
