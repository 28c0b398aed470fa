"""SearchQA: answer questions with a search engine."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from agentgym_rl.envs.core import Observation, OracleUnavailable, Step, Style, Task, TextEnv
from agentgym_rl.envs.searchqa import articles, tags, wording
from agentgym_rl.envs.searchqa.bm25 import BM25
from agentgym_rl.envs.searchqa.corpus import open_corpus
from agentgym_rl.envs.searchqa.official import Official, open_questions
from agentgym_rl.envs.searchqa.remote import Remote
from agentgym_rl.envs.searchqa.tasks import BuiltIn
from agentgym_rl.envs.searchqa.wording import TEXTS

TIMEOUT = 30.0
"""Seconds without an answer until a search at an address fails."""
MAX_TOPK = 10
LONGEST_QUERY = 1_000
"""Characters of a query that are searched for."""


class SearchQA(TextEnv):
    """Question answering with a search tool, as in Search-R1 (Jin et al. 2025, arXiv:2503.09516) and AgentGym.

    The question is about some 2,000 invented articles unless ``questions`` are given. The reward of an answer is its
    score minus the best score before, so the sum over an episode is the best score. A score of 1 ends the episode.
    ``info`` holds ``invalid``, after an answer also ``em``, ``f1`` and ``raw_reward``, which is AgentGym's: 1 for an
    exact match, else 0.

    Args:
        style: wording of instruction and observations.
        reward: score an answer by exact match (``em``) or by ``f1``.
        final: whether a wrong answer ends the episode; in AgentGym it does not.
        topk: number of passages that a search returns, at most :data:`MAX_TOPK`.
        questions: a folder with AgentGym's questions, see :func:`.official.open_questions`.
        corpus: a corpus in Search-R1's form to search, see :mod:`.corpus`.
        index: the folder of its index.
        url: address of a search engine with Search-R1's API, instead of a corpus.
        timeout: seconds until a search at ``url`` fails.

    Raises:
        ValueError: an option is invalid or needs another one, or a file is missing or malformed.
        MissingExtra: a package that the options need is not installed.
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
        timeout: float = TIMEOUT,
    ) -> None:
        super().__init__(style)
        if not 1 <= topk <= MAX_TOPK:
            raise ValueError(f"topk is {topk}; choose 1 to {MAX_TOPK} passages")
        if questions is not None and corpus is None and url is None:
            raise ValueError("questions need something to search: give corpus and index, or url")
        self._reward, self._final, self._topk = reward, final, topk
        self._retriever = _retriever(corpus, index, url, timeout)
        self._questions: BuiltIn | Official = BuiltIn() if questions is None else open_questions(str(questions))
        self._spec = TEXTS.spec(
            self.name,
            self._questions.splits,
            read=tags.read,
            write=tags.write,
            deterministic=url is None,
            extra="searchqa" if url is None else "remote",
            licence=TEXTS.licence if questions is None else TEXTS.licence_of_files,
        )
        self._golden: tuple[str, ...] = ()
        self._best = 0.0

    async def _reset(self, task: Task) -> Observation:
        question = self._questions.question(self._index(task))
        self._golden, self._best = question.answers, 0.0
        return Observation(wording.question(question.text, self.style))

    async def _step(self, action: str) -> Step:
        request = tags.find(action)
        if request is None or not request.text:
            text = TEXTS.wordings[self.style].invalid
            return Step(Observation(text), 0.0, terminated=False, info={"invalid": True})
        if request.kind == "answer":
            return self._judge(request.text)
        passages = await self._retriever.search(request.text[:LONGEST_QUERY], self._topk)
        text = wording.information(passages, request.text, self.style)
        return Step(Observation(text), 0.0, terminated=False, info={"invalid": False})

    def _judge(self, answer: str) -> Step:
        exact, overlap = float(exact_match(answer, self._golden)), f1(answer, self._golden)
        score = exact if self._reward == "em" else overlap
        gained = max(0.0, score - self._best)
        self._best += gained
        correct = score == 1.0
        text = wording.verdict(correct, self._final, self.style)
        info = {"invalid": False, "em": exact, "f1": overlap, "raw_reward": exact}
        return Step(Observation(text), gained, terminated=correct or self._final, info=info)

    def goal(self, task: Task) -> str:
        """The question."""
        return self._questions.question(self._index(task)).text

    async def content(self, task: Task) -> str:
        return self.goal(task)

    def difficulty(self, task: Task) -> str:
        """One of :data:`.tasks.LEVELS`, or the data set of an official question."""
        return self._questions.difficulty(self._index(task))

    def oracle(self, task: Task) -> list[str]:
        """A search for each article that is needed, then the answer.

        Raises:
            OracleUnavailable: the question is an official one.
        """
        question = self._questions.question(self._index(task))
        if not question.queries:
            raise OracleUnavailable("searchqa knows the searches that lead to an answer for its built-in tasks only")
        searches = [str(tags.Request("search", query)) for query in question.queries]
        return [*searches, str(tags.Request("answer", question.answers[0]))]


@lru_cache(maxsize=16)
def _retriever(corpus: str | Path | None, index: str | Path | None, url: str | None, timeout: float) -> BM25 | Remote:
    """The search engine; the sessions of a process share it."""
    if url is None and timeout != TIMEOUT:
        raise ValueError(f"timeout={timeout:g} is for a search engine at url; give url, too, or leave it out")
    if url is not None:
        if corpus is not None or index is not None:
            raise ValueError("give url, or corpus and index, not both")
        return Remote(url, timeout)
    if (corpus is None) != (index is None):
        raise ValueError("corpus and index belong together: give both")
    return BM25(articles.load) if corpus is None else open_corpus(str(corpus), str(index))


_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalise(text: str) -> str:
    """Lower case, without punctuation, without articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golden: Sequence[str]) -> bool:
    """Whether the answer is one of the golden answers after normalisation, as in SQuAD (arXiv:1606.05250)."""
    normalised = normalise(answer)
    return any(normalised == normalise(each) for each in golden)


def f1(answer: str, golden: Sequence[str]) -> float:
    """Harmonic mean of precision and recall over words, in [0, 1]: the highest over the golden answers.

    An exact match is 1, also where no word is left after normalisation, as of the answer ``A``.
    """
    if exact_match(answer, golden):
        return 1.0
    words = Counter(normalise(answer).split())
    answers = [Counter(normalise(each).split()) for each in golden]
    return max((2 * (words & gold).total() / ((words + gold).total() or 1) for gold in answers), default=0.0)
