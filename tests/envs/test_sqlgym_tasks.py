"""SQLGym's built-in questions: frozen, one answer each, databases and queries in one split each."""

import sqlite3
from collections import Counter
from random import Random

import pytest
from sessions import transcript
from sweep import some, thinned

from agentgym_rl.data import panels
from agentgym_rl.envs import Task
from agentgym_rl.envs.check import check
from agentgym_rl.envs.core import Style
from agentgym_rl.envs.sqlgym import SQLGym
from agentgym_rl.envs.sqlgym.database import SIZES, database
from agentgym_rl.envs.sqlgym.domains import DOMAINS
from agentgym_rl.envs.sqlgym.tasks import SPLITS, VERSIONS, BuiltIn
from agentgym_rl.envs.sqlgym.templates import TEMPLATES, Draw

FROZEN = {
    "train": "d2212e3f7c8d",
    "test": "88f107e942b3",
    "train_variants": "8a487cae4846",
    "val_variants": "6dd02aa16395",
    "test_variants": "209d02fedac2",
}
"""Digest of all tasks, or of every 23rd variant."""


def few(split: str) -> range:
    return SPLITS[split][:: 23 if split.endswith("variants") else 1]


@pytest.mark.parametrize("split", FROZEN)
def test_tasks_are_frozen(split: str) -> None:
    tasks = [Task("sqlgym", index) for index in few(split)]
    assert panels.digest(SQLGym(), tasks) == FROZEN[split]


TRANSCRIPTS = {
    "train agentgym": "187be7735943db89",
    "train compact": "da5ae87351b777bc",
    "test agentgym": "494f5eb0b090e3c1",
    "test compact": "393909d585eaf70d",
    "train_variants agentgym": "516c1659d26d4c36",
    "train_variants compact": "3a6197d1e9063e17",
    "val_variants agentgym": "8377004a7f3acb6a",
    "val_variants compact": "e3b76437fbe663fa",
    "test_variants agentgym": "931044353096f677",
    "test_variants compact": "f83bee547c07f065",
}
"""See :func:`.transcript`; the agent tries the oracle's query, then submits it."""


@pytest.mark.parametrize("style", ["agentgym", "compact"])
@pytest.mark.parametrize("split", thinned(FROZEN, 5))
def test_transcripts_are_frozen(split: str, style: Style) -> None:
    env = SQLGym(style, explore=1)
    digest = transcript(env, split, lambda solution: (solution[0].removeprefix("submit "), *solution))
    assert digest == TRANSCRIPTS[f"{split} {style}"]


@pytest.mark.sweep
@pytest.mark.parametrize(("split", "style"), [("train", "compact"), ("test", "agentgym")])
def test_oracle_solves(split: str, style: Style) -> None:
    env = SQLGym(style)
    for index in some(SPLITS[split]):
        task = Task("sqlgym", index)
        first = env._reset_blocking(task)
        assert len(first.text) < 1500
        (query,) = env.oracle(task)
        step = env._step_blocking(query)
        assert env.spec.success(step.reward), (index, query)


@pytest.mark.sweep
def test_no_answer_is_empty_or_everything_of_a_guess() -> None:
    env, tasks = SQLGym(), BuiltIn()
    for index in some(SPLITS["test"]):
        for guess in ("SELECT 0", "SELECT NULL", "SELECT 1 WHERE 0"):
            env._reset_blocking(Task("sqlgym", index))
            assert env._step_blocking(guess).reward == 0.0, tasks.question(index)


@pytest.mark.parametrize("domain", range(len(DOMAINS)))
def test_every_template_can_be_asked_of_every_domain(domain: int) -> None:
    rng = Random(domain)
    for version in (1000, 1001):
        data = database(domain, version)
        connection = sqlite3.connect(":memory:")
        connection.deserialize(data.image)
        for templates in TEMPLATES.values():
            for template in templates:
                answered = 0
                for _ in range(40):
                    draft = template.draft(Draw(DOMAINS[domain], data, rng))
                    for query in (*draft.agree, *draft.differ):
                        connection.execute(query).fetchall()
                    answered += bool(connection.execute(draft.sql).fetchall())
                    for text in draft.texts:
                        assert text[0].isupper() and text[-1] in ".?" and "  " not in text and "\n" not in text
                assert answered, template
        connection.close()


def test_databases_have_unique_names_and_rows_without_any_below() -> None:
    for domain, subject in enumerate(DOMAINS):
        data = database(domain, 1002)
        connection = sqlite3.connect(":memory:")
        connection.deserialize(data.image)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        for entity, sizes in zip(subject.entities, SIZES, strict=True):
            names = data.names[entity.table]
            assert len(names) in sizes
            assert len(set(names)) == len(names)
            assert not any(mark in name for name in names for mark in "'\"")
        for child, parent in ((subject.entities[1], subject.entities[0]), (subject.entities[2], subject.entities[1])):
            childless = f"SELECT id FROM {parent.table} WHERE id NOT IN (SELECT {parent.table}_id FROM {child.table})"
            assert connection.execute(childless).fetchall()
        connection.close()


@pytest.mark.slow
def test_domains_and_difficulties_are_balanced() -> None:
    env, tasks = SQLGym(), BuiltIn()
    for split in SPLITS:
        indices = SPLITS[split][:120]
        kinds = Counter((tasks.question(index).database, env.difficulty(Task("sqlgym", index))) for index in indices)
        assert len(kinds) == len(DOMAINS) * len(TEMPLATES) == 40
        assert set(kinds.values()) == {3}


@pytest.mark.slow
def test_splits_do_not_share_an_index_a_database_or_a_query() -> None:
    assert {split: len(SPLITS[split]) for split in SPLITS} == {
        "train": 400,
        "test": 120,
        "train_variants": 12_000,
        "val_variants": 1_200,
        "test_variants": 1_200,
    }
    assert len({index for indices in SPLITS.values() for index in indices}) == sum(map(len, SPLITS.values()))
    tasks = BuiltIn()
    queries: dict[str, set[str]] = {}
    databases: dict[str, set[str]] = {}
    for split in SPLITS:
        for index in few(split):
            question = tasks.question(index)
            queries.setdefault(question.gold, set()).add(split)
            databases.setdefault(f"{question.database} {question.version}", set()).add(split)
    assert [splits for splits in (*queries.values(), *databases.values()) if len(splits) > 1] == []
    assert sorted(digit for digits in SPLITS.shares.values() for digit in digits) == list(range(10))
    assert len({version for versions in VERSIONS.values() for version in versions}) == sum(map(len, VERSIONS.values()))


@pytest.mark.parametrize("split", ["train", "test"])
def test_no_question_occurs_twice(split: str) -> None:
    questions = [BuiltIn().question(index) for index in SPLITS[split]]
    assert len({(question.database, question.version, question.gold) for question in questions}) == len(questions)


def test_difficulty_shows_in_the_query() -> None:
    tasks = BuiltIn()
    for index in SPLITS["train"]:
        query, label = tasks.question(index).gold, tasks.difficulty(index)
        assert (query.count("SELECT") > 1) <= (label == "nested"), query
        assert (" JOIN " in query) <= (label != "simple"), query
        assert (" JOIN " in query) >= (label == "join"), query


@pytest.mark.slow
def test_keeps_the_contract_with_exploration() -> None:
    report = check("sqlgym", n=4, options={"explore": 2})
    assert [finding for finding in report.findings if finding.passed is False] == []
