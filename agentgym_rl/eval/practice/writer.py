"""Asking a writer what the episodes of a group teach; every answer is kept."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.core import Message
from agentgym_rl.envs.tables import load, parse_json
from agentgym_rl.rollout.conversation import NoResponse
from agentgym_rl.rollout.journal import Entry, Journal
from agentgym_rl.rollout.playbook import Form, Op, Operation
from agentgym_rl.rollout.seeds import MOST_SEEDS, seed_of
from agentgym_rl.rollout.texts import Writer
from agentgym_rl.rollout.transcripts import transcript

T = TypeVar("T")

TRIES = 3
"""Times that operations are asked for until they can be read."""
MAX_TOKENS = 1024
"""Most tokens of an answer."""
TEMPERATURE = 0.7
TRANSCRIPT = 12_000
"""Most characters of an attempt that the writer reads; the middle of a longer one is left out."""
LONGEST = 400
"""Most characters of a lesson: a writer that loops writes longer ones."""


@dataclass(frozen=True, slots=True)
class Wording:
    """What a writer is asked."""

    summary: str
    operations: str
    again: str
    contrast: dict[str, str]
    """By the form of the playbook."""
    judge: dict[str, str]


WORDING = load(Path(__file__).with_name("wording.toml"), Wording)


class Unreadable(ValueError):
    """An answer that holds no operations."""


@dataclass(kw_only=True)
class Questions:
    """The questions of a step."""

    writer: Writer
    journal: Journal
    form: Form
    most: int
    """Lessons of a group."""
    rewards: bool
    """Whether the writer is told what was solved."""
    seed: str
    free: asyncio.Semaphore
    """Lets as many through as are asked at once."""
    used: Callable[[], Any]
    """Calls and tokens so far, kept with each answer."""
    counts: Counter[str]
    """Counted up: ``unanswered``, ``unreadable``."""

    async def lessons(self, group: Sequence[Episode], had: Sequence[str]) -> str:
        """What told the good episodes of a group from the bad ones; empty where the writer has no answer.

        Args:
            had: the lessons that they had.
        """
        summaries = await gathered(self._summary(episode, had) for episode in group)
        if not all(summaries):
            return ""
        question = WORDING.contrast[self.form].format(
            count=len(group), env=group[0].env, most=self.most,
            judge=WORDING.judge["rewarded" if self.rewards else "unrewarded"],
            summaries="\n\n".join(f"Attempt {at}:\n{summary}" for at, summary in enumerate(summaries, start=1)),
        )  # fmt: skip
        return await self._ask(f"contrast {group[0].item_id}", [_user(question)])

    async def operations(self, env: str, group: str, had: Sequence[str], new: str) -> list[Operation]:
        """How new lessons change a list; none where the answer cannot be read :data:`TRIES` times."""
        listed = "\n".join(had) or "(empty)"
        messages = [_user(WORDING.operations.format(env=env, lessons=listed, new=new))]
        for number in range(1, TRIES + 1):
            answer = await self._ask(f"operations {group} {number}", messages)
            try:
                return read(answer)
            except Unreadable as error:
                said: list[Message] = [{"role": "assistant", "content": answer}] if answer else []
                messages = [*messages[:1], *said, _user(WORDING.again.format(fault=error))]
        self.counts["unreadable"] += 1
        return []

    async def _summary(self, episode: Episode, had: Sequence[str]) -> str:
        outcome = f"Outcome: {'solved' if episode.success else 'not solved'}, reward {episode.reward:g}."
        question = WORDING.summary.format(
            env=episode.env, lessons="\n".join(had) or "(none)", transcript=_attempt(episode),
            outcome=outcome if self.rewards else "",
        )  # fmt: skip
        summary = await self._ask(f"summary {episode.item_id} {episode.tags['sample']}", [_user(question)])
        return f"{summary}\n{outcome}" if summary and self.rewards else summary

    async def _ask(self, key: str, messages: Sequence[Message]) -> str:
        """The answer to a question, asked once; empty where the writer has none."""
        if key not in self.journal.entries:
            async with self.free:
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


def read(answer: str) -> list[Operation]:
    """The operations in an answer; those that do nothing are left out.

    Raises:
        Unreadable: there is no JSON list of such objects; says why.
    """
    answer = answer.rpartition("</think>")[2]
    start, end = answer.find("["), answer.rfind("]")
    if not 0 <= start < end:
        raise Unreadable("there is no JSON list")
    try:
        found = parse_json(answer[start : end + 1], "the list")
    except ValueError as error:
        raise Unreadable(str(error)) from error
    return [operation for item in found if (operation := _operation(item)) is not None]


def _operation(item: Any) -> Operation | None:
    if not isinstance(item, dict) or str(item.get("op")).upper() not in ("NONE", *Op):
        raise Unreadable(f"{str(item)[:80]} has no op of ADD, UPDATE, DELETE, NONE")
    name, text, number = str(item["op"]).upper(), item.get("text", ""), str(item.get("id", 0))
    if name == "NONE":
        return None
    op = Op(name)
    if op is not Op.delete and not (isinstance(text, str) and text.strip()):
        raise Unreadable(f"{name} has no text")
    if op is not Op.add and not (number.isdecimal() and number.isascii() and len(number) < 10):
        raise Unreadable(f"{name} has no id of a lesson")
    written = "" if op is Op.delete else " ".join(text.split())
    return Operation(op, written, 0 if op is Op.add else int(number))


def _attempt(episode: Episode) -> str:
    """The conversation of an episode to its last observation, without what the model read of a playbook."""
    last = [{"role": "user", "content": turn.observation} for turn in episode.turns[-1:]]
    return transcript([*episode.without_preface, *last], TRANSCRIPT)


def _user(text: str) -> Message:
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
