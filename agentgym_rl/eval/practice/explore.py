"""Tasks for an environment that has none, after Learn-by-interact (arXiv 2501.10893) and CuES (arXiv 2512.01311).

The policy plays without a task: it begins with one of the tools that were used least, and reads which tasks are known.
The writer says backwards what a person could have asked for. A task counts only if

* its calls, in a fresh session, give the same results and full reward, and doing nothing gives none;
* its words and its calls are no other task's, nor those of the option ``tasks``, which nobody reads;
* it names neither tool nor answer, and the writer, asked anew, finds that it asks for exactly what was done.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from agentgym_rl.data.files import write_jsonl
from agentgym_rl.envs.core import EnvError, Task
from agentgym_rl.envs.explorable import Call, Explorable, Found
from agentgym_rl.envs.hosts import LocalHost
from agentgym_rl.eval.practice import backward
from agentgym_rl.eval.practice.asking import Asking, gathered
from agentgym_rl.eval.practice.backward import WORDING, Idea, Made
from agentgym_rl.eval.practice.exploration import Exploration, Explored
from agentgym_rl.eval.practice.giveaways import words
from agentgym_rl.eval.practice.replay import Differs, Replay
from agentgym_rl.eval.practice.spending import Spending
from agentgym_rl.rollout.journal import Entry, Journal
from agentgym_rl.rollout.policies import Policy
from agentgym_rl.rollout.runner import PATIENCE, Job, episodes_of, failures, run_jobs

T = TypeVar("T")
R = TypeVar("R")

ROUND = 16
"""Episodes that are told of the same known tasks."""
FLAT_ROUNDS = 2
"""Rounds in a row without a new task after which exploring ends."""
TOLD = 10
"""Most known tasks that an explorer is told of."""


class NothingFound(ValueError):
    """No task counts."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that may come to count."""

    rollout: int
    number: int
    """Among the ideas of the episode."""
    idea: Idea
    calls: Sequence[Made]

    @property
    def key(self) -> str:
        return f"{self.rollout} {self.number}"

    @property
    def marks(self) -> frozenset[str]:
        """See :func:`_marks`."""
        return _marks(self.idea.instruction, [call.call for call in self.idea.of(self.calls)])


@dataclass(kw_only=True)
class Explorer:
    """Explores an environment; the same call goes on where it was stopped, and asks nothing twice."""

    exploration: Exploration
    world: Explorable
    """A session for its fixed facts."""
    policy: Policy
    writer: Policy
    out: Path
    concurrency: int = 1
    progress: Callable[[str, int, int], None] = lambda what, done, total: None
    """Called with what is done, how many of it, and of how many."""

    async def run(self) -> Explored:
        """Write the file.

        Raises:
            NothingFound: there is no task to write; the journal stays.
            ValueError: a model refused, ``max_cost`` is spent, another process writes the file, or the journal beside
                it has other settings.
            EnvError: too few episodes count, or a model does not answer any more.
        """
        exploration, spending = self.exploration, Spending((self.policy, self.writer))
        with Journal.beside(self.out, exploration.to_dict()) as self._journal, TemporaryDirectory() as folder:
            spending.restore(self._journal)
            self._spending, self._found, self._host = spending, Explored(), LocalHost()
            self._folder, self._files = Path(folder), itertools.count()
            self._known = {mark for task in exploration.given for mark in _marks(task.instruction, task.calls)}
            self._asking = Asking(
                writer=self.writer, journal=self._journal, seed=f"{exploration.seed}", concurrency=self.concurrency,
                used=spending.used, counts=self._found.counts,
            )  # fmt: skip
            try:
                while self._goes_on:
                    await self._round()
            finally:
                spending.keep(self._journal)
                await self._host.close()
            if not self._found.lines:
                raise NothingFound(self._why)
            del self._found.lines[exploration.tasks :]
            write_jsonl(self.out, self._found.lines)
            self._journal.delete()
        return self._found

    @property
    def _goes_on(self) -> bool:
        exploration, explored = self.exploration, self._found
        unfinished = len(explored.lines) < exploration.tasks and explored.counts["rollouts"] < exploration.rollouts
        return unfinished and explored.flat < FLAT_ROUNDS

    async def _round(self) -> None:
        """Some episodes, and the tasks that come of them."""
        exploration, explored = self.exploration, self._found
        first, before = explored.counts["rollouts"], len(explored.lines)
        rollouts = range(first, min(first + ROUND, exploration.rollouts))
        episodes = await self._episodes(rollouts)
        explored.counts["rollouts"] += len(rollouts)
        explored.uses.update(call.name for _, calls in episodes for call in calls)
        written = await self._each("episodes read", episodes, self._written)
        candidates = [each for ideas in written for each in ideas if self._passes(each)]
        lines = await self._each("tasks done again", candidates, self._again)
        stood = [(each, line) for each, line in zip(candidates, lines, strict=True) if line is not None]
        exact = await self._each("tasks judged", [candidate for candidate, _ in stood], self._exact)
        for at, (candidate, line) in enumerate(stood):
            if exact[at] and self._new(candidate):
                self._known |= candidate.marks
                explored.lines.append({**line, "split": exploration.split(candidate.rollout)})
                explored.tools.append(frozenset(call.name for call in candidate.idea.of(candidate.calls)))
        explored.flat = 0 if len(explored.lines) > before else explored.flat + 1

    def _curious(self, rollout: int) -> dict[str, Any]:
        """The task of an episode: to begin with a tool, and to do something new."""
        exploration, explored, world = self.exploration, self._found, self.world
        tools = sorted((tool.name for tool in world.probes), key=lambda name: explored.uses[name])
        tool, split = tools[rollout % ROUND % len(tools)], exploration.split(rollout)
        near = [
            line["instruction"]
            for line, used in zip(explored.lines, explored.tools, strict=True)
            if line["split"] == split and tool in used
        ]
        others = WORDING.done.format(instructions=" | ".join(near[-TOLD:])) if near else ""
        instruction = (WORDING.curious_once if world.by_one_call else WORDING.curious).format(tool=tool) + others
        line = world.line(Found(instruction=instruction))
        return {"instruction": instruction, **line, **exploration.begins(rollout, world.starts)}

    def _options(self, lines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Those of sessions whose tasks are these lines."""
        file = self._folder / f"{next(self._files)}.jsonl"
        write_jsonl(file, lines)
        return {**self.exploration.rules.session_options(self.exploration.env), "tasks": str(file)}

    def _open(self, line: Mapping[str, Any]) -> Explorable:
        env = self._host.open(self.exploration.env, self._options([line]))
        assert isinstance(env, Explorable)
        return env

    async def _episodes(self, rollouts: range) -> list[tuple[int, list[Made]]]:
        """Number and calls of each episode that counts and made some."""
        exploration, first = self.exploration, rollouts.start
        options = self._options(map(self._curious, rollouts))
        jobs = [Job(Task(exploration.env, rollout - first), rollout) for rollout in rollouts]
        entries = await run_jobs(
            jobs, episodes_of(self.policy, exploration.rules.of_env, used=self._spending.used), self._host,
            lambda _: options, journal=self._journal, concurrency=self.concurrency, patience=PATIENCE,
            progress=lambda done, total: self.progress("episodes", first + done, first + total),
        )  # fmt: skip
        failures(jobs, entries, exploration.min_counted, self._journal)
        made = [
            (job.sample, backward.made(entry.episode, self.world))
            for job, entry in zip(jobs, entries, strict=True)
            if entry.counts and entry.episode is not None
        ]
        return [(rollout, calls) for rollout, calls in made if calls]

    async def _written(self, episode: tuple[int, list[Made]]) -> list[Candidate]:
        """The tasks that the writer has for an episode."""
        (rollout, calls), world = episode, self.world
        ideas = await self._asking.readable(
            f"backward {rollout}",
            backward.question(calls, world.probes, self.exploration.ideas, world.by_one_call),
            lambda answer: backward.read(answer, len(calls)), WORDING.again,
        )  # fmt: skip
        return [Candidate(rollout, number, idea, calls) for number, idea in enumerate(ideas or ())]

    def _passes(self, candidate: Candidate) -> bool:
        """Whether nothing speaks against a task before it is done again."""
        exploration, counts, instruction = self.exploration, self._found.counts, candidate.idea.instruction
        counts["ideas"] += 1
        fault = "too many" if candidate.number >= exploration.ideas else ""
        fault = fault or backward.fault(
            candidate.idea, [tool.name for tool in self.world.probes], self.world.by_one_call
        )
        if not fault and (exploration.giveaways.of_goal(instruction) or exploration.giveaways.of_answer(instruction)):
            fault = "of a task that there is"
        if fault:
            counts[fault] += 1
        return not fault and self._new(candidate)

    def _new(self, candidate: Candidate) -> bool:
        """Whether no other task asks the same, or is solved by the same calls."""
        twice = bool(candidate.marks & self._known)
        self._found.counts["twice"] += twice
        return not twice

    async def _again(self, candidate: Candidate) -> dict[str, Any] | None:
        """The line of a task, where it can be done again."""
        entry = self._journal.entries.get(f"replay {candidate.key}")
        facts = entry.facts if entry else await self._replayed(candidate, self.exploration.rules.settings.retries)
        line: dict[str, Any] | None = facts["line"]
        if line is None:
            self._found.counts[facts["fault"]] += 1
        return line

    async def _replayed(self, candidate: Candidate, retries: int) -> dict[str, Any]:
        """The line, or why there is none; kept unless the environment failed."""
        exploration = self.exploration
        replay = Replay(
            world=self.world, open=self._open, begins=exploration.begins(candidate.rollout, self.world.starts),
            calls=candidate.calls, settings=exploration.rules.of_env(exploration.env),
        )  # fmt: skip
        try:
            facts: dict[str, Any] = {"line": await replay.line(candidate.idea), "fault": ""}
        except Differs as difference:
            facts = {"line": None, "fault": str(difference)}
        except EnvError:
            if retries:
                return await self._replayed(candidate, retries - 1)
            return {"line": None, "fault": "failed on replay"}
        self._journal.add(f"replay {candidate.key}", Entry(facts=facts))
        return facts

    async def _exact(self, candidate: Candidate) -> bool:
        """Whether the writer, who does not know that it wrote it, finds that the instruction asks for what was done."""
        question = backward.judgement(candidate.idea, candidate.calls, self.world.probes)
        exact = await self._asking.readable(f"judge {candidate.key}", question, backward.read_judgement, WORDING.again)
        self._found.counts["not exact"] += exact is False
        return bool(exact)

    async def _each(self, what: str, items: Sequence[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
        """The work on each item, in order; so much at once."""
        free, finished = asyncio.Semaphore(self.concurrency), 0

        async def limited(item: T) -> R:
            nonlocal finished
            async with free:
                result = await work(item)
            finished += 1
            self.progress(what, finished, len(items))
            return result

        return await gathered(limited(item) for item in items)

    @property
    def _why(self) -> str:
        explored = self._found
        reasons = ", ".join(f"{number} {name}" for name, number in explored.refused.items())
        ended = explored.flat == FLAT_ROUNDS
        onwards = "try another policy or writer" if ended else "with a greater rollouts= the same command goes on"
        return (
            f"{self.out} is not written: no task of {explored.counts['ideas']} counts ({reasons or 'none was written'})"
            f" after {explored.counts['rollouts']} episodes; {onwards}"
        )


def _marks(instruction: str, plan: Iterable[Call]) -> frozenset[str]:
    """What tells a task from others: the words of its instruction, and its calls."""
    calls = [[name, arguments] for name, arguments in plan]
    way = [json.dumps(calls, sort_keys=True)] if calls else []
    return frozenset([" ".join(sorted(words(instruction))), *way])
