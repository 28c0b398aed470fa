"""Files that unpack to far more than they are, or that are damaged: one line, and little memory."""

import io
import json
from random import Random

import pyarrow
import pyarrow.parquet as parquet
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.data.files import rows
from agentgym_rl.envs import tables
from agentgym_rl.envs.searchqa.official import open_questions

MIB = 1 << 20
LARGE = r"more than 1 MiB unpacked; divide it into several files$"


@pytest.fixture
def small(monkeypatch):
    """At most 1 MiB may be unpacked."""
    monkeypatch.setattr(tables, "UNPACKED", MIB)


def put(path, table, **options):
    parquet.write_table(table, path, compression="zstd", **options)
    assert path.stat().st_size < MIB // 4
    return path


REPEATED = {
    "one text": lambda: pyarrow.table({"question": ["x" * 10_000] * 10_000}),
    "many rows": lambda: pyarrow.table({"question": pyarrow.nulls(500_000, pyarrow.string())}),
    "one long list": lambda: pyarrow.table({"question": [[7] * 1_000_000]}),
    "nested lists": lambda: pyarrow.table({"question": [[[]] * 1_000_000]}),
    "one value": lambda: pyarrow.table({"question": ["x" * 2 * MIB]}),
}


@pytest.mark.parametrize("table", REPEATED.values(), ids=REPEATED)
def test_a_parquet_file_that_repeats_what_it_stores_is_refused(tmp_path, small, table):
    path = put(tmp_path / "test.parquet", table())
    used = pyarrow.total_allocated_bytes()
    with pytest.raises(ValueError, match=LARGE):
        rows(path)
    assert pyarrow.total_allocated_bytes() - used < 8 * MIB
    with pytest.raises(ValueError, match=r"test\.parquet"):
        open_questions(str(tmp_path))


def test_a_dictionary_in_a_parquet_file_is_refused(tmp_path):
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 100_000), ["x" * MIB])
    for column in (texts, pyarrow.StructArray.from_arrays([texts], ["a"])):
        with pytest.raises(ValueError, match=r"column 'question' is an Arrow dictionary .*store plain values"):
            rows(put(tmp_path / "a.parquet", pyarrow.table({"question": column})))


def test_episodes_that_repeat_are_refused(tmp_path, small):
    columns = {name: pyarrow.nulls(200, episode_store._schema().field(name).type) for name in episode_store.SUMMARY}
    columns["episode"] = pyarrow.array(["[" * 100_000] * 200)
    table = pyarrow.table(columns).replace_schema_metadata({episode_store.KEY: str(episode_store.VERSION).encode()})
    path = put(tmp_path / "a.parquet", table)
    with pytest.raises(ValueError, match=LARGE):
        rows(path)
    store = EpisodeStore(path)  # the listing is small
    with pytest.raises(ValueError, match=LARGE):
        store.episode("a", 0)


def test_a_listing_of_too_many_episodes_is_refused(tmp_path, small):
    columns = {name: pyarrow.nulls(99_000, episode_store._schema().field(name).type) for name in episode_store.SUMMARY}
    table = pyarrow.table(columns).replace_schema_metadata({episode_store.KEY: str(episode_store.VERSION).encode()})
    with pytest.raises(ValueError, match=LARGE):
        EpisodeStore(put(tmp_path / "a.parquet", table))


def test_episodes_without_their_column_are_refused(tmp_path):
    table = pyarrow.table({"a": [1]}).replace_schema_metadata({episode_store.KEY: str(episode_store.VERSION).encode()})
    path = put(tmp_path / "a.parquet", table)
    with pytest.raises(ValueError, match=r"a\.parquet: has no column 'episode'"):
        rows(path)
    with pytest.raises(ValueError, match=r"a\.parquet: has no column 'env'"):
        EpisodeStore(path)


def test_a_compressed_file_is_read_as_far_as_it_may(tmp_path, small):
    path = tmp_path / "a.jsonl.zst"
    for size, fits in ((MIB, True), (MIB + 1, False)):
        path.write_bytes(zstandard.ZstdCompressor().compress(b"\n" * size))
        if fits:
            assert rows(path) == []
        else:
            with pytest.raises(ValueError, match=LARGE):
                rows(path)


def test_a_compressed_file_that_lies_about_its_size_is_refused(tmp_path, small):
    packed = bytearray(zstandard.ZstdCompressor().compress(b"\n" * 10 * MIB))
    flags = packed[4]
    at = 5 + (not flags >> 5 & 1)  # a window's byte comes first, unless the frame is a single segment
    assert int.from_bytes(packed[at : at + 4], "little") == 10 * MIB
    packed[at : at + 4] = (1000).to_bytes(4, "little")
    (tmp_path / "a.jsonl.zst").write_bytes(packed)
    with pytest.raises(ValueError, match="not compressed JSON lines"):
        rows(tmp_path / "a.jsonl.zst")


def samples():
    lines = "".join(json.dumps({"item_id": f"maze_{number}", "texts": ["a", "é"]}) + "\n" for number in range(20))
    table = pyarrow.table({"item_id": [f"maze_{n}" for n in range(20)], "texts": [["a", "é"]] * 20})
    file = io.BytesIO()
    parquet.write_table(table, file, compression="zstd", row_group_size=7)
    return {
        "a.jsonl": lines.encode(),
        "a.json": f"[{','.join(lines.splitlines())}]".encode(),
        "a.jsonl.zst": zstandard.ZstdCompressor(write_checksum=True).compress(lines.encode()),
        "a.parquet": file.getvalue(),
    }


SAMPLES = samples()


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=swept(60), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path_factory, name, seed):
    rng, content = Random(seed), bytearray(SAMPLES[name])
    for _ in range(rng.randint(1, 4)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    if rng.random() < 0.3:
        del content[rng.randrange(len(content)) :]
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    try:
        rows(path)
    except ValueError as error:
        assert str(path) in str(error)
