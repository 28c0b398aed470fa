"""SQLGym: answer questions about a database with one SQL query."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

from agentgym_rl.envs.core import BlockingEnv, EnvFault, EnvTimeout, EnvUnavailable, Observation, Step, Style, Task
from agentgym_rl.envs.explorable import Call, Explorable, Found
from agentgym_rl.envs.knobs import Knob
from agentgym_rl.envs.sqlgym import wording
from agentgym_rl.envs.sqlgym.bird import Bird
from agentgym_rl.envs.sqlgym.question import Question
from agentgym_rl.envs.sqlgym.sandbox import Refused, Row, Sandbox, Source
from agentgym_rl.envs.sqlgym.tasks import NAMES, BuiltIn
from agentgym_rl.envs.sqlgym.wording import TEXTS
from agentgym_rl.envs.sqlgym.workers import POOL, Killed, Worker
from agentgym_rl.envs.sqlgym.written import Written
from agentgym_rl.envs.tools import Tool


class SQLGym(BlockingEnv, Explorable):
    """Text to SQL: BIRD's questions as in AgentGym's SQLGym, and questions about generated databases.

    The query that counts ends the episode. Its reward is 1 when it returns the rows of the gold query, in any order and
    with any number of repetitions (BIRD's execution match), else 0. A query that the database refuses is ``invalid``.
    ``info`` holds ``invalid`` and, after the query that counts, AgentGym's ``ground_truth``: the gold query.

    Args:
        style: wording of instruction and observations.
        data: BIRD's folder, see :mod:`agentgym_rl.envs.sqlgym.bird`; the tasks are then AgentGym's.
        explore: number of queries whose results are shown before one counts; ``submit`` in front of a query makes it
            count earlier.
        domains: let all splits have questions about this domain, or these domains, only.
        tasks: file of questions that take the place of these, :mod:`agentgym_rl.envs.sqlgym.written`.

    Raises:
        FileNotFoundError, ValueError: the folder is not BIRD's, or comes with domains, ``explore`` is negative, or
            there is no such domain, or the file of questions is malformed.
    """

    name = "sqlgym"
    knobs = (Knob("domains", NAMES, ordered=False),)
    by_one_call = True
    _question: Question
    _source: Source

    def __init__(
        self,
        style: Style = "agentgym",
        data: str | Path | None = None,
        explore: int = 0,
        domains: str | Sequence[str] | None = None,
        tasks: str | None = None,
    ) -> None:
        super().__init__(style)
        if domains is not None and data is not None:
            raise ValueError(f"domains={domains} is for built-in questions; leave out either domains or data")
        if explore < 0:
            raise ValueError(f"explore is {explore}; give the number of queries that do not count, 0 or more")
        self._explore = explore
        self._own: BuiltIn | Bird = (
            Bird(data) if data is not None else BuiltIn([domains] if isinstance(domains, str) else domains)
        )
        self._questions = self._own if tasks is None else Written(tasks, self._own)
        self._spec = TEXTS.spec(
            self.name,
            self._questions.splits,
            instructions=wording.instructions(explore),
            max_turns=1 + explore,
            tools=TEXTS.tools if explore else TEXTS.tools[1:],
            read=wording.read,
            write=wording.write,
            licence=TEXTS.licence if data is None else TEXTS.licence_of_bird,
        )
        self._tries = 0
        self._lock = Lock()
        self._worker: Worker | None = None
        """Runs a query of this session now; guarded by the lock, because another session may have it afterwards."""

    @property
    def lacks(self) -> str:
        asked = f"options.{self.name}.explore= is missing: the number of queries of an explorer, such as 5"
        return "" if self._explore else asked

    @property
    def starts(self) -> Mapping[str, Sequence[int]]:
        return self._own.splits

    @property
    def probes(self) -> Sequence[Tool]:
        return TEXTS.tools[1:]

    def call(self, command: str) -> Call | None:
        return self.probes[0].name, {"query": _submitted(command) or command}

    def line(self, found: Found) -> dict[str, Any]:
        return {"query": found.calls[0][1]["query"] if found.calls else "SELECT 1"}

    def _reset_blocking(self, task: Task) -> Observation:
        self._close_blocking()
        index = self._index(task)
        self._question, self._source = self._questions.question(index), self._questions.source(index)
        self._tries = self._explore
        try:
            with closing(Sandbox(self._source, self._questions.limits)) as sandbox:
                tables = sandbox.schema()
        except (Refused, sqlite3.Error) as error:
            raise EnvUnavailable(f"the database {self._question.database} cannot be read: {error}") from error
        return Observation(wording.observe(self._question, tables, self.style))

    def _step_blocking(self, action: str) -> Step:
        submitted = _submitted(action) if self._explore else None
        counts = submitted is not None or self._tries == 0
        self._tries -= 1
        rows: list[Row] | None = None
        try:
            rows = self._run(action if submitted is None else submitted)
            text = wording.result(rows, self.style)
        except Refused as error:
            text = wording.cut(f"Error: {error}", self.style)
        if not counts:
            return Step(Observation(text), 0.0, terminated=False, info={"invalid": rows is None})
        right = rows is not None and set(rows) == self._answer()
        if rows is not None and self.style == "compact":
            text = wording.verdict(right)
        info = {"invalid": rows is None, "ground_truth": self._question.gold}
        return Step(Observation(text), float(right), terminated=True, info=info)

    def _run(self, query: str, trusted: bool = False) -> list[Row]:
        with POOL.lease() as worker:
            with self._lock:
                self._worker = worker
            try:
                return worker.run(self._source, self._questions.limits, query, trusted)
            finally:
                with self._lock:
                    self._worker = None

    def _close_blocking(self) -> None:
        """Stop a query that is still running: its result is not needed any more."""
        with self._lock:
            if self._worker is not None:
                self._worker.stop()

    def _answer(self) -> set[Row]:
        gold, database = self._question.gold, self._question.database
        try:
            return set(self._run(gold, trusted=True))
        except Killed as error:
            raise EnvTimeout(f"the gold query of {database} was stopped: {error}: {gold}") from error
        except Refused as error:
            raise EnvFault(f"the gold query of {database} fails: {error}: {gold}") from error

    def goal(self, task: Task) -> str:
        """Database, question and evidence."""
        return str(self._questions.question(self._index(task)))

    async def content(self, task: Task) -> str:
        return self.goal(task)

    def difficulty(self, task: Task) -> str:
        """``simple``, ``join``, ``aggregate`` or ``nested``; of BIRD its own label."""
        return self._questions.difficulty(self._index(task))

    def oracle(self, task: Task) -> list[str]:
        gold = self._questions.question(self._index(task)).gold
        return [f"submit {gold}" if self._explore else gold]


def _submitted(command: str) -> str | None:
    """The query behind ``submit``; None where a command does not begin so."""
    word, *rest = command.split(maxsplit=1) or [""]
    return "".join(rest) if word.lower() == "submit" else None
