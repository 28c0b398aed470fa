"""Episodes on disk: whole, listed without being opened, found again."""

import asyncio
import json
import math

import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.data import convert, episode_schema, episode_store
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.data.episode_store import EpisodeStore, read, write
from agentgym_rl.rollout.collect import collect
from agentgym_rl.rollout.policies import Random

texts = st.text(st.characters(), max_size=20)
turns = st.builds(
    Turn,
    response=texts,
    action=st.none() | texts,
    observation=texts,
    reward=st.floats(0, 1),
    invalid=st.booleans(),
    log_prob=st.none() | st.floats(-99, 0),
    pieces=st.lists(texts, max_size=3),
    log_probs=st.lists(st.floats(-99, 0), max_size=3),
)
episodes = st.builds(
    Episode,
    env=st.sampled_from(["counter", "maze"]),
    item_id=texts,
    ending=st.sampled_from(Ending),
    reward=st.floats(0, 1),
    success=st.booleans(),
    max_turns=st.integers(1, 99),
    seed=st.integers(0, 2**40),
    model_step=st.integers(0, 5),
    messages=st.lists(st.fixed_dictionaries({"role": texts, "content": texts}), max_size=2),
    turns=st.lists(turns, max_size=3),
    error=st.none() | texts,
    tags=st.dictionaries(st.sampled_from(["panel", "split", "round"]), texts.filter(str.isascii) | st.integers()),
)


def made(number=0, **fields):
    basis = {"env": "maze", "item_id": f"maze_{number}", "ending": Ending.TERMINATED, "reward": 1.0, "success": True}
    return Episode(**(basis | {"max_turns": 5, "messages": [{"role": "user", "content": "Go."}]} | fields))


@settings(max_examples=swept(30))
@given(st.lists(episodes, max_size=3))
def test_whatever_is_written_comes_back(tmp_path_factory, some):
    path = tmp_path_factory.mktemp("store") / "new" / "step000001.parquet"
    write(path, some)
    assert read(path) == some
    store = EpisodeStore(path)
    assert [store.open(place) for place in store.query()] == some
    assert [path_there.name for path_there in path.parent.iterdir()] == [path.name]


def test_halves_of_characters_and_numbers_without_a_value(tmp_path):
    odd = made(error="\ud800", item_id="a\udfffb", turns=[Turn(response="", action=None, observation="", reward=0.0,
               invalid=False, log_prob=math.inf)])  # fmt: skip
    write(tmp_path / "a.parquet", [odd])
    assert read(tmp_path / "a.parquet") == [odd]
    (listed,) = EpisodeStore(tmp_path).query()
    assert (listed.item_id, listed.error) == ("a\ufffdb", "\ufffd")


def test_queries(tmp_path):
    write(tmp_path / "episodes" / "step000001.parquet", [
        made(1, model_step=0, tags={"split": "train"}), made(2, success=False, ending=Ending.TURN_LIMIT, model_step=3),
        made(3, success=False, ending=Ending.ENV_ERROR, error="gone"),
    ])  # fmt: skip
    tags = {"panel": "test", "decoding": "greedy"}
    write(tmp_path / "episodes" / "val.parquet", [made(1, env="counter", model_step=7, tags=tags)])
    store = EpisodeStore(tmp_path)

    def places(**asked):
        return [(place.file, place.row) for place in store.query(**asked)]

    assert places() == [("step000001", 0), ("step000001", 1), ("step000001", 2), ("val", 0)]
    assert places(env="counter") == places(panel="test") == places(decoding="greedy") == [("val", 0)]
    assert places(success=True) == [("step000001", 0), ("val", 0)]
    assert places(success=False) == [("step000001", 1)], "what the infrastructure ended is no failure"
    assert places(ending="env_error") == places(ending=Ending.ENV_ERROR) == [("step000001", 2)]
    assert places(task="maze_1", split="train") == places(task="maze_1", step=0, env="maze") == [("step000001", 0)]
    assert places(step=(3, 7)) == [("step000001", 1), ("val", 0)]
    assert places(limit=1) == [("step000001", 0)]
    assert store.query(task="maze_2")[0].error is None and store.query(task="maze_3")[0].error == "gone"
    with pytest.raises(ValueError, match="lost"):
        store.query(ending="lost")


def test_rows_beyond_the_first_group(tmp_path):
    many = [made(number) for number in range(2 * episode_schema.GROUP + 5)]
    write(tmp_path / "a.parquet", many)
    store = EpisodeStore(tmp_path)
    for row in (0, 99, 100, 204):
        assert store.episode("a", row) == many[row]
    for row in (-1, 205, 1000):
        with pytest.raises(IndexError):
            store.episode("a", row)


class Busy(EpisodeStore):
    """Whenever it keeps a row group, another thread comes between and reads the file ``b``."""

    kept, alone = (None, []), True

    @property
    def _last(self):
        return self.kept

    @_last.setter
    def _last(self, value):
        self.kept = value
        if value[0] is not None and self.alone:
            self.alone = False
            self.episode("b", 0)


def test_threads_do_not_get_the_episodes_of_each_other(tmp_path):
    for number, name in enumerate("ab"):
        write(tmp_path / f"{name}.parquet", [made(number)])
    assert Busy(tmp_path).episode("a", 0) == made(0)


def test_a_listing_reads_no_episode(tmp_path, monkeypatch):
    write(tmp_path / "a.parquet", [made()])
    monkeypatch.setattr(Episode, "from_dict", None)
    assert EpisodeStore(tmp_path).query()[0].item_id == "maze_0"


def test_new_files_are_found(tmp_path):
    write(tmp_path / "a.parquet", [made(1)])
    store = EpisodeStore(tmp_path)
    assert not store.refresh()
    write(tmp_path / "b.parquet", [])
    write(tmp_path / "c.parquet", [made(2)])
    assert store.refresh() and [place.item_id for place in store.query()] == ["maze_1", "maze_2"]


@pytest.mark.parametrize(
    ("name", "fault"),
    [("nowhere", "does not exist"), (".", "holds no episodes"), ("text.parquet", "not a parquet file"),
     ("other.parquet", "does not hold episodes"), ("other.jsonl.zst", "a file of episodes is named")],
)  # fmt: skip
def test_places_without_episodes(tmp_path, name, fault):
    if name == "text.parquet":
        (tmp_path / name).write_text("x")
    elif name == "other.parquet":
        convert.verl_file(tmp_path / name, [])
    elif name == "other.jsonl.zst":
        (tmp_path / name).write_bytes(b"")
    with pytest.raises((FileNotFoundError, ValueError), match=fault):
        EpisodeStore(tmp_path / name)


def test_hidden_files_are_no_episodes(tmp_path):
    (tmp_path / "._a.parquet").write_bytes(b"what macOS leaves beside a.parquet")
    with pytest.raises(FileNotFoundError, match="holds no episodes"):
        EpisodeStore(tmp_path)


def test_what_does_not_count_has_no_outcome(tmp_path):
    episodes = [made(1), made(2, ending=Ending.TIMEOUT, reward=0.0, success=False)]
    write(tmp_path / "new.parquet", episodes)
    table = parquet.read_table(tmp_path / "new.parquet")
    assert table["success"].to_pylist() == [True, None] and table["reward"].to_pylist() == [1.0, None]
    store = EpisodeStore(tmp_path)
    assert [(listed.success, listed.reward) for listed in store.query()] == [(True, 1.0), (None, None)]
    assert not store.query(success=False) and store.open(store.query(task="maze_2")[0]) == episodes[1]
    line = run(tmp_path, "--task", "maze_2").stdout.splitlines()[1]
    assert line.split()[-4:] == ["timeout", "-", "-", "0"]


def test_another_schema_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    write(path, [made()])
    table = parquet.read_table(path)
    newer = episode_schema.VERSION + 1
    parquet.write_table(table.replace_schema_metadata({episode_schema.KEY: f"{newer}".encode()}), path)
    for opened in (EpisodeStore, read, convert.read):
        with pytest.raises(ValueError, match=rf"schema {newer}.*reads schema {episode_schema.VERSION}"):
            opened(path)


def test_a_bad_name_is_refused_before_anything_is_played(tmp_path):
    with pytest.raises(ValueError, match=r"episodes\.json: a file of episodes is named <name>\.parquet"):
        asyncio.run(collect("maze", "train", tmp_path / "a.json", n=1, episodes=tmp_path / "episodes.json"))
    assert not [*tmp_path.iterdir()]


def test_collections_leave_their_episodes(tmp_path):
    out, stored = tmp_path / "a.json", tmp_path / "a.parquet"
    asyncio.run(
        collect("maze", "train", out, policy=Random(1), n=4, seed=1, samples=2, keep="success", episodes=stored)
    )
    store = EpisodeStore(stored)
    found = store.query(split="train")
    assert len(found) == 8 and {episode.seed for episode in found} == {1}
    assert store.open(found[-1]).tags == {"split": "train", "policy": "random", "sample": 1}
    assert [record.reward for record in convert.read(stored)] == [episode.reward for episode in found]
    assert {file.name for file in tmp_path.glob("[!.]*")} == {"a.json", "a.parquet"}, "and a hidden lock"


def run(*arguments):
    return CliRunner().invoke(app, ["episodes", *map(str, arguments)])


def test_the_command(tmp_path):
    write(tmp_path / "episodes" / "step000001.parquet", [made(number, model_step=number) for number in range(60)])
    write(tmp_path / "episodes" / "val.parquet", [made(1, env="counter", success=False, error="[red]\x1b[31m")])
    table = run(tmp_path).stdout
    assert "maze_49" in table and "maze_50" not in table
    assert "61 of 61 episodes (the first 50 are shown; --limit shows more)" in table
    assert "11 of 61 episodes" in run(tmp_path, "--step", "10-20", "--success").stdout
    (line,) = run(tmp_path, "--failure", "--json").stdout.splitlines()
    assert json.loads(line)["error"] == "[red]\x1b[31m"
    for task in ("maze_7", "lmrlgym_maze_7"):
        (line,) = run(tmp_path, "--task", task, "--json", "--whole").stdout.splitlines()
        assert Episode.from_dict(json.loads(line)) == made(7, model_step=7)
    for wrong, says in (
        (["--step", "x"], "neither a step"),
        (["--ending", "x"], "is unknown; choose terminated"),
        (["--task", ""], "no episode has it"),
    ):
        result = run(tmp_path, *wrong)
        assert result.exit_code == 2 and says in result.stderr


def test_summaries_are_the_columns(tmp_path):
    write(tmp_path / "a.parquet", [made()])
    names = parquet.read_schema(tmp_path / "a.parquet").names
    assert names == [*episode_store.SUMMARY, "episode"]
    described = [line.split()[0] for line in episode_schema.__doc__.split("=\n")[2].splitlines() if "   " in line]
    assert names == described


def test_shards_are_one_file(tmp_path):
    some = [made(number) for number in range(7)]
    write(tmp_path / "step1.0.parquet", some[:3])
    write(tmp_path / "step1.10.parquet", some[5:])
    write(tmp_path / "step1.2.parquet", some[3:5])
    write(tmp_path / "step2.parquet", [made(8)])
    store = EpisodeStore(tmp_path)
    assert {name: path.name for name, path in store.files.items()} == {
        "step1": "step1.parquet",
        "step2": "step2.parquet",
    }
    assert [(place.file, place.row) for place in store.query()] == [*(("step1", row) for row in range(7)), ("step2", 0)]
    assert [store.open(place) for place in store.query()] == [*some, made(8)]
    with pytest.raises(IndexError, match="has no row 7"):
        store.episode("step1", 7)
    assert episode_store.read(store.files["step1"]) == some
    store = EpisodeStore(tmp_path / "step1.parquet")
    assert [store.open(place) for place in store.query()] == some
    write(tmp_path / "step1.parquet", [made(9)])
    assert store.refresh() and store.episode("step1", 0) == made(9) and store.episode("step1", 7) == some[-1]
