"""Learning in words: groups of episodes, what told the good ones from the bad ones, a playbook (arXiv 2510.08191).

Departures: the operations of a group are made on the list as the groups before it left it, so that none contradicts
another, and no further call consolidates them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Any

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.files import write_text
from agentgym_rl.envs import Task
from agentgym_rl.envs.hosts import EnvHost
from agentgym_rl.eval.evaluation.rules import Rules
from agentgym_rl.eval.evaluation.suite import Suite
from agentgym_rl.eval.practice.asking import Asking, gathered
from agentgym_rl.eval.practice.giveaways import Giveaways
from agentgym_rl.eval.practice.spending import Spending
from agentgym_rl.eval.practice.writer import LONGEST, Questions
from agentgym_rl.rollout.exemplars import Exemplars
from agentgym_rl.rollout.journal import Entry, Journal
from agentgym_rl.rollout.loop import check_rules
from agentgym_rl.rollout.playbook import Op, Operation, Playbook
from agentgym_rl.rollout.policies import Policy
from agentgym_rl.rollout.runner import PATIENCE, Job, episodes_of, failures, run_jobs

NAME = "playbook.json"
FLAT_STEPS = 2
"""Steps in a row without a group that has both outcomes after which learning ends."""
END = "end"
"""Entry of a finished step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What is learned from, and how. The journals of a course belong to no other."""

    suite: Suite
    rules: Rules
    policy: str
    writer: str
    weights: Sequence[str] = ()
    """Of policy and writer."""
    start: Playbook
    epochs: int = 3
    """Passes over the panel."""
    tasks: int = 50
    """Tasks of a step."""
    samples: int = 5
    """Episodes of a task."""
    temperature: float = 0.7
    seed: int = 0
    experiences: int = 2
    """Most lessons that a group adds."""
    most: int = 40
    tokens: int = 1500
    """See :meth:`agentgym_rl.rollout.playbook.Playbook.cut`."""
    rewards: bool = True
    """Tell the writer what was solved, and ask it of groups with both outcomes only."""
    min_counted: float = 0.95
    exemplars: Exemplars | None = None

    def steps(self) -> list[list[Task]]:
        """The tasks of each step: every epoch has the panel in another order."""
        tasks, steps = self.suite.tasks, []
        for epoch in range(self.epochs):
            order = random.Random(f"{self.seed} {epoch}").sample(tasks, len(tasks))
            steps += [order[at : at + self.tasks] for at in range(0, len(order), self.tasks)]
        return steps

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types of what decides how a step ends."""
        keys = ("policy", "writer", "tasks", "samples", "temperature", "seed", "experiences", "most", "tokens")
        return {
            **{key: getattr(self, key) for key in (*keys, "rewards")},
            "weights": self.weights,
            "panel": self.suite.digest,
            "form": self.start.form.value,
            "playbook": self.start.digest,
            "rules": self.rules.to_dict(),
            "exemplars": self.exemplars and [self.exemplars.digest, self.exemplars.nearest],
        }


@dataclass(slots=True, kw_only=True)
class Learned:
    """What came of a course so far."""

    playbook: Playbook
    counts: Counter[str] = field(default_factory=Counter)
    """Groups, those asked about (``mixed``), operations by kind, and what was refused or went wrong."""
    solved: list[float] = field(default_factory=list)
    """Share of the episodes of each step."""
    flat: int = 0
    """Steps in a row without a group to learn from."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "playbook": self.playbook.to_dict(),
            "counts": dict(self.counts),
            "solved": self.solved,
            "flat": self.flat,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Learned:
        return cls(
            playbook=Playbook.from_dict(data["playbook"]), counts=Counter(data["counts"]), solved=data["solved"],
            flat=data["flat"],
        )  # fmt: skip


@dataclass(kw_only=True)
class Learner:
    """Goes through a course; the same call goes on where it was stopped, and asks nothing twice."""

    course: Course
    policy: Policy
    writer: Policy
    folder: Path
    """For ``playbook.json`` after every step, a diff a step, episodes and journals."""
    giveaways: Giveaways
    host: EnvHost
    concurrency: int = 1
    progress: Callable[[str, int, int], None] = lambda what, done, total: None
    """Called with what is done, how many of it, and of how many."""

    def __post_init__(self) -> None:
        self._spending = Spending((self.policy, self.writer))

    async def run(self) -> Learned:
        """Learn; ends before its last step after :data:`FLAT_STEPS` without a group to learn from.

        Raises:
            ValueError: a model refused, ``max_cost`` is spent, or the folder holds another course.
            EnvError: too few episodes count, or a model does not answer any more.
        """
        rules = self.course.rules
        try:
            for env in self.course.suite.envs:
                await self.host.check(env, rules.session_options(env))
                check_rules(self.host.open(env, rules.session_options(env)), rules.of_env(env))
            learned = Learned(playbook=Playbook.from_dict(self.course.start.to_dict()))
            learned.counts["cut"] += len(learned.playbook.cut(self.course.most, self.course.tokens))
            for number, tasks in enumerate(self.course.steps(), start=1):
                learned = await self._step(number, tasks, learned)
                if learned.flat == FLAT_STEPS:
                    break
        finally:
            await self.host.close()
        learned.playbook.write(self.folder / NAME)
        return learned

    async def _step(self, number: int, tasks: Sequence[Task], learned: Learned) -> Learned:
        with Journal(self.folder / "journal" / f"step{number:03d}.jsonl", self.course.to_dict()) as journal:
            self._spending.restore(journal)
            if END in journal.entries:
                return Learned.from_dict(dict(journal.entries[END].facts["learned"]))
            try:
                before = list(_lines(learned.playbook))
                groups = await self._groups(number, tasks, journal, learned)
                await self._lessons(number, groups, journal, learned)
                diff = unified_diff(before, list(_lines(learned.playbook)), "before", f"step {number}", lineterm="")
                write_text(self.folder / "diffs" / f"step{number:03d}.diff", "".join(f"{line}\n" for line in diff))
                learned.playbook.write(self.folder / NAME)
                journal.add(END, Entry(facts={"learned": learned.to_dict(), "used": self._spending.used()}))
            finally:
                if END not in journal.entries:
                    self._spending.keep(journal)
        return learned

    async def _groups(
        self, number: int, tasks: Sequence[Task], journal: Journal, learned: Learned
    ) -> list[list[Episode]]:
        """The episodes of each task that count."""
        course, playbook = self.course, learned.playbook
        self.policy.prompts = playbook.prompts(course.rules.prompts)
        first = number * course.samples  # each episode of a task has a seed of its own
        jobs = [Job(task, first + sample) for task in tasks for sample in range(course.samples)]
        entries = await run_jobs(
            jobs, episodes_of(self.policy, course.rules.of_env, used=self._spending.used), self.host,
            course.rules.session_options, journal=journal, concurrency=self.concurrency, patience=PATIENCE,
            progress=lambda done, total: self.progress(f"step {number}: episodes", done, total),
        )  # fmt: skip
        failures(jobs, entries, course.min_counted, journal)
        groups: dict[Task, list[Episode]] = {}
        for job, entry in zip(jobs, entries, strict=True):
            if entry.counts and entry.episode is not None:
                entry.episode.tags |= {"sample": job.sample, "split": "learn"}
                groups.setdefault(job.task, []).append(entry.episode)
        episodes = [episode for group in groups.values() for episode in group]
        episode_store.write(self.folder / "episodes" / f"step{number:06d}.parquet", episodes)
        learned.solved.append(sum(episode.success for episode in episodes) / len(episodes))
        for env in course.suite.envs:
            successes = [episode.success for episode in episodes if episode.env == env]
            playbook.observe(env, sum(successes), len(successes))
        return list(groups.values())

    async def _lessons(
        self, number: int, groups: Sequence[Sequence[Episode]], journal: Journal, learned: Learned
    ) -> None:
        """Ask what the groups teach, and change the playbook."""
        course, playbook, counts = self.course, learned.playbook, learned.counts
        asking = Asking(
            writer=self.writer, journal=journal, seed=f"{course.seed}", concurrency=self.concurrency,
            used=self._spending.used, counts=counts,
        )  # fmt: skip
        questions = Questions(asking=asking, form=playbook.form, most=course.experiences, rewards=course.rewards)
        mixed = [group for group in groups if len(group) > 1 and (not course.rewards or _both(group))]
        counts["groups"] += len(groups)
        counts["mixed"] += len(mixed)
        learned.flat = 0 if mixed else learned.flat + 1
        had, finished = {env: playbook.listed(env) for env in course.suite.envs}, 0

        async def lessons_of(group: Sequence[Episode]) -> str:
            nonlocal finished
            lessons = await questions.lessons(group, had[group[0].env])
            finished += 1
            self.progress(f"step {number}: groups", finished, len(mixed))
            return lessons

        for group, new in zip(mixed, await gathered(lessons_of(group) for group in mixed), strict=True):
            if new:
                env, task = group[0].env, group[0].item_id
                operations = await questions.operations(env, task, playbook.listed(env), new)
                for operation in _few(operations, course.experiences, counts):
                    counts[self._refused(operation) or self._applied(operation, playbook, env, number, task)] += 1
        counts["cut"] += len(playbook.cut(course.most, course.tokens))

    def _refused(self, operation: Operation) -> str:
        """Why a text does not come into the playbook."""
        if len(operation.text) > LONGEST:
            return "too long"
        if self.giveaways.of_goal(operation.text):
            return "with a goal"
        return "with an answer" if self.giveaways.of_answer(operation.text) else ""

    def _applied(self, operation: Operation, playbook: Playbook, env: str, number: int, task: str) -> str:
        return operation.op.value if playbook.apply(operation, env, number, task) else "of no lesson"


def _both(group: Sequence[Episode]) -> bool:
    return len({episode.success for episode in group}) == 2


def _few(operations: Sequence[Operation], most: int, counts: Counter[str]) -> Iterator[Operation]:
    """The operations with only the first additions."""
    added = 0
    for operation in operations:
        added += operation.op is Op.add
        if operation.op is Op.add and added > most:
            counts["too many"] += 1
        else:
            yield operation


def _lines(playbook: Playbook) -> Iterator[str]:
    for env in sorted({lesson.env for lesson in playbook.lessons}):
        yield from (f"{env} {line}" for line in playbook.listed(env))
