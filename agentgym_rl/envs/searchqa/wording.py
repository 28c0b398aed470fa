"""Everything that the agent reads (``env.toml``), in each style."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_rl.envs.bm25 import tokens
from agentgym_rl.envs.bounds import cut
from agentgym_rl.envs.core import Style
from agentgym_rl.envs.searchqa.bm25 import Passage
from agentgym_rl.envs.texts import EnvTexts, read_texts

LONGEST_QUESTION, LONGEST_TITLE = 2_000, 80
LONGEST_OBSERVATION = 3_900
"""Characters of all passages of a search together; with many passages, each is cut shorter."""
LONGEST_HEADER = LONGEST_TITLE + 20


@dataclass(frozen=True, slots=True)
class Wording:
    """The observations of one style."""

    question: str
    invalid: str
    correct: str
    wrong: str
    again: str
    """Follows :attr:`wrong` where another answer may be given."""
    nothing: str
    """The result of a search that finds nothing."""
    passage: int
    """Characters of a passage that are shown."""


@dataclass(frozen=True, kw_only=True)
class Texts(EnvTexts):
    """The texts of ``env.toml``."""

    licence_of_files: str
    """Where the questions are official ones."""
    wordings: dict[str, Wording]


TEXTS = read_texts(__file__, Texts)

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def question(text: str, style: Style) -> str:
    """The first observation."""
    return TEXTS.wordings[style].question.format(cut(text, LONGEST_QUESTION))


def information(passages: Sequence[Passage], query: str, style: Style) -> str:
    """The result of a search; in the ``compact`` style one sentence of each passage."""
    if not passages:
        return TEXTS.wordings[style].nothing
    limit = min(TEXTS.wordings[style].passage, LONGEST_OBSERVATION // len(passages) - LONGEST_HEADER)
    if style == "compact":
        return "\n".join(_brief(passage, query, limit) for passage in passages)
    documents = "\n".join(
        f'Doc {number}(Title: "{cut(passage.title, LONGEST_TITLE)}") {cut(passage.text, limit)}'
        for number, passage in enumerate(passages, start=1)
    )
    return f"<information>{documents}</information>"


def _brief(passage: Passage, query: str, limit: int) -> str:
    sentence = cut(fitting_sentence(passage, query), limit)
    return sentence if passage.title in sentence else f"{cut(passage.title, LONGEST_TITLE)}: {sentence}"


def fitting_sentence(passage: Passage, query: str) -> str:
    """The first sentence with the most words of the query, apart from the words of the title."""
    words = set(tokens(query)) - set(tokens(passage.title))
    return max(_SENTENCE_END.split(passage.text), key=lambda sentence: len(words.intersection(tokens(sentence))))


def verdict(correct: bool, final: bool, style: Style) -> str:
    """The observation after an answer."""
    wording = TEXTS.wordings[style]
    if correct:
        return wording.correct
    return wording.wrong if final else wording.wrong + wording.again
