"""SearchQA: answer questions with a search engine."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from agentgym_rl.envs.core import (
    EnvSpec,
    Observation,
    OracleUnavailable,
    ProtocolError,
    Step,
    Style,
    Task,
    TaskNotFound,
    TextEnv,
)
from agentgym_rl.envs.searchqa import replies, tasks, wording
from agentgym_rl.envs.searchqa.articles import builtin
from agentgym_rl.envs.searchqa.corpus import open_corpus
from agentgym_rl.envs.searchqa.questions import Questions, open_questions
from agentgym_rl.envs.searchqa.remote import open_remote
from agentgym_rl.envs.searchqa.retriever import Retriever
from agentgym_rl.envs.searchqa.scoring import exact_match, f1

MAX_TOPK = 10
LONGEST_QUERY = 1_000
"""Characters of a query that are searched for."""


class SearchQA(TextEnv):
    """Question answering with a search tool as Search-R1 (Jin et al. 2025, arXiv:2503.09516) and AgentGym play it.

    The question is about an invented world of some 2,000 articles, unless ``questions`` are given. An answer earns
    what it scores beyond the best answer before, so an episode earns what its best answer scores; a score of 1 ends it.
    ``info`` holds ``invalid``, after an answer also ``em``, ``f1`` and ``raw_reward``, which is AgentGym's: 1 for an
    exact match, else 0.

    Args:
        style: wording of instruction and observations.
        reward: score an answer by exact match (``em``) or by ``f1``.
        final: let a wrong answer end the episode; in AgentGym one may try again.
        topk: passages a search gives, at most :data:`MAX_TOPK`.
        questions: a folder with AgentGym's questions, see :func:`.questions.open_questions`.
        corpus: a corpus in Search-R1's form to search, with its ``index``, see :mod:`.corpus`.
        url: the address of a search engine with Search-R1's API to use instead.
        timeout: seconds the engine has for a search.

    Raises:
        ValueError: an option is unknown or lacks the other it needs, or a file is missing or malformed.
        MissingExtra: a package the options need is not installed.
    """

    name = "searchqa"

    def __init__(
        self,
        style: Style = "agentgym",
        reward: Literal["em", "f1"] = "em",
        final: bool = False,
        topk: int = 3,
        questions: str | Path | None = None,
        corpus: str | Path | None = None,
        index: str | Path | None = None,
        url: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        super().__init__(style)
        if reward not in ("em", "f1"):
            raise ValueError(f"reward {reward!r} is unknown; choose em or f1")
        if not 1 <= topk <= MAX_TOPK:
            raise ValueError(f"topk is {topk}; choose 1 to {MAX_TOPK} passages")
        if questions is not None and corpus is None and url is None:
            raise ValueError("questions need something to search: give corpus and index, or url")
        self._reward, self._final, self._topk = reward, final, topk
        self._retriever = _retriever(corpus, index, url, timeout)
        self._questions: Questions | None = None if questions is None else open_questions(str(questions))
        self._spec = EnvSpec(
            name=self.name,
            instructions=wording.INSTRUCTIONS,
            splits=tasks.SPLITS if self._questions is None else self._questions.splits,
            max_turns=5,
            success_above=0.99,
            tools=replies.TOOLS,
            read=replies.read,
            write=replies.write,
            deterministic=url is None,
            extra=None if url is not None else "searchqa",
            licence=(
                "Apache-2.0; articles and questions are generated, all names are invented"
                if self._questions is None
                else "questions and corpus from files of the user's"
            ),
        )
        self._golden: tuple[str, ...] | None = None
        self._earned = 0.0

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    async def _reset(self, task: Task) -> Observation:
        question, self._golden = self._find(task)
        self._earned = 0.0
        return Observation(wording.question(question, self.style))

    async def _step(self, action: str) -> Step:
        if self._golden is None:
            raise ProtocolError("searchqa was stepped before a reset or after the end of the episode")
        request = replies.find(action)
        if request is None or not request.text:
            return Step(Observation(wording.invalid(self.style)), 0.0, terminated=False, info={"invalid": True})
        if request.kind == "answer":
            return self._judge(request.text, self._golden)
        passages = await self._retriever.search(request.text[:LONGEST_QUERY], self._topk)
        told = wording.information(passages, request.text, self.style)
        return Step(Observation(told), 0.0, terminated=False, info={"invalid": False})

    def _judge(self, answer: str, golden: tuple[str, ...]) -> Step:
        exact, overlap = float(exact_match(answer, golden)), f1(answer, golden)
        score = exact if self._reward == "em" else overlap
        gained = max(0.0, score - self._earned)
        self._earned += gained
        correct = score == 1.0
        ended = correct or self._final
        if ended:
            self._golden = None
        info = {"invalid": False, "em": exact, "f1": overlap, "raw_reward": exact}
        return Step(Observation(wording.verdict(correct, self._final, self.style)), gained, terminated=ended, info=info)

    async def _close(self) -> None:
        self._golden = None

    def goal(self, task: Task) -> str:
        """The question."""
        return self._find(task)[0]

    def difficulty(self, task: Task) -> str:
        """One of :data:`.chains.LEVELS`, or the data set of an official question."""
        if self._questions is None:
            return tasks.difficulty(self._index(task))
        return self._questions.find(self._index(task)).source

    def oracle(self, task: Task) -> list[str]:
        """A search for each article needed, then the answer.

        Raises:
            OracleUnavailable: the question is an official one.
        """
        if self._questions is not None:
            raise OracleUnavailable("searchqa knows the searches that lead to an answer for its built-in tasks only")
        puzzle = tasks.puzzle(self._index(task))
        searches = [str(replies.Request("search", query)) for query in puzzle.queries]
        return [*searches, str(replies.Request("answer", puzzle.answers[0]))]

    def _find(self, task: Task) -> tuple[str, tuple[str, ...]]:
        """Question and golden answers."""
        if self._questions is None:
            puzzle = tasks.puzzle(self._index(task))
            return puzzle.question, puzzle.answers
        question = self._questions.find(self._index(task))
        return question.text, question.answers

    def _index(self, task: Task) -> int:
        if task.env != self.name:
            raise TaskNotFound(f"{task} is not a task of {self.name}")
        return task.index


def _retriever(corpus: str | Path | None, index: str | Path | None, url: str | None, timeout: float) -> Retriever:
    if url is not None:
        if corpus is not None or index is not None:
            raise ValueError("give url, or corpus and index, not both")
        return open_remote(url, timeout)
    if (corpus is None) != (index is None):
        raise ValueError("corpus and index belong together: give both")
    if corpus is None:
        return builtin()
    return open_corpus(str(corpus), str(index))
