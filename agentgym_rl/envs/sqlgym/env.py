"""SQLGym: answer questions about a database with one SQL query."""

from __future__ import annotations

from pathlib import Path

from agentgym_rl.envs.core import (
    BlockingEnv,
    EnvSpec,
    EnvUnavailable,
    Observation,
    ProtocolError,
    Step,
    Style,
    Task,
    TaskNotFound,
)
from agentgym_rl.envs.sqlgym import wording
from agentgym_rl.envs.sqlgym.bird import Bird
from agentgym_rl.envs.sqlgym.question import Collection, Question
from agentgym_rl.envs.sqlgym.sandbox import Refused, Row, Sandbox
from agentgym_rl.envs.sqlgym.tasks import BuiltIn
from agentgym_rl.envs.tools import Tool

_QUERY = {"query": {"type": "string", "description": "one SQLite SELECT statement"}}
EXECUTE = Tool("execute_sql", "Run a query on the database.", _QUERY, commands=("{query}",))
SUBMIT = Tool("submit_sql", "Give a query as the answer.", _QUERY, commands=("submit {query}",))


class SQLGym(BlockingEnv):
    """Text to SQL as AgentGym's SQLGym plays BIRD, and questions about databases of our own.

    The query that counts ends the episode. It earns 1 when it gives the rows of the gold query, in any order and
    however often (BIRD's execution match), else 0. A query the database refuses is ``invalid``. ``info`` holds
    ``invalid`` and, after the query that counts, AgentGym's ``ground_truth``: the gold query.

    Args:
        style: wording of instruction and observations.
        data: BIRD's folder; see :mod:`agentgym_rl.envs.sqlgym.bird`. Then tasks are AgentGym's.
        explore: queries that may be tried, with their results shown, before one counts; ``submit`` in front of a query
            makes it count earlier.

    Raises:
        FileNotFoundError, ValueError: the folder is not BIRD's, or ``explore`` is negative.
    """

    name = "sqlgym"

    def __init__(self, style: Style = "agentgym", data: str | Path | None = None, explore: int = 0) -> None:
        super().__init__(style)
        if explore < 0:
            raise ValueError(f"explore is {explore}; give the number of queries that do not count, 0 or more")
        self._explore = explore
        self._questions: Collection = BuiltIn() if data is None else Bird(data)
        instructions = dict(wording.INSTRUCTIONS)
        if explore:
            instructions = {
                style: text + wording.EXPLORE[style].format(n=explore) for style, text in instructions.items()
            }
        self._spec = EnvSpec(
            name=self.name,
            instructions=instructions,
            splits=self._questions.splits,
            max_turns=1 + explore,
            success_above=0.99,
            tools=(SUBMIT, EXECUTE) if explore else (EXECUTE,),
            read=wording.read,
            write=wording.write,
            licence="Apache-2.0; databases and questions written for this package"
            if data is None
            else "BIRD: CC BY-SA 4.0; not part of this package",
        )
        self._question: Question | None = None
        self._sandbox: Sandbox | None = None
        self._tries = 0

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    def _reset_blocking(self, task: Task) -> Observation:
        index = self._index(task)
        question = self._questions.question(index)
        self._close_blocking()
        self._sandbox = self._questions.open(index)
        self._question = question
        self._tries = self._explore
        try:
            tables = self._sandbox.schema()
        except Refused as error:
            raise EnvUnavailable(f"the database {question.database} cannot be read: {error}") from error
        return Observation(wording.observe(question, tables, self.style))

    def _step_blocking(self, action: str) -> Step:
        if self._question is None or self._sandbox is None:
            raise ProtocolError("sqlgym was stepped before a reset or after the end of the episode")
        word, _, rest = action.strip().partition(" ")
        submitted = self._explore > 0 and word.lower() == "submit"
        counts = submitted or self._tries == 0
        self._tries -= 1
        rows: list[Row] | None = None
        try:
            rows = self._sandbox.run(rest if submitted else action)
            text = wording.result(rows, self.style)
        except Refused as error:
            text = wording.cut(f"Error: {error}", self.style)
        if not counts:
            return Step(Observation(text), 0.0, terminated=False, info={"invalid": rows is None})
        right = rows is not None and set(rows) == self._answer(self._question, self._sandbox)
        if rows is not None and self.style == "compact":
            text = wording.verdict(right)
        info = {"invalid": rows is None, "ground_truth": self._question.gold}
        self._close_blocking()
        return Step(Observation(text), float(right), terminated=True, info=info)

    def _close_blocking(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
        self._question = self._sandbox = None

    def goal(self, task: Task) -> str:
        """Database, question and evidence."""
        return str(self._questions.question(self._index(task)))

    def difficulty(self, task: Task) -> str:
        """``simple``, ``join``, ``aggregate`` or ``nested``; of BIRD its own label."""
        return self._questions.difficulty(self._index(task))

    def oracle(self, task: Task) -> list[str]:
        gold = self._questions.question(self._index(task)).gold
        return [f"submit {gold}" if self._explore else gold]

    @staticmethod
    def _answer(question: Question, sandbox: Sandbox) -> set[Row]:
        try:
            return set(sandbox.run(question.gold, trusted=True))
        except Refused as error:
            raise ProtocolError(f"the gold query of {question.database} fails: {error}: {question.gold}") from error

    def _index(self, task: Task) -> int:
        if task.env != self.name:
            raise TaskNotFound(f"{task} is not a task of {self.name}")
        return task.index
