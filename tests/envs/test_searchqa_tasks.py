"""SearchQA's built-in questions: solvable by search, unambiguous, frozen, about different things in each split."""

import asyncio
import hashlib
from collections import Counter

import pytest
from sessions import transcript

from agentgym_rl.data import panels
from agentgym_rl.envs import Task
from agentgym_rl.envs.bm25 import Index
from agentgym_rl.envs.check import check
from agentgym_rl.envs.core import Style
from agentgym_rl.envs.searchqa import SearchQA, normalise
from agentgym_rl.envs.searchqa.articles import article, articles
from agentgym_rl.envs.searchqa.kinds import KINDS, LITERALS
from agentgym_rl.envs.searchqa.knowledge import Thing, regions
from agentgym_rl.envs.searchqa.tasks import LEVELS, SPLITS, BuiltIn

FROZEN = {
    "train": "1bb0b7acb8d0",
    "test": "cc994a61d2e0",
    "train_variants": "0584bd538f1c",
    "val_variants": "792785c23df9",
    "test_variants": "71d04fecddfe",
}
"""Digest of all tasks, or of every 23rd variant."""

SIZES = {"train": 480, "test": 120, "train_variants": 12_000, "val_variants": 1_200, "test_variants": 1_200}


question = BuiltIn().question


def few(split: str) -> range:
    return SPLITS[split][:: 23 if split.endswith("variants") else 1]


def things(split: str) -> list[Thing]:
    return [thing for kind in regions()[split].values() for thing in kind]


@pytest.mark.parametrize("split", FROZEN)
def test_tasks_are_frozen(split: str) -> None:
    tasks = [Task("searchqa", index) for index in few(split)]
    assert panels.digest(SearchQA(), tasks) == FROZEN[split]


TRANSCRIPTS = {
    "train agentgym": "92b683139c241135",
    "train compact": "b0040d8905299dcb",
    "test agentgym": "dd28c1949e9f0a78",
    "test compact": "b6814258f1a93f4f",
    "train_variants agentgym": "0905fbb005d2bb6e",
    "train_variants compact": "4d5830d2d7065222",
    "val_variants agentgym": "e272613d8e0260ce",
    "val_variants compact": "ecc53c4fd8ef4929",
    "test_variants agentgym": "7007816cf6dcb467",
    "test_variants compact": "45ed8f47e6ac754b",
}
"""See :func:`.transcript`; the agent follows the oracle after a word and a wrong answer."""

ARTICLES = "033124f659d5e489"
"""Start of the SHA-256 over all articles."""


@pytest.mark.parametrize("style", ["agentgym", "compact"])
@pytest.mark.parametrize("split", SPLITS)
def test_transcripts_are_frozen(split: str, style: Style) -> None:
    digest = transcript(SearchQA(style), split, lambda solution: ("nothing", "<answer>nothing</answer>", *solution))
    assert digest == TRANSCRIPTS[f"{split} {style}"]


def test_articles_are_frozen() -> None:
    assert hashlib.sha256("\n\n".join(articles()).encode()).hexdigest()[:16] == ARTICLES


@pytest.mark.parametrize("style", ["agentgym", "compact"])
@pytest.mark.parametrize("split", SPLITS)
def test_each_search_finds_its_article_and_names_the_next_thing(split: str, style: Style) -> None:
    async def solve() -> None:
        env = SearchQA(style)
        for index in few(split):
            task, problem = Task("searchqa", index), question(index)
            await env.reset(task)
            *searches, answer = env.oracle(task)
            assert len(searches) == len(problem.needed) <= 3
            observations = [(await env.step(search)).observation.text for search in searches]
            for place, title in enumerate(problem.needed):
                assert title in observations[place], (index, place)
                if place and env.difficulty(task) != "compare":
                    assert title in observations[place - 1], (index, place)
            assert problem.answers[-1] in observations[-1] or problem.answers[0] in observations[-1], index
            step = await env.step(answer)
            assert step.terminated and step.reward == 1.0

    asyncio.run(solve())


@pytest.mark.parametrize("split", SPLITS)
def test_the_question_does_not_contain_its_answer(split: str) -> None:
    for index in few(split):
        text = f" {normalise(question(index).text)} "
        assert not any(f" {normalise(answer)} " in text for answer in question(index).answers), index


@pytest.mark.parametrize("split", SPLITS)
def test_no_question_occurs_twice(split: str) -> None:
    assert len({question(index).text for index in SPLITS[split]}) == SIZES[split]


def test_levels_take_turns() -> None:
    env = SearchQA()
    for split in SPLITS:
        levels = Counter(env.difficulty(Task("searchqa", index)) for index in SPLITS[split])
        assert levels == dict.fromkeys(LEVELS, SIZES[split] // len(LEVELS))
    searches = {"hops 1": 1, "hops 2": 2, "hops 3": 3, "compare": 3}
    for index in few("test"):
        assert len(question(index).queries) == searches[env.difficulty(Task("searchqa", index))]


def test_splits_share_no_index_and_nothing_to_ask_about() -> None:
    assert {split: len(SPLITS[split]) for split in SPLITS} == SIZES
    assert min(map(min, SPLITS.values())) == 300_000
    assert len({index for indices in SPLITS.values() for index in indices}) == sum(SIZES.values())
    owners = [{thing.title for thing in things(split)} for split in SPLITS]
    assert sum(map(len, owners)) == len(set().union(*owners)) == len(list(articles()))
    for split in SPLITS:
        titles = {thing.title for thing in things(split)}
        for thing in things(split):
            assert all(isinstance(value, str) or value.title in titles for value in thing.facts.values())


def test_every_article_says_its_facts_in_sentences_with_the_word_to_search_for() -> None:
    for thing in things("test"):
        text = article(thing)
        sentences = text.split("\n")[1].split(". ")
        assert text.startswith(f'"{thing.title}"\n') and thing.title in sentences[0]
        assert len(sentences) == len(thing.facts) <= 5 and len(text) < 300
        for name, value in thing.facts.items():
            fact = value if isinstance(value, str) else value.title
            word = thing.kind.relation(name).word
            assert any(fact in each and word in each.casefold() for each in sentences), (thing.title, name)


def test_the_facts_make_sense() -> None:
    for split in SPLITS:
        for thing in things(split):
            facts = thing.facts
            if isinstance(facts.get("teacher"), Thing):
                assert 18 <= thing.number("born") - facts["teacher"].number("born") <= 50
            if isinstance(facts.get("author"), Thing):
                assert thing.number("published") > facts["author"].number("born")
            if isinstance(facts.get("novel"), Thing):
                assert thing.number("performed") > facts["novel"].number("published")
            if thing.kind.name == "country":
                assert facts["capital"].facts["country"] is thing
                assert facts["mountain"].facts["country"] is thing


def test_kinds_are_whole() -> None:
    for kind in KINDS.values():
        assert bool(kind.comparisons) == bool(kind.pair)
        assert all(kind.relation(each.relation).target in LITERALS for each in kind.comparisons)
        for relation in kind.relations:
            assert (relation.target in KINDS) != (relation.target in LITERALS)
            assert bool(relation.phrase) == (relation.target in KINDS)


def test_ties_go_to_the_passage_that_comes_first() -> None:
    index = Index.over(["red stone", "blue stone", "red stone", "green", "red stone", "stone red"])
    assert index.best("red stone", 2) == [0, 2]
    assert index.best("red stone", 10) == [0, 2, 4, 5, 1]
    assert index.best("stone stone", 3) == index.best("Stone", 3) == [0, 1, 2]
    assert index.best("yellow", 3) == index.best("", 3) == []
    with pytest.raises(ValueError, match="nothing to index"):
        Index.over(["", "the"])


@pytest.mark.slow
def test_checker_is_green() -> None:
    report = check("searchqa", split="test", n=4)
    assert [finding for finding in report.findings if finding.passed is False] == []
