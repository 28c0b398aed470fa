"""Search in what was said and done."""

import json
import sqlite3
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner
from viewer_episodes import HOSTILE, made

from agentgym_rl.cli import app
from agentgym_rl.data import episode_store
from agentgym_rl.data.episode_store import EpisodeStore, Part
from agentgym_rl.eval.search import Index, hits, texts


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Six episodes, three a step; the last of a step are two shards."""
    monkeypatch.setenv("AGENTGYM_RL_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "run" / "episodes"
    texts = ["get iron_ingot", "the Iron Door", "an ingot of iron"]
    episode_store.write(folder / "step000000.parquet", [made(n, text=text) for n, text in enumerate(texts)])
    episode_store.write(folder / "step000001.0.parquet", [made(3, text="nothing", step=1)])
    episode_store.write(
        folder / "step000001.1.parquet", [made(4, text="Später: caf\u00e9", step=1), made(5, text=HOSTILE)]
    )
    return tmp_path / "run"


def search(run, text, within=None):
    index = Index(EpisodeStore(run))
    index.update()
    return sorted((int(file[-6:]), row) for file, row in index.find(text, within))


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("iron", [(0, 0), (0, 1), (0, 2)]), ("IRON INGOT", [(0, 0)]), ("iron_ingot", [(0, 0)]), ("ingot iron", []),
        ("iron doo", [(0, 1)]), ("ron", []), ("sp\u00e4t", [(1, 1)]), ("cafe", []), ("caf\u00e9", [(1, 1)]),
        ("window.hacked", [(1, 2)]), ('onerror="window', [(1, 2)]), ("Rules", []),
        ("because", [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]), ("AND", []), ("thought : iron*", []),
    ],
)  # fmt: skip
def test_words_are_found_in_their_order(run, text, places):
    assert search(run, text) == places


def test_fields(run):
    assert len(search(run, "because nothing", "thought")) == len(search(run, "because nothing", "response")) == 1
    assert search(run, "because", "observation") == [] and search(run, "Start", "observation")
    assert search(run, "say 1", "thought") == [] and len(search(run, "say 1", "response")) == 6
    with pytest.raises(ValueError, match="there is no field 'said'; choose observation, response or thought"):
        search(run, "iron", "said")
    with pytest.raises(ValueError, match=r"there is no word in '_\?!'"):
        search(run, "_?!")


@pytest.mark.parametrize(
    ("text", "found"),
    [("say 0", True), ("say 0 Thought", False), ("Start: go", True), ("go go", False), ("because go Action", True)],
)
def test_nothing_is_found_across_turns(text, found, tmp_path):
    """Observations are "Start: go", "go" and "go"; both responses begin with "Thought", the first ends with "say 0"."""
    episode_store.write(tmp_path / "episodes" / "step000000.parquet", [made(0, text="go", turns=2)])
    store = EpisodeStore(tmp_path)
    index = Index(store, tmp_path / "index")
    index.update()
    assert (bool(index.find(text)), bool(hits(store.episode("step000000", 0), text))) == (found, found)


def test_what_is_new_is_read_alone_and_what_has_changed_again(run):
    read = []
    index = Index(EpisodeStore(run))
    index.update(lambda done, total: read.append((done, total)))
    assert read == [(3, 6), (4, 6), (6, 6)]
    index.update(lambda done, total: pytest.fail("there is nothing new"))
    episode_store.write(run / "episodes" / "step000000.parquet", [made(0, text="nothing at all")])
    episode_store.write(run / "episodes" / "step000002.parquet", [made(0, text="iron again", step=2)])
    read.clear()
    index = Index(EpisodeStore(run))
    index.update(lambda done, total: read.append((done, total)))
    assert read == [(1, 2), (2, 2)]
    assert search(run, "iron") == [(2, 0)] and search(run, "nothing") == [(0, 0), (1, 0)]


def test_a_broken_or_older_index_is_built_anew(run):
    index = Index(EpisodeStore(run))
    index.path.parent.mkdir(parents=True)
    index.path.write_bytes(b"no database" * 100)
    assert len(search(run, "iron")) == 3
    with sqlite3.connect(index.path) as database:
        database.execute("DROP TABLE parts")
        database.execute("PRAGMA user_version = 99")
    assert len(search(run, "iron")) == 3


def test_a_damaged_index_says_what_to_do(run):
    search(run, "iron")
    path = Index(EpisodeStore(run)).path
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    result = CliRunner().invoke(app, ["episodes", str(run), "--grep", "iron"])
    assert result.exit_code == 2 and f"{path.name} cannot be used (" in result.stderr and "delete it" in result.stderr


def test_a_cache_that_cannot_be_written(run, tmp_path, monkeypatch):
    tmp_path.joinpath("file").write_text("")
    monkeypatch.setenv("AGENTGYM_RL_CACHE", str(tmp_path / "file"))
    with pytest.raises(ValueError, match=r"cannot be written .*AGENTGYM_RL_CACHE names another folder"):
        search(run, "iron")


def test_the_beginning_of_a_word_is_found_fast_in_many_files(run):
    """A search reads the index once, not once a file."""
    index = Index(EpisodeStore(run))
    index.update()
    words = [f"word{number}" for number in range(4000)]
    parts = [Part(f"step{number}", run / f"step{number}.parquet", 1, 0, 30) for number in range(300)]
    index.store = SimpleNamespace(parts=parts)
    with sqlite3.connect(index.path) as database:
        for number, part in enumerate(parts):
            first = 100 + 30 * number
            said = [(first + row, " ".join(words[17 * row + number :: 50])) for row in range(30)]
            database.executemany("INSERT INTO said(rowid, observation) VALUES (?, ?)", said)
            database.execute("INSERT INTO parts VALUES (?, 1, ?, ?)", (str(part.path.resolve()), first, first + 29))
    began = time.process_time()
    assert len(index.find("word")) == 300 * 30 and ("step0", 7) in index.find("word169")
    assert time.process_time() - began < 3


def test_hits_name_turn_and_field():
    episode = made(1, text="the Iron Door is shut, and it stays so for a long while, says whoever has the key")
    shown = [(hit.turn, hit.field) for hit in hits(episode, "iron door")]
    assert shown == [(0, "observation"), *((n, field) for n in (1, 2) for field in ("thought", "observation"))]
    assert hits(episode, "iron door")[1].excerpt == "because the Iron Door is shut, and it stays so for a long whi…"
    assert hits(episode, "door of iron") == [] and len(hits(episode, "iron", "response")) == 2


@given(st.text(min_size=1))
def test_any_text_that_an_episode_has_is_found_in_it(text):
    words = [word for word in text.replace("_", " ").split() if word.isalnum()]
    episode = made(1, text=text)
    assert all(hits(episode, word) for word in words)
    assert all(text_.encode() is not None for text_ in texts(episode))


def command(*arguments):
    result = CliRunner().invoke(app, ["episodes", *map(str, arguments)])
    return result.exit_code, result.stdout


def test_grep(run):
    code, output = command(run, "--grep", "iron door")
    assert code == 0 and "step000000/1 turn 1 thought: because the Iron Door" in output
    assert "1 of 6 episodes" in output
    assert "0 of 6 episodes" in command(run, "--grep", "iron door", "--step", "1")[1]
    (line,) = command(run, "--grep", "iron_ingot", "--in", "observation", "--json")[1].splitlines()
    assert json.loads(line)["hits"][0] == {"turn": 0, "field": "observation", "excerpt": "Start: get iron_ingot"}
    assert command(run, "--in", "thought")[0] == 2
