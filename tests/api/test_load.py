"""``ag.load``."""

import json
import sys
from pathlib import Path

import pytest

import agentgym_rl as ag
from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Ending, Episode

pytest.importorskip("pandas")
pytest.importorskip("scipy")
pytest.importorskip("pyarrow")
sys.path.insert(0, str(Path(__file__).parents[1] / "eval"))

from made_runs import write_run

METRICS = [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25, "val/new/toy/success": 0.75}]


@pytest.fixture
def run(tmp_path):
    return write_run(
        tmp_path / "run", stages={"bc": 0.25, "grpo": 0.75}, metrics=METRICS, bounds={"random": 0.1, "oracle": 1.0}
    )


def test_tables(run):
    loaded = ag.load(run)
    assert (loaded.config["name"], loaded.folder) == ("run", run)
    assert list(loaded.metrics["loss"]) == [0.5, 0.25] and loaded.metrics["val/new/toy/success"].isna().tolist() == [
        True,
        False,
    ]
    summary = loaded.summary.set_index(["stage", "decoding"])
    assert summary.loc[("grpo", "sampled"), "success"] == 0.75
    assert summary.loc[("grpo", "greedy"), "success"] == 0.85
    low, high = summary.loc[("bc", "sampled"), ["success_low", "success_high"]]
    assert low < 0.25 < high
    assert {*loaded.summary["stage"]} == {"bc", "grpo", "random", "oracle"} and {*loaded.summary["panel"]} == {"new"}


def test_episodes(run):
    episodes = [
        Episode(env="toy", item_id=f"toy_{index}", ending=Ending.TERMINATED, reward=1.0, success=True, max_turns=3)
        for index in range(3)
    ]
    episode_store.write(run / "episodes" / "step000001.parquet", episodes)
    loaded = ag.load(run)
    assert list(loaded.episodes["item_id"]) == ["toy_0", "toy_1", "toy_2"]
    assert loaded.episode(loaded.episodes.iloc[1]) == episodes[1]


def test_what_does_not_count_has_no_outcome(run):
    endings = [Ending.TERMINATED, Ending.TURN_LIMIT, Ending.TIMEOUT]
    episodes = [
        Episode(
            env="toy", item_id=f"toy_{index}", ending=ending, reward=float(not index), success=not index, max_turns=3
        )
        for index, ending in enumerate(endings)
    ]
    episode_store.write(run / "episodes" / "step000001.parquet", episodes)
    table = ag.load(run).episodes
    assert table["success"].isna().tolist() == table["reward"].isna().tolist() == [False, False, True]
    assert table["success"].mean() == table["reward"].mean() == 0.5
    assert list(table[table["success"]]["item_id"]) == ["toy_0"] and list(table[~table["success"]]["item_id"]) == [
        "toy_1"
    ]


def test_a_panel_without_an_episode_that_counts_has_no_success(run):
    file = run / "summary.json"
    summary = json.loads(file.read_text())
    empty = {"success": None, "ci95": None, "n": 0, "tasks": 0, "reward": None, "turns": None, "error_rate": 1.0}
    summary["stages"][0]["panels"]["new"]["toy"]["sampled"] = empty
    file.write_text(json.dumps(summary))
    table = ag.load(run).summary.set_index(["stage", "decoding"])
    names = ["success", "success_low", "success_high", "reward", "turns"]
    assert table.loc[("bc", "sampled"), names].isna().all() and table.loc[("grpo", "sampled"), names].notna().all()


def test_a_run_that_is_not_finished(run):
    (run / "summary.json").unlink()
    loaded = ag.load(str(run))
    assert len(loaded.metrics) == 2
    with pytest.raises(FileNotFoundError, match="is not finished"):
        loaded.summary  # noqa: B018
    with pytest.raises(FileNotFoundError, match=r"holds no episodes|does not exist"):
        loaded.episodes  # noqa: B018


def test_tables_are_read_from_another_folder_too(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    loaded = ag.load(run.name)
    monkeypatch.chdir("/")
    assert len(loaded.metrics) == len(METRICS)


def test_what_is_no_run_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not the folder of a run"):
        ag.load(tmp_path)
