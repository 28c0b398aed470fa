"""SQLGym as an agent meets it: responses, queries, what is refused, endings."""

import asyncio
import sqlite3
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import play
from sweep import swept

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.actions import Action, ActionFormat
from agentgym_rl.envs.core import ProtocolError, Style, TaskNotFound
from agentgym_rl.envs.formats import reader, write
from agentgym_rl.envs.probe import GARBAGE
from agentgym_rl.envs.sqlgym import SQLGym, sandbox, wording
from agentgym_rl.envs.sqlgym.database import database
from agentgym_rl.envs.sqlgym.sandbox import Limits, Refused, Sandbox
from agentgym_rl.envs.sqlgym.tasks import LIMITS, SPLITS

INDEX = 20_006
SCHEMA = (
    "The database education has these tables:\n"
    "- town: id INTEGER (primary key), name TEXT, region TEXT, population INTEGER\n"
    "- school: id INTEGER (primary key), name TEXT, type TEXT, rooms INTEGER, founded INTEGER, town_id INTEGER "
    "(refers to town.id)\n"
    "- pupil: id INTEGER (primary key), name TEXT, club TEXT, score INTEGER, absences INTEGER, school_id INTEGER "
    "(refers to school.id)\n\n"
    "Question: "
)
QUESTION = 'What is the average score of the pupils whose club is "football"?'


@pytest.fixture
def reading() -> Sandbox:
    """A built-in database of the library."""
    return Sandbox(database(0, 0).image, LIMITS)


@pytest.mark.parametrize(
    ("style", "first", "answers"),
    [
        ("agentgym", SCHEMA + QUESTION, ["[(1,)]", "[(55.75,)]", "Error: no such column: x"]),
        (
            "compact",
            "town id name region population; school id name type rooms founded town_id; pupil id name club score "
            "absences school_id | " + QUESTION,
            ["wrong", "right", "Error: no such column: x"],
        ),
    ],
)
def test_transcript(style: Style, first: str, answers: list[str]) -> None:
    env = SQLGym(style)
    gold = "SELECT AVG(score) FROM pupil WHERE club = 'football'"
    assert env.oracle(Task("sqlgym", INDEX)) == [gold]
    for query, answer, reward in zip(("SELECT 1", gold, "SELECT x"), answers, (0.0, 1.0, 0.0), strict=True):
        shown, (step,) = play(env, INDEX, query)
        assert shown.text == first
        assert step.observation.text == answer
        assert (step.reward, step.terminated, step.truncated) == (reward, True, False)
        assert step.info == {"invalid": answer.startswith("Error"), "ground_truth": gold}


def test_rows_count_in_any_order_and_however_often() -> None:
    env = SQLGym()
    task = next(i for i in SPLITS["train"] if env.oracle(Task("sqlgym", i))[0].startswith("SELECT name FROM author W"))
    gold = env.oracle(Task("sqlgym", task))[0]
    for query, reward in (
        (f"{gold} ORDER BY name DESC;", 1.0),
        (f"{gold} UNION ALL {gold}", 1.0),
        (gold.replace("SELECT name", "SELECT name, 1"), 0.0),
        (f"{gold} LIMIT 0", 0.0),
    ):
        assert play(env, task, query)[1][0].reward == reward, query


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("Thought: count\n\nAction: ```sql\nSELECT 1;\n```", Action("SELECT 1;", "count")),
        ("Action: ```sql SELECT 1```", Action("SELECT 1", "")),
        ("This: ```sql\nSELECT 1\n``` or ```sql\nSELECT 2\n```.", Action("SELECT 2", "This: ```sql\nSELECT 1\n``` or")),
        ("Thought: easy\nAction: SELECT 3", Action("SELECT 3", "easy")),
        ("SELECT 4", Action("SELECT 4", "")),
        ("", Action("", "")),
    ],
)
def test_responses(response: str, action: Action) -> None:
    assert wording.read(response) == action


@given(
    st.text(alphabet=st.characters(codec="utf-8"), min_size=1)
    .map(str.strip)
    .filter(lambda text: text and "`" not in text)
)
@settings(max_examples=swept(100), deadline=None)
def test_commands_survive_every_format(command: str) -> None:
    env = SQLGym()
    assert wording.read(wording.write(command, "why")) == Action(command, "why")
    for action_format in (ActionFormat.FUNCTION_CALLING, ActionFormat.CODE_AS_ACTION):
        parsed = reader(env.spec, action_format)(write(env.spec, action_format, command, "why"))
        assert parsed == Action(command, "why")


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM book",
        "INSERT INTO author VALUES (99, 'x', 'y', 1)",
        "UPDATE book SET price = 0",
        "DROP TABLE book",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x AS SELECT 1",
        "ATTACH DATABASE 'other.db' AS other",
        "ATTACH ':memory:' AS other",
        "VACUUM INTO 'copy.db'",
        "PRAGMA query_only = 0",
        "PRAGMA journal_mode = WAL",
        "SELECT load_extension('x')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT FTS3_TOKENIZER('simple', x'4141414141414141')",
        "SELECT fts5(1)",
        "SELECT rtreenode(2, zeroblob(40))",
        "SELECT sqlite_log(1, 'x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT * FROM pragma_database_list",
        "SELECT * FROM pragma_table_info('author')",
        "SELECT * FROM dbstat",
        "SELECT COUNT(*) FROM dbstat WHERE name = 'book'",
        "SELECT * FROM sqlite_stmt",
        "SELECT * FROM json_each('[1]')",
        "SELECT sqlite_compileoption_get(1)",
        "CREATE VIRTUAL TABLE x USING fts5(a)",
        "SELECT replace(printf('%.*c', 9999, 'a'), 'a', printf('%.*c', 9999, 'b'))",
        "SELECT random()",
        "SELECT name FROM author ORDER BY RANDOM() LIMIT 1",
        "BEGIN",
        "SAVEPOINT x",
        "SELECT 1; SELECT 2",
        "SELECT 'a\x00b'",
        "SELECT '\udc80'",
        "SELECT zeroblob(1000000)",
        "",
        "-- nothing",
        "qwzx",
        "(" * 5000,
        "SELECT * FROM book a, book b, book c, review d, review e, review f",
        "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT COUNT(*) FROM c",
    ],
)
def test_what_is_refused(reading: Sandbox, query: str) -> None:
    before = reading.run("SELECT * FROM book ORDER BY id")
    with pytest.raises(Refused):
        reading.run(query)
    assert reading.run("SELECT * FROM book ORDER BY id") == before


@pytest.mark.parametrize(
    "query", ["SELECT * FROM dbstat", "SELECT * FROM pragma_table_info('author')", "SELECT mine()"]
)
def test_what_a_build_of_sqlite_has_besides_is_refused(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sandbox._connect

    def connected(source: sandbox.Source) -> sqlite3.Connection:
        connection = connect(source)
        connection.create_function("mine", 0, lambda: 1)
        assert connection.execute(query).fetchall()
        return connection

    monkeypatch.setattr(sandbox, "_connect", connected)
    with pytest.raises(Refused, match=r"prohibited|not authorized"):
        Sandbox(database(0, 0).image, LIMITS).run(query)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT name FROM sqlite_master WHERE type = 'table'", [("author",), ("book",), ("review",)]),
        ("PRAGMA table_info(author)", None),
        ("WITH few (n) AS (SELECT 1 UNION SELECT 2) SELECT n FROM few", [(1,), (2,)]),
        ("SELECT upper('a') || 'b'", [("Ab",)]),
        ("VALUES (1, NULL)", [(1, None)]),
        ("WITH few (n) AS (VALUES (1), (2)) SELECT COUNT(*) FROM few", [(2,)]),
        ("SELECT COUNT(*) FROM (SELECT NAME FROM AUTHOR UNION SELECT title FROM book) LIMIT 0", []),
        ("SELECT TYPE FROM sqlite_schema LIMIT 1", [("table",)]),
        ("SELECT json_extract('[1, 2]', '$[1]'), max(1, 2), count(*) OVER ()", [(2, 2, 1)]),
    ],
)
def test_what_may_be_read(reading: Sandbox, query: str, rows: list[tuple[object, ...]] | None) -> None:
    result = reading.run(query)
    assert result if rows is None else result == rows


def test_schema(reading: Sandbox) -> None:
    author, book, _ = reading.schema()
    assert author == sandbox.Table(
        "author", (("id", "INTEGER"), ("name", "TEXT"), ("country", "TEXT"), ("born", "INTEGER")), ("id",), ()
    )
    assert book.references == (("author_id", "author", "id"),)


def test_a_query_has_its_instructions_whatever_ran_before() -> None:
    tight = Sandbox(database(0, 0).image, Limits(instructions=20_000, text=1000, rows=10, seconds=5))
    heavy = "SELECT COUNT(*) FROM review a, review b, review c"
    for _ in range(2):
        with pytest.raises(Refused, match="the query takes too long"):
            tight.run(heavy)
        assert tight.run("SELECT COUNT(*) FROM author") == tight.run("SELECT COUNT(id) FROM author")
    assert tight.run(heavy, trusted=True)


def test_result_is_bounded(reading: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    short = Sandbox(database(0, 0).image, Limits(instructions=20_000, text=1000, rows=10, seconds=5))
    with pytest.raises(Refused, match="the result is too large"):
        short.run("SELECT id FROM review")
    monkeypatch.setattr(sandbox, "SIZE", 100)
    with pytest.raises(Refused, match="the result is too large"):
        reading.run("SELECT hex(zeroblob(100))")


@pytest.mark.parametrize(("style", "limit"), [("agentgym", 1003), ("compact", 203)])
def test_long_results_are_cut(style: Style, limit: int) -> None:
    _, (step,) = play(SQLGym(style, explore=1), INDEX, "SELECT a.*, b.* FROM pupil a, pupil b")
    assert len(step.observation.text) == limit
    assert step.observation.text.endswith("...")
    _, (step,) = play(SQLGym(style, explore=1), INDEX, f"SELECT {'x' * 5000}")
    assert len(step.observation.text) == limit


def test_explore_shows_results_before_one_counts() -> None:
    env = SQLGym(explore=2)
    assert env.spec.max_turns == 3
    assert "2 queries" in env.spec.instructions["agentgym"]
    answer = env.oracle(Task("sqlgym", INDEX))[0].removeprefix("submit ")
    _, steps = play(env, INDEX, answer, "SELECT x", answer)
    assert [(step.reward, step.terminated) for step in steps] == [(0.0, False), (0.0, False), (1.0, True)]
    assert [step.info["invalid"] for step in steps] == [False, True, False]
    for start in ("Submit  ", "submit\n", "submit\t"):
        _, (step,) = play(env, INDEX, f"{start}{answer}")
        assert step.reward == 1.0
    _, (step,) = play(env, INDEX, "submit")
    assert (step.info["invalid"], step.terminated) == (True, True)
    _, (step,) = play(env, INDEX, "submit SELECT 1")
    assert (step.reward, step.terminated) == (0.0, True)
    with pytest.raises(ValueError, match="explore is -1"):
        SQLGym(explore=-1)


def test_step_out_of_order() -> None:
    env = make("sqlgym")
    assert isinstance(env, SQLGym)
    with pytest.raises(ProtocolError):
        asyncio.run(env.step("SELECT 1"))
    play(env, INDEX, "SELECT 1")
    with pytest.raises(ProtocolError):
        asyncio.run(env.step("SELECT 1"))
    play(env, INDEX, "SELECT 1")  # a reset opens it again


def test_index_that_no_task_has() -> None:
    for ask in (SQLGym().goal, SQLGym().difficulty, SQLGym().oracle):
        for index in (-1, 10_962, 10**15):
            with pytest.raises(TaskNotFound, match="valid are 20000 to 34919"):
                ask(Task("sqlgym", index))
        for index in (0, 10_961):
            with pytest.raises(TaskNotFound, match="data=<path of BIRD's folder"):
                ask(Task("sqlgym", index))
    with pytest.raises(TaskNotFound, match="maze_0 is not a task of sqlgym"):
        SQLGym().goal(Task("maze", 0))


VOCABULARY = (
    "SELECT|FROM|WHERE|JOIN|ON|GROUP BY|HAVING|ORDER BY|LIMIT|DISTINCT|COUNT(|MAX(|)|*|,|;|'|=|<|1|0|NULL|AND|OR|NOT|"
    "IN|UNION ALL|WITH|AS|id|name|town|school|pupil|club|score|DELETE|PRAGMA|ATTACH|submit|hex(|zeroblob(|\x00|☃"
)
PIECES = VOCABULARY.split("|")


@pytest.mark.sweep
def test_random_actions() -> None:
    rng = Random(0)
    env = SQLGym(explore=6)
    single = SQLGym("compact")

    def wander(env: SQLGym, steps: int) -> None:
        done, earned = True, 0.0
        for _ in range(steps):
            if done:
                assert 0.0 <= earned <= 1.0
                env._reset_blocking(Task("sqlgym", rng.choice(SPLITS["train"][:40])))
                earned = 0.0
            action = (
                " ".join(rng.choices(PIECES, k=rng.randint(1, 12))),
                f"SELECT {' '.join(rng.choices(PIECES, k=3))} FROM {rng.choice(('town', 'school', 'pupil', 'book'))}",
                rng.choice(GARBAGE),
                f'execute_sql(query="SELECT {rng.choice(PIECES)}")',
            )[rng.randrange(4)]
            step = env._step_blocking(action)
            assert len(step.observation.text) <= 1003
            assert isinstance(step.info["invalid"], bool)
            earned += step.reward
            done = step.done

    wander(env, swept(8_000))
    wander(single, swept(2_000))
