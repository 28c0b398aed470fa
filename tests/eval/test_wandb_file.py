"""W&B's own files, read back; written here as W&B writes them."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.eval.wandb_file import BLOCK, CHUNK, FIRST, HEAD, LAST, MIDDLE, WHOLE, NothingStored, read, stored

pb = pytest.importorskip("wandb.proto.wandb_internal_pb2")


def log(records):
    """A LevelDB log of records."""
    out = bytearray(HEAD)
    for record in records:
        rest, begun = record, False
        while True:
            left = BLOCK - len(out) % BLOCK
            if left < CHUNK.size:
                out += bytes(left)
                continue
            data, rest = rest[: left - CHUNK.size], rest[left - CHUNK.size :]
            kind = (MIDDLE if rest else LAST) if begun else (FIRST if rest else WHOLE)
            out += CHUNK.pack(zlib.crc32(bytes([kind]) + data), len(data), kind) + data
            begun = True
            if not rest:
                break
    return bytes(out)


def run_record():
    return pb.Record(run=pb.RunRecord(run_id="i", project="p", run_group="g", display_name="n", tags=["a", "b"]))


def history(**values):
    record = pb.Record()
    for key, value in values.items():
        record.history.item.add(nested_key=key.split("__"), value_json=json.dumps(value))
    return record


@given(st.lists(st.integers(0, 3 * BLOCK), max_size=5))
def test_records_of_any_length(tmp_path_factory, lengths):
    file = tmp_path_factory.mktemp("wandb") / "run-i.wandb"
    rows = [history(text="x" * length) for length in lengths]
    file.write_bytes(log(one.SerializeToString() for one in [run_record(), *rows]))
    run = read(file)
    assert (run.run_id, run.project, run.group, run.name, run.tags) == ("i", "p", "g", "n", ("a", "b"))
    assert [len(row["text"]) for row in run.history] == lengths


def test_keys_of_keys(tmp_path):
    file = tmp_path / "run-i.wandb"
    row = history(a=1, table__path="x", table__n=2)
    file.write_bytes(log(one.SerializeToString() for one in (run_record(), row)))
    assert read(file).history == ({"a": 1, "table": {"path": "x", "n": 2}},)


def test_files_that_were_cut_off_or_damaged(tmp_path):
    file = tmp_path / "run-i.wandb"
    whole = log(one.SerializeToString() for one in (run_record(), history(a=1), history(a=2)))
    file.write_bytes(whole[:-3])
    assert read(file).history == ({"a": 1},)
    file.write_bytes(whole[:20])
    with pytest.raises(NothingStored, match=r"run-i\.wandb tells of no run"):
        read(file)
    started = tmp_path / "wandb" / "offline-run-20260101_000000-i"
    started.mkdir(parents=True)
    (started / "run-i.wandb").write_bytes(whole[:20])
    assert stored(tmp_path) == []
    file.write_bytes(whole[:20] + b"x" + whole[21:])
    with pytest.raises(ValueError, match="is damaged at byte 7"):
        read(file)
    file.write_bytes(b"something else")
    with pytest.raises(ValueError, match="is not a W&B file"):
        read(file)


def test_the_starts_of_a_run_are_sorted_by_time(tmp_path):
    for name in ("run-20260102_000000-i", "offline-run-20260101_000000-i", "offline-run-20260103_000000-i"):
        folder = tmp_path / "wandb" / name
        folder.mkdir(parents=True)
        (folder / "run-i.wandb").write_bytes(log([run_record().SerializeToString()]))
    (folder / "run-i.wandb.synced").touch()
    found = stored(tmp_path)
    assert [run.file.parent.name.split("-")[-2] for run in found] == [
        "20260101_000000", "20260102_000000", "20260103_000000"
    ]  # fmt: skip
    assert [(run.offline, run.uploaded) for run in found] == [(True, False), (False, False), (True, True)]
