"""BIRD's layout, read from a small folder made here."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from agentgym_rl.envs import Task
from agentgym_rl.envs.check import check
from agentgym_rl.envs.core import EnvFault, EnvUnavailable, TaskNotFound
from agentgym_rl.envs.sqlgym import SQLGym

TRAIN = [
    {
        "db_id": "films",
        "question": "How many films are long?",
        "evidence": "long refers to minutes > 120",
        "SQL": "SELECT COUNT(*) FROM `film list` WHERE minutes > 120",
    },
    {"db_id": "films", "question": "Name all\ndirectors.", "evidence": "", "SQL": "SELECT name FROM director\n"},
]
DEV = [
    {
        "question_id": 0,
        "db_id": "pets",
        "question": "How many pets?",
        "evidence": "",
        "SQL": "SELECT COUNT(id) FROM pet",
        "difficulty": "simple",
    },
    {
        "question_id": 1,
        "db_id": "pets",
        "question": "Broken?",
        "evidence": "",
        "SQL": "SELECT collar FROM pet",
        "difficulty": "challenging",
    },
]


def write_part(folder: Path, part: str, entries: object, database: str, script: str) -> None:
    path = folder / part / f"{part}_databases" / database / f"{database}.sqlite"
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    (folder / part / f"{part}.json").write_text(json.dumps(entries))


@pytest.fixture
def bird(tmp_path: Path) -> Path:
    write_part(
        tmp_path,
        "train",
        TRAIN,
        "films",
        "CREATE TABLE director (id INTEGER PRIMARY KEY, name TEXT);"
        "CREATE TABLE `film list` (id INTEGER, minutes INTEGER, director INTEGER REFERENCES director);"
        "INSERT INTO director VALUES (1, 'Ada'), (2, CAST(x'42ff' AS TEXT));"
        "INSERT INTO `film list` VALUES (1, 90, 1), (2, 150, 1), (3, 121, 2);",
    )
    write_part(tmp_path, "dev", DEV, "pets", "CREATE TABLE pet (id INTEGER); INSERT INTO pet VALUES (1), (2), (3);")
    return tmp_path


def answer(env: SQLGym, index: int, query: str) -> tuple[str, str, float]:
    """First observation, answer and reward of a query."""
    first = env._reset_blocking(Task("sqlgym", index))
    step = env._step_blocking(query)
    return first.text, step.observation.text, step.reward


def test_numbers_are_agentgyms(bird: Path) -> None:
    env = SQLGym(data=bird)
    assert env.spec.splits == {"train": range(0, 2), "test": range(9_428, 9_430)}
    assert env.goal(Task("sqlgym", 1)) == "films: Name all directors."
    assert [env.difficulty(Task("sqlgym", index)) for index in (0, 1, 9_428, 9_429)] == [
        "unrated",
        "unrated",
        "simple",
        "challenging",
    ]
    assert env.oracle(Task("sqlgym", 1)) == ["SELECT name FROM director"]


def test_transcript(bird: Path) -> None:
    first, text, reward = answer(SQLGym(data=bird), 0, "SELECT 2")
    assert first == (
        "The database films has these tables:\n"
        "- director: id INTEGER (primary key), name TEXT\n"
        "- film list: id INTEGER, minutes INTEGER, director INTEGER (refers to director)\n\n"
        "Question: How many films are long?\n"
        "Evidence: long refers to minutes > 120"
    )
    assert (text, reward) == ("[(2,)]", 1.0)
    first, text, reward = answer(SQLGym("compact", data=bird), 0, "SELECT 3")
    assert first == (
        "director id name; film list id minutes director | long refers to minutes > 120 | How many films are long?"
    )
    assert (text, reward) == ("wrong", 0.0)


def test_text_that_is_not_unicode_is_read(bird: Path) -> None:
    assert answer(SQLGym(data=bird), 1, "SELECT name FROM director ORDER BY 1")[1:] == ("[('Ada',), ('B\ufffd',)]", 1.0)


def test_files_are_not_written(bird: Path) -> None:
    path = bird / "dev" / "dev_databases" / "pets" / "pets.sqlite"
    before = path.read_bytes()
    env = SQLGym(data=bird)
    for query in (
        "DELETE FROM pet",
        "CREATE TABLE x (y)",
        f"ATTACH '{bird}/new.db' AS x",
        f"VACUUM INTO '{bird}/copy.db'",
    ):
        text, reward = answer(env, 9_428, query)[1:]
        assert text.startswith("Error: ") and reward == 0.0
    assert path.read_bytes() == before
    assert sorted(each.name for each in bird.iterdir()) == ["dev", "train"]


def test_keeps_the_contract(bird: Path) -> None:
    entries = json.loads((bird / "dev" / "dev.json").read_text())
    (bird / "dev" / "dev.json").write_text(json.dumps(entries[:1]))
    report = check("sqlgym", n=None, options={"data": str(bird)})
    assert [finding for finding in report.findings if finding.passed is False] == []


def test_built_in_tasks_are_not_there(bird: Path) -> None:
    for index in (2, 9_427, 9_430, 20_000, -1):
        with pytest.raises(TaskNotFound, match=r"valid are 0 to 1 and 9428 to 9429"):
            SQLGym(data=bird).goal(Task("sqlgym", index))


def test_one_part_will_do(bird: Path) -> None:
    (bird / "train" / "train.json").unlink()
    env = SQLGym(data=bird)
    assert env.spec.splits == {"train": range(0), "test": range(9_428, 9_430)}
    assert answer(env, 9_428, "SELECT 3")[2] == 1.0
    with pytest.raises(TaskNotFound, match="valid are 9428 to 9429"):
        env.goal(Task("sqlgym", 0))


def test_gold_query_that_fails_is_not_the_agents_doing(bird: Path) -> None:
    with pytest.raises(EnvFault, match="gold query of pets fails: no such column: collar"):
        answer(SQLGym(data=bird), 9_429, "SELECT 1")
    assert answer(SQLGym(data=bird), 9_429, "SELECT")[2] == 0.0


def test_faults_are_named(bird: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"neither train/train.json nor dev/dev.json"):
        SQLGym(data=bird / "train")
    listed = bird / "dev" / "dev.json"
    for text, message in (
        ("[{", r"dev\.json: not JSON \(Expecting"),
        ("{}", r"dev\.json: expected a list, found dict"),
        ('[{"db_id": "pets", "question": "?"}]', r"dev\.json, entry 0: has no 'SQL'"),
        (json.dumps(DEV * 800), r"dev\.json: has 1600 entries; AgentGym numbers 1534"),
    ):
        listed.write_text(text)
        with pytest.raises(ValueError, match=message):
            SQLGym(data=bird)
    listed.write_text(json.dumps([{**DEV[0], "db_id": "cars"}]))
    with pytest.raises(FileNotFoundError, match=r"asks about cars, but there is no .*cars\.sqlite"):
        SQLGym(data=bird)


def test_a_broken_database_is_named(bird: Path) -> None:
    (bird / "dev" / "dev_databases" / "pets" / "pets.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(EnvUnavailable, match="pets"):
        asyncio.run(SQLGym(data=bird).reset(Task("sqlgym", 9_428)))
