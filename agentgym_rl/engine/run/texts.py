"""The texts that an algorithm asks for in a unit; a stop does not lose them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_rl.algorithms.base import Metrics
from agentgym_rl.algorithms.model import POLICY
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run.folder import Interrupted
from agentgym_rl.engine.run.local_model import transformers_model
from agentgym_rl.envs.core import Message
from agentgym_rl.rollout.conversation import NoResponse
from agentgym_rl.rollout.journal import Entry, Journal
from agentgym_rl.rollout.policies import ModelOptions, open_policy
from agentgym_rl.rollout.policies.base import Policy, Price, Usage
from agentgym_rl.rollout.seeds import MOST_SEEDS, seed_of
from agentgym_rl.rollout.texts import Writer, Written, write

if TYPE_CHECKING:
    from agentgym_rl.engine.verl.updates import Progress  # imports verl

WRITER = "writer"
"""Who is asked beside the policy."""


class ServedPolicy:
    """The policy on the vLLM servers of a run, with the weights that they have."""

    def __init__(self, trainer: Any, builder: Any, context: int, *, seeded: bool) -> None:
        self.trainer, self.builder, self.context, self.seeded = trainer, builder, context, seeded

    @cached_property
    def _server(self) -> Any:
        return self.trainer.get_llm_client()

    async def write(self, messages: Sequence[Message], *, seed: int, temperature: float, max_tokens: int) -> Written:
        """See :class:`agentgym_rl.rollout.texts.Writer`."""
        sampling = {"temperature": temperature, "top_p": 1.0, "top_k": -1, "max_tokens": max_tokens}
        if self.seeded:
            sampling["seed"] = seed
        return await write(self._server, self.trainer.tokenizer, self.builder, self.context, messages, sampling)


@dataclass(kw_only=True)
class Texts:
    """Asks, and keeps the answers of a unit in a journal; a unit that begins again asks only what is not in there."""

    writers: Mapping[str, tuple[Writer, int]] = field(default_factory=dict)
    """Who can be asked, each with its most requests at once."""
    price: Price = (0, 0)
    """Of the writer."""
    usage: Usage = field(default_factory=Usage)
    """Of the writer in the whole run, which ``writer.max_cost`` limits."""
    stop: Callable[[], bool] = lambda: False
    """True once the user asked to stop."""
    _journal: Journal | None = None

    def __post_init__(self) -> None:
        self._runner = asyncio.Runner()  # one loop for all calls, which an API's connections belong to

    def begin(self, file: Path, seed: str) -> None:
        """A unit begins, with its journal."""
        self._file, self._seed, self._asked = file, seed, Counter[str]()

    def generate(
        self,
        conversations: Sequence[Sequence[Message]],
        by: str,
        *,
        progress: Progress,
        samples: int = 1,
        temperature: float = 1.0,
        max_tokens: int = 512,
    ) -> list[list[str]]:
        """See :meth:`agentgym_rl.algorithms.base.Run.generate`.

        Raises:
            Interrupted: the user asked to stop. Requests under way are waited for, and kept.
        """
        if by not in self.writers:
            raise ValueError(f"by={by!r} cannot be asked: the run has {', '.join(self.writers) or 'nobody'}")
        journal = self._opened()
        questions = [messages for messages in conversations for _ in range(samples)]
        keys = [self._key(by, [*messages], temperature, max_tokens) for messages in questions]
        unasked = {key: asked for key, asked in zip(keys, questions, strict=True) if key not in journal.entries}
        if unasked:
            writer, most = self.writers[by]
            ask = partial(writer.write, temperature=temperature, max_tokens=max_tokens)
            before = len(keys) - len(unasked)
            self._runner.run(self._ask(unasked, ask, most, by, lambda done: progress(before + done, len(keys))))
        texts = [str(journal.entries[key].facts["text"]) for key in keys]
        return [texts[start : start + samples] for start in range(0, len(texts), samples)]

    async def _ask(
        self,
        questions: Mapping[str, Sequence[Message]],
        ask: Callable[..., Awaitable[Written]],
        most: int,
        by: str,
        shown: Callable[[int], None],
    ) -> None:
        free, ended = asyncio.Semaphore(most), asyncio.Event()

        async def answer(key: str, messages: Sequence[Message]) -> None:
            async with free:
                if ended.is_set():
                    return
                try:
                    facts = asdict(await ask(messages, seed=seed_of(self._seed, key) % MOST_SEEDS))
                except NoResponse as error:
                    facts = {**asdict(Written("")), "said": str(error)}
            self._opened().add(key, Entry(facts={"by": by, **facts}))

        answers = [asyncio.create_task(answer(key, messages)) for key, messages in questions.items()]
        try:
            for done, each in enumerate(asyncio.as_completed(answers), start=1):
                await each
                shown(done)
                if self.stop():
                    raise Interrupted
        finally:
            ended.set()
            await asyncio.gather(*answers, return_exceptions=True)

    def _key(self, by: str, *question: Any) -> str:
        """Of a question in the journal: what is asked, and how often it was asked before in the unit."""
        name = f"{by} {sha256(json.dumps(question).encode()).hexdigest()[:16]}"
        self._asked[name] += 1
        return f"{name} {self._asked[name]}"

    def _opened(self) -> Journal:
        if self._journal is None:
            self._journal = Journal(self._file)
            for facts in self._facts():
                if facts["by"] == WRITER:
                    self.usage.add(facts["prompt_tokens"], facts["completion_tokens"])  # before a stop
        return self._journal

    def _facts(self) -> list[Mapping[str, Any]]:
        return [] if self._journal is None else [entry.facts for entry in self._journal.entries.values()]

    def end(self) -> Metrics:
        """The unit ends; returns how much was asked of whom."""
        metrics: Metrics = defaultdict(float)
        used: dict[str, Usage] = defaultdict(Usage)
        for facts in self._facts():
            used[facts["by"]].add(facts["prompt_tokens"], facts["completion_tokens"])
            metrics[f"generate/{facts['by']}_unanswered"] += "said" in facts
        for by, usage in used.items():
            metrics |= {f"generate/{by}_{name}": float(count) for name, count in asdict(usage).items()}
        if any(self.price):
            metrics["generate/writer_cost"] = used[WRITER].cost(self.price)
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        return metrics

    def close(self) -> None:
        """The run ends."""
        for writer, _ in self.writers.values():
            if isinstance(writer, Policy):
                self._runner.run(writer.close())
        self._runner.close()


def open_writer(run: Resolved) -> Policy | None:
    """The writer of a run, where it has one.

    Raises:
        ValueError, FileNotFoundError, MissingExtra: it cannot be opened.
    """
    chosen = run.config.writer
    if chosen.policy is None:
        return None
    price = (chosen.price[0], chosen.price[1])
    options = ModelOptions(seed=run.config.seed, price=price, max_cost=chosen.max_cost, per_minute=chosen.per_minute)
    return open_policy(chosen.policy, options, transformers_model)


def texts_of(
    run: Resolved,
    trainer: Any,
    builder: Any,
    *,
    writer: Policy | None,
    spent: Mapping[str, int],
    stop: Callable[[], bool],
) -> Texts:
    """The policy and the writer of a run.

    Args:
        spent: calls and tokens of the writer so far.
    """
    config, usage = run.config, Usage(**spent)
    served = ServedPolicy(trainer, builder, config.model.context, seeded=run.seeded)
    writers: dict[str, tuple[Writer, int]] = {POLICY: (served, config.engine.max_sequences)}
    if writer is not None:
        writer.usage = usage
        writers[WRITER] = (writer, config.writer.concurrency)
    return Texts(writers=writers, price=(config.writer.price[0], config.writer.price[1]), usage=usage, stop=stop)
