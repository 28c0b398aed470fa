"""Everything the agent reads, in each style."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.searchqa.retriever import Passage
from agentgym_rl.envs.searchqa.tokens import tokens

INSTRUCTIONS: Mapping[Style, str] = {
    "agentgym": (
        "You answer a question with the help of a search engine. In each round, first reason inside <think> and "
        "</think>. Then do one of two things:\n"
        "- If you lack knowledge, write a query between <search> and </search> and stop. The passages found are given "
        "to you between <information> and </information>; never write those yourself. Search as often as you need.\n"
        "- If you know enough, write the answer between <answer> and </answer>, as short as possible and without "
        "explanation.\n\n"
        "For example:\n"
        "Question: Who wrote the anthem of the country where the Rhine rises?\n"
        "<think> I need the country where the Rhine rises. </think>\n"
        "<search> Rhine source country </search>\n"
        '<information>Doc 1(Title: "Rhine") The Rhine rises in the Swiss Alps.</information>\n'
        "<think> The country is Switzerland. Who wrote its anthem? </think>\n"
        "<search> Swiss national anthem composer </search>"
    ),
    "compact": "Answer. Reply `<search> words </search>` to look up, `<answer> text </answer>` at the end.",
}

_INVALID: Mapping[Style, str] = {
    "agentgym": (
        "That was no action. Put a query between <search> and </search>, or your final answer between <answer> and "
        "</answer>, and try again."
    ),
    "compact": "invalid",
}
_CORRECT: Mapping[Style, str] = {"agentgym": "Your answer is correct.", "compact": "correct"}
_WRONG: Mapping[Style, str] = {"agentgym": "Your answer is not correct.", "compact": "wrong"}
_AGAIN: Mapping[Style, str] = {"agentgym": " Please try again.", "compact": ""}
_NOTHING: Mapping[Style, str] = {
    "agentgym": "<information>No passage was found.</information>",
    "compact": "nothing found",
}

LONGEST_QUESTION, LONGEST_TITLE = 2_000, 80
LONGEST_PASSAGE: Mapping[Style, int] = {"agentgym": 1_200, "compact": 160}
LONGEST_OBSERVATION = 3_900
"""Characters of all passages of a search together; where there are many, each is cut shorter."""
LONGEST_HEADER = LONGEST_TITLE + 20

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def question(text: str, style: Style) -> str:
    """The first observation."""
    return cut(text, LONGEST_QUESTION) if style == "compact" else f"Question: {cut(text, LONGEST_QUESTION)}"


def information(passages: Sequence[Passage], query: str, style: Style) -> str:
    """What a search found; in the ``compact`` style one sentence of each passage."""
    if not passages:
        return _NOTHING[style]
    limit = min(LONGEST_PASSAGE[style], LONGEST_OBSERVATION // len(passages) - LONGEST_HEADER)
    if style == "compact":
        return "\n".join(_in_brief(passage, query, limit) for passage in passages)
    documents = "\n".join(
        f'Doc {number}(Title: "{cut(passage.title, LONGEST_TITLE)}") {cut(passage.text, limit)}'
        for number, passage in enumerate(passages, start=1)
    )
    return f"<information>{documents}</information>"


def _in_brief(passage: Passage, query: str, limit: int) -> str:
    sentence = cut(fitting_sentence(passage, query), limit)
    return sentence if passage.title in sentence else f"{cut(passage.title, LONGEST_TITLE)}: {sentence}"


def fitting_sentence(passage: Passage, query: str) -> str:
    """The sentence with most of the query's words that are not the title's; of several the first."""
    words = set(tokens(query)) - set(tokens(passage.title))
    return max(_SENTENCE_END.split(passage.text), key=lambda sentence: len(words.intersection(tokens(sentence))))


def verdict(correct: bool, final: bool, style: Style) -> str:
    """What follows an answer."""
    if correct:
        return _CORRECT[style]
    return _WRONG[style] if final else _WRONG[style] + _AGAIN[style]


def invalid(style: Style) -> str:
    """What follows a reply that asks for nothing."""
    return _INVALID[style]


def cut(text: str, limit: int) -> str:
    """The text within a number of characters, with a mark where the rest is missing."""
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."
