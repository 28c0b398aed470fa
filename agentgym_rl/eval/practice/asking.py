"""Questions to a writer: each is asked once, and its answer kept."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from agentgym_rl.envs.core import Message
from agentgym_rl.rollout.answers import Unreadable
from agentgym_rl.rollout.conversation import NoResponse
from agentgym_rl.rollout.journal import Entry, Journal
from agentgym_rl.rollout.seeds import MOST_SEEDS, seed_of
from agentgym_rl.rollout.texts import Writer

T = TypeVar("T")

TRIES = 3
"""Times that something is asked for until it can be read."""
MAX_TOKENS = 1024
"""Most tokens of an answer."""
TEMPERATURE = 0.7


@dataclass(kw_only=True)
class Asking:
    """Asks a writer what a journal does not hold yet."""

    writer: Writer
    journal: Journal
    seed: str
    concurrency: int
    """Questions asked at once."""
    used: Callable[[], Any]
    """Calls and tokens so far, kept with each answer."""
    counts: Counter[str]
    """Counted up: ``unanswered``, ``unreadable``."""
    _free: asyncio.Semaphore = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.concurrency)

    async def ask(self, key: str, messages: Sequence[Message]) -> str:
        """The answer to a question, asked once; empty where the writer has none."""
        if key not in self.journal.entries:
            async with self._free:
                try:
                    written = await self.writer.write(
                        messages, seed=seed_of(self.seed, key) % MOST_SEEDS, temperature=TEMPERATURE,
                        max_tokens=MAX_TOKENS,
                    )  # fmt: skip
                    facts: Mapping[str, Any] = asdict(written)
                except NoResponse as error:
                    facts = {"text": "", "said": str(error)}
            self.journal.add(key, Entry(facts={**facts, "used": self.used()}))
        text = str(self.journal.entries[key].facts["text"]).strip()
        self.counts["unanswered"] += not text
        return text

    async def readable(self, key: str, question: str, read: Callable[[str], T], again: str) -> T | None:
        """What an answer holds; None where it cannot be read :data:`TRIES` times.

        Args:
            read: raises :class:`Unreadable`.
            again: asks for it again; ``{fault}`` is filled in.
        """
        messages = [user(question)]
        for number in range(1, TRIES + 1):
            answer = await self.ask(f"{key} {number}", messages)
            try:
                return read(answer)
            except Unreadable as error:
                answered: list[Message] = [{"role": "assistant", "content": answer}] if answer else []
                messages = [*messages[:1], *answered, user(again.format(fault=error))]
        self.counts["unreadable"] += 1
        return None


def user(text: str) -> Message:
    """A message that asks."""
    return {"role": "user", "content": text.strip()}


async def gathered(work: Iterable[Awaitable[T]]) -> list[T]:
    """All results, in order; where one raises, the others end first."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
