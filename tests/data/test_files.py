"""Files are whole, and JSON lines survive a torn end."""

import json
import os

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.data.files import append_jsonl, read_jsonl, rows, write_jsonl, write_text


def test_text_is_written_byte_for_byte_into_new_folders(tmp_path):
    path = tmp_path / "a" / "b.txt"
    write_text(path, "one\r\ntwo\nthrée")
    assert path.read_bytes() == "one\r\ntwo\nthrée".encode()
    write_text(str(path), "new")
    assert path.read_text() == "new"
    assert os.listdir(path.parent) == ["b.txt"]


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "disk").mkdir()
    (link := tmp_path / "a.txt").symlink_to(tmp_path / "disk" / "b.txt")
    for text in ("one", "two"):
        write_text(link, text)
        assert link.is_symlink() and (tmp_path / "disk" / "b.txt").read_text() == text


def test_a_pipe_stays_one(tmp_path):
    os.mkfifo(path := tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is a device or a pipe, which cannot be replaced"):
        write_text(path, "text")
    assert path.is_fifo() and os.listdir(tmp_path) == ["pipe"]


def test_a_bad_line_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n{"a": \n')
    with pytest.raises(ValueError, match=r"a\.jsonl, line 3: not JSON"):
        list(read_jsonl(path))


def test_a_torn_end_is_dropped_only_on_request(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": ')
    assert list(read_jsonl(path, torn_end=True)) == [{"a": 1}]
    with pytest.raises(ValueError, match="line 2"):
        list(read_jsonl(path))


def test_all_frames_of_a_compressed_file_are_read_and_a_torn_one_is_refused(tmp_path):
    """As ``cat a.zst b.zst`` leaves them, and ``zstd`` in a pipe, which cannot say a size."""
    pack, path = zstandard.ZstdCompressor(), tmp_path / "a.jsonl.zst"
    piped = pack.compressobj()
    frames = [pack.compress(b'{"a": 1}\n'), piped.compress(b'{"a": 2}\n' * 3000) + piped.flush()]
    path.write_bytes(b"".join(frames))
    assert rows(path) == [{"a": 1}] + [{"a": 2}] * 3000
    for torn in (frames[0] + frames[1][:-5], b""):
        path.write_bytes(torn)
        with pytest.raises(ValueError, match=r"a\.jsonl\.zst: not compressed JSON lines \(the end is missing\)"):
            rows(path)


def test_append_adds_a_line_that_others_see_at_once(tmp_path):
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [1])
    with path.open("a") as file:
        append_jsonl(file, {"b": "ü"})
        assert list(read_jsonl(path)) == [1, {"b": "ü"}]


json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)


@given(st.lists(json_values))
def test_rows_come_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "a.jsonl"
    write_jsonl(path, rows)
    assert list(read_jsonl(path)) == rows
    assert all(json.loads(line) is None or line for line in path.read_text(encoding="utf-8").split("\n") if line)
