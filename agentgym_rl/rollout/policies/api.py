"""Language models behind an OpenAI-compatible API."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Collection, Sequence

from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs.bounds import encodable
from agentgym_rl.envs.completions import Answer, Meaning
from agentgym_rl.envs.core import Message, Task, TextEnv
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.formats import Parse
from agentgym_rl.rollout.conversation import NoFurtherEpisode, NoResponse, Response
from agentgym_rl.rollout.loop import Aborted, Watch, run_episode
from agentgym_rl.rollout.policies.base import Policy, Price, Usage
from agentgym_rl.rollout.policies.chat_client import ChatClient
from agentgym_rl.rollout.seeds import MOST_SEEDS, seed_of
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.texts import Written

log = logging.getLogger(__name__)

NAME = re.compile(r"openai:(?P<model>[^@]+)@(?P<url>https?://.+)")
"""``openai:<model>@<url>``, such as ``openai:Qwen/Qwen2.5-7B-Instruct@http://localhost:8000/v1``."""
UNREAD = 20
"""Answers without a single reply among them after which an API is taken for none."""
EMPTY = "(empty)"
"""Sent for an empty message, which many APIs refuse."""
ENDINGS = {
    Meaning.TOO_LONG: Ending.CONTEXT_LIMIT,
    Meaning.FILTERED: Ending.REFUSED,
    Meaning.REFUSED: Ending.REFUSED,
    Meaning.MALFORMED: Ending.MALFORMED,
}
"""Of an episode whose request has such an answer."""


class ModelRefused(NoFurtherEpisode, ValueError):
    """The API takes no request: wrong key, unknown model, no credit, or a parameter that it refuses."""


class BudgetSpent(NoFurtherEpisode, ValueError):
    """The model has cost as much as it may."""


class ChatModel(Policy):
    """A model behind an API. The key is read from ``OPENAI_API_KEY``.

    :mod:`agentgym_rl.envs.completions` says what each answer means. One that concerns its own request ends its own
    episode (:data:`ENDINGS`); what the API refuses of its first request, it refuses of all.

    Args:
        name: ``openai:<model>@<url>``.
        seed: with task, sample and turn it gives the seed that is sent with a request.
        price: gives the cost.
        max_cost: in the currency of the price; None is no limit. Requests under way when it is reached are still paid.
        per_minute: most requests a minute; None is no limit beside the server's own.
        retries: of a request.
        without: parameters that are not sent, see :class:`.chat_client.ChatClient`.

    Raises:
        ValueError: the name is not ``openai:<model>@<url>``, a limit is out of range, there is a limit on the cost
            without a price, or a parameter of ``without`` is another.
        MissingExtra: the package openai is not installed.
    """

    usage: Usage
    temperature: float
    seed: int

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
        without: Collection[str] = (),
    ) -> None:
        match = NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"policy {name!r} is not openai:<model>@<url>, such as openai:gpt-4o@https://host/v1")
        if min(price) < 0:
            raise ValueError(f"price={price[0]:g},{price[1]:g} is below 0; give two numbers like price=0.15,0.60")
        if max_cost is not None and (max_cost <= 0 or not any(price)):
            raise ValueError(f"max_cost={max_cost:g} needs to be above 0, and a price, like price=0.15,0.60")
        if per_minute is not None and per_minute <= 0:
            raise ValueError(f"per_minute={per_minute:g} needs to be above 0")
        with needs(name, "api"):
            self._client = ChatClient(
                name, match["url"], match["model"],
                turn=self._wait_for_turn, retries=retries, without=without,
            )  # fmt: skip
        self.name, self.usage = name, Usage()
        self.temperature, self.seed = temperature, seed
        self.price, self.max_cost, self.per_minute = price, max_cost, per_minute
        self.beside: Sequence[ChatModel] = ()
        """Others whose cost counts against ``max_cost``, too."""
        self._next, self._unread, self._uncounted, self._replied = 0.0, 0, False, False

    async def run(
        self, env: TextEnv, task: Task, settings: RolloutSettings, sample: int = 0, watch: Watch | None = None
    ) -> Episode:
        """See :meth:`Policy.run`.

        Raises:
            ModelRefused, BudgetSpent: see :meth:`respond`.
        """
        seed = seed_of(self.seed, task, sample)
        episode, _ = await run_episode(
            lambda: env, task, lambda: ApiConversation(self, seed, settings.max_new_tokens), settings, watch=watch,
            preface=self.preface(env, task),
        )  # fmt: skip
        return episode

    async def respond(self, messages: list[Message], seed: int, max_tokens: int) -> Response:
        """The model's next message, of at most ``max_tokens``.

        Raises:
            NoResponse: the API has none for these messages.
            Aborted: it did not answer any of the requests; the episode may run again.
            ModelRefused: another request would be refused too, or nothing could ever be reached.
            BudgetSpent: nothing was requested, as the limit on the cost is reached.
        """
        answer = await self._reply(messages, seed, max_tokens, self.temperature)
        counted = answer.prompt_tokens, answer.completion_tokens
        return Response(answer.text, finish_reason=answer.finish_reason, counted=counted)

    async def write(self, messages: Sequence[Message], *, seed: int, temperature: float, max_tokens: int) -> Written:
        """See :meth:`Policy.write`; raises as :meth:`respond`."""
        answer = await self._reply(list(messages), seed, max_tokens, temperature)
        return Written(encodable(answer.text), answer.prompt_tokens, answer.completion_tokens)

    async def _reply(self, messages: list[Message], seed: int, max_tokens: int, temperature: float) -> Answer:
        """See :meth:`respond`."""
        answer = await self._client.ask(messages, seed % MOST_SEEDS, max_tokens, temperature)
        if not self._client.reached:
            text = answer.text.rstrip(".")
            raise ModelRefused(f"{self.name} cannot be reached: {text}; check the address, and that its server runs")
        known, ever = self._replied, self.usage.calls > 0
        if answer.meaning is Meaning.REPLY or answer.prompt_tokens:
            self._replied = True
            self.usage.add(answer.prompt_tokens, answer.completion_tokens)
        if answer.meaning is Meaning.REPLY:
            self._warn_of_uncounted(answer)
            return answer
        verb = "did not answer:" if answer.meaning is Meaning.FAULT else "answered"
        text = f"{self.name} {verb} {answer.text}"
        if answer.text.startswith("401: "):
            text += "; the key is that of OPENAI_API_KEY" + (
                "" if os.environ.get("OPENAI_API_KEY") else ", which is not set"
            )
        self._check(answer.meaning, text, known, ever)
        raise NoResponse(ENDINGS[answer.meaning], text)

    def _check(self, meaning: Meaning, text: str, known: bool, ever: bool) -> None:
        """Whether an answer without a reply concerns its own request only.

        Args:
            text: of the error.
            known: the API has replied to a request.
            ever: or had in an earlier call that is gone on with, so that a refusal may be of one task.

        Raises:
            Aborted, ModelRefused: see :meth:`respond`.
        """
        match meaning:
            case Meaning.NO_CREDIT:
                raise ModelRefused(f"{text}; there is no credit left: when there is, the same command goes on")
            case Meaning.NO_ACCESS if not known:
                raise ModelRefused(text)
            case Meaning.REFUSED if not ever:
                raise ModelRefused(text)
            case Meaning.FAULT | Meaning.NO_ACCESS:
                raise Aborted(text)
            case Meaning.REFUSED | Meaning.MALFORMED if not known:
                self._unread += 1
                if self._unread == UNREAD:
                    raise ModelRefused(f"{text}, as the last of {UNREAD} answers that are no reply; check the address")

    def _warn_of_uncounted(self, answer: Answer) -> None:
        """Say once that tokens and cost are incomplete."""
        if not answer.prompt_tokens and not self._uncounted:
            self._uncounted = True
            log.warning("%s does not tell the tokens of a reply; they are in no count, cost and max_cost", self.name)

    async def _wait_for_turn(self) -> None:
        self._check_cost()
        if self.per_minute is not None:
            now = time.monotonic()
            self._next, wait = max(now, self._next) + 60 / self.per_minute, self._next - now
            await asyncio.sleep(max(0.0, wait))
            self._check_cost()

    def _check_cost(self) -> None:
        cost = sum(model.usage.cost(model.price) for model in (self, *self.beside))
        if self.max_cost is not None and cost >= self.max_cost:
            raise BudgetSpent(
                f"{self.name} has cost {cost:.4f}, of {self.max_cost:g} that it may; the same command with a "
                "greater max_cost= goes on"
            )


class ApiConversation:
    """A conversation with a :class:`ChatModel`; tokens are not counted. Each request has a seed of its own.

    No empty message is sent, which many APIs refuse: an empty reply is left out, and the two messages of the user
    around it are joined, as chat templates want user and assistant to take turns.
    """

    prompt_tokens = 0
    response_tokens = 0

    def __init__(self, model: ChatModel, seed: int, max_tokens: int) -> None:
        self.model, self.seed, self.max_tokens = model, seed, max_tokens
        self.messages: list[Message] = []
        self._requests = 0

    async def start(self, messages: list[Message], parse: Parse) -> None:
        await self.restart(messages)

    async def respond(self) -> Response:
        seed = seed_of(self.seed, self._requests)
        self._requests += 1
        response = await self.model.respond(self.messages, seed, self.max_tokens)
        if response.text.strip():
            self.messages.append({"role": "assistant", "content": response.text})
        return response

    async def observe(self, observation: str) -> bool:
        observation = _filled(observation)
        last = self.messages[-1]
        if last["role"] == "user":  # the reply was empty
            self.messages[-1] = {"role": "user", "content": f"{last['content']}\n\n{observation}"}
        else:
            self.messages.append({"role": "user", "content": observation})
        return True

    async def restart(self, messages: list[Message]) -> bool:
        self.messages = [{**message, "content": _filled(message["content"])} for message in messages]
        return True


def _filled(text: str) -> str:
    return text if text.strip() else EMPTY
