"""Tokens of training episodes: as logged, as counted from what is stored, or unknown."""

import pytest

pytest.importorskip("pyarrow")

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.eval.comparison.runs import tokens_by_step

ROWS = [
    {"step": 1, "stage/bc": 1},
    {"step": 2, "curriculum/max_turns": 4},
    {"step": 2, "val/new/toy/success": 0.5},
    {"step": 3, "stage/agentevol": 2},  # learns, and plays nothing
    {"step": 4, "curriculum/max_turns": 4},
]


def store(folder, name, *tokens):
    episodes = [
        Episode(
            env="toy", item_id="toy_0", ending=Ending.TERMINATED, reward=1.0, success=True, max_turns=4,
            prompt_tokens=prompt, response_tokens=response,
        )
        for prompt, response in tokens
    ]  # fmt: skip
    episode_store.write(folder / "episodes" / f"{name}.parquet", episodes)


def test_logged_tokens_come_first(tmp_path):
    store(tmp_path, "step000002", (1, 1))
    assert tokens_by_step(tmp_path, [{"step": 2, "run/tokens": 70}, {"step": 3}]) == {2: 70}


def test_tokens_are_counted_from_training_episodes(tmp_path):
    store(tmp_path, "step000002", (10, 20), (10, 5))
    store(tmp_path, "step000004", (10, 90))
    store(tmp_path, "val_bc_step000002", (1000, 1000))
    assert tokens_by_step(tmp_path, ROWS) == {1: 0, 2: 45, 3: 45, 4: 145}


def test_unknown_where_episodes_are_gone_or_carry_no_counts(tmp_path):
    assert tokens_by_step(tmp_path, ROWS) is None
    store(tmp_path, "step000002", (10, 20))
    assert tokens_by_step(tmp_path, ROWS) is None
    store(tmp_path, "step000004", (0, 0))
    assert tokens_by_step(tmp_path, ROWS) is None
    assert tokens_by_step(tmp_path, ROWS[:1]) is None


def test_a_damaged_file_of_episodes_leaves_tokens_unknown(tmp_path):
    store(tmp_path, "step000002", (10, 20))
    (tmp_path / "episodes" / "step000004.parquet").write_bytes(b"PAR1")
    assert tokens_by_step(tmp_path, ROWS) is None
