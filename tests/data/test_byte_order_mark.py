"""UTF-8 with a byte order mark, as Windows' editors and PowerShell write it, reads like UTF-8."""

import json
from dataclasses import dataclass

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("hydra")

from agentgym_rl.cli.serve import _token
from agentgym_rl.data import agenttraj
from agentgym_rl.data.files import rows
from agentgym_rl.data.panels import read_item_ids
from agentgym_rl.engine.recipe.compose import FOLDERS, load
from agentgym_rl.envs import tables
from agentgym_rl.envs.searchqa import corpus
from agentgym_rl.envs.webshop import official
from agentgym_rl.envs.wordle.tasks import read_words

ENTRY = {
    "item_id": "maze_3",
    "conversations": [
        {"from": "human", "loss": None, "value": "é"},
        {"from": "gpt", "loss": True, "value": "Action: move up"},
    ],
}


def put(path, text):
    path.write_text(text, encoding="utf-8-sig")
    return path


def written(folder, entries):
    """The entries in each kind of text file."""
    lines = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
    packed = folder / "a.jsonl.zst"
    packed.write_bytes(zstandard.ZstdCompressor().compress(lines.encode("utf-8-sig")))
    return [put(folder / "a.json", json.dumps(entries)), put(folder / "a.jsonl", lines), packed]


json_values = st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5)


@given(st.lists(json_values, max_size=4))
def test_data_files(tmp_path_factory, entries):
    for path in written(tmp_path_factory.getbasetemp(), entries):
        assert rows(path) == entries


def test_demonstrations_and_item_ids(tmp_path):
    for path in written(tmp_path, [ENTRY]):
        assert agenttraj.read(path) == [agenttraj.decode(ENTRY)]
        assert [str(task) for task in read_item_ids(path)] == ["maze_3"]


def test_files_that_were_joined(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes("1\n".encode("utf-8-sig") * 2)
    assert rows(path) == [1, 1]


def test_a_recipe_keeps_its_package(tmp_path, monkeypatch):
    (tmp_path / "experiment").mkdir()
    put(tmp_path / "experiment" / "mine.yaml", "# @package _global_\ndefaults:\n  - override /env: maze\nseed: 7\n")
    monkeypatch.setenv(FOLDERS, str(tmp_path))
    config = load(["name=x", "experiment=mine"])
    assert (config.seed, [*config.envs]) == (7, ["maze"])


def test_files_of_environments_and_servers(tmp_path):
    @dataclass
    class Table:
        a: str

    assert tables.load(put(tmp_path / "a.toml", 'a = "x"'), Table) == Table("x")
    assert read_words(put(tmp_path / "words.txt", "crane\nslate\n")) == ("crane", "slate")
    assert [entry for entry, _ in official.entries(put(tmp_path / "shop.json", "[1, 2]"))] == [1, 2]
    assert _token(put(tmp_path / "token", "s3cret\n"), None) == "s3cret"


def test_a_corpus(tmp_path):
    texts = ["the sea", "a hill"]
    lines = "".join(json.dumps({"contents": text}) + "\n" for text in texts)
    path, index = put(tmp_path / "corpus.jsonl", lines), tmp_path / "index"
    assert corpus.build(path, index, show_progress=False) == 2
    _, contents = corpus.load(path, index)
    assert [contents(0), contents(1)] == texts
