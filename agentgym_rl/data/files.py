"""Data files: written whole, read from this machine or from the Hugging Face hub."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from agentgym_rl.data.episode_schema import holds_episodes
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.tables import arrow, batches, check_size, json_lines, json_list, parquet_file, parse_json
from agentgym_rl.envs.tables import read_jsonl as read_jsonl

KINDS = (".json", ".jsonl", ".jsonl.zst", ".parquet")
_SHARD = re.compile(r"(?P<name>.+?)(\.(?P<number>\d+))?\.parquet")
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+:.+")


def user_cache() -> Path:
    """``AGENTGYM_RL_CACHE``, else ``agentgym-rl`` in ``XDG_CACHE_HOME``, by default ``~/.cache``."""
    cache, base = os.environ.get("AGENTGYM_RL_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(cache) if cache else Path(base or Path.home() / ".cache") / "agentgym-rl"


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 file so that readers see the old content or the new, never a part of it.

    Missing folders are made.
    """
    with written_whole(path) as beside, beside.open("wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A file beside ``path`` that takes its name when the block ends without an error; a link stays one.

    Raises:
        ValueError: see :func:`check_file`.
    """
    check_file(Path(path))
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield beside
        os.replace(beside, target)
    except OSError as error:
        if error.filename in (None, str(beside)):  # None is of an open file, such as a full disk
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        raise
    finally:
        beside.unlink(missing_ok=True)


def put_whole(beside: Path, folder: Path) -> None:
    """Give a finished folder its name; where another process has put one there meanwhile, that one stays.

    Raises:
        OSError: it cannot have the name.
    """
    try:
        os.replace(beside, folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(beside)


@contextmanager
def alone(folder: Path, name: str = "") -> Iterator[None]:
    """Inside, no other process is alone with the same folder, or file in it. A hidden file with the lock stays.

    Args:
        folder: is made where there is none.
        name: of the file.

    Raises:
        ValueError: another process is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / (f".{name}.lock" if name else ".lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ValueError(f"another process writes {folder / name}; wait for it, or choose another out") from error
    try:
        yield
    finally:
        lock.release()


def check_file(path: Path, *kinds: str) -> None:
    """Before work whose result a file takes.

    Args:
        kinds: what its name may end with; any where left out.

    Raises:
        ValueError: it is a folder or, as /dev/stdout may be, no regular file, or its name ends otherwise.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a device or a pipe, which cannot be replaced; give the name of a file")
    if kinds and not path.name.endswith(kinds):
        raise ValueError(f"{path}: give a file whose name ends with {' or '.join(kinds)}")


def write_parquet(path: str | Path, table: Any, **options: Any) -> None:
    """Write a ``pyarrow.Table``, whole; ``options`` are those of ``pyarrow.parquet.write_table``."""
    _, parquet = arrow(path)
    with written_whole(path) as beside:
        parquet.write_table(table, beside, **options)


def write_jsonl(path: str | Path, rows: Iterable[Any]) -> None:
    """Write one JSON value a line, whole (see :func:`write_text`)."""
    write_text(path, "".join(_line(row) for row in rows))


def append_jsonl(file: IO[str], row: Any) -> None:
    """Add one line to an open journal and push it to the operating system."""
    file.write(_line(row))
    file.flush()


def is_source(name: str) -> bool:
    """Whether a name is that of a data file rather than, say, of a split."""
    return name.endswith(KINDS)


def on_hub(source: str | Path) -> bool:
    """Whether a name is that of a file on the hub; a path that exists never is."""
    return _ON_HUB.fullmatch(str(source)) is not None and not Path(source).is_file()


def rows(source: str | Path, lone: bool = False) -> list[Any]:
    """The entries of a JSON list, of JSON lines (also compressed), of a parquet file or of a file of episodes.

    Args:
        source: a path (parquet files with all their :func:`shards`), or ``<owner>/<data set>:<file>`` on the hub, as
            ``AgentGym/AgentTraj-L:textcraft_train.json``. A path that exists is never looked for on the hub.

        lone: a JSON file may also hold one entry without a list around it.

    Raises:
        FileNotFoundError: there is no such file, here or on the hub.
        MissingExtra: the file needs a package that is not installed.
        ValueError: the file cannot be read; names the fault.
    """
    path = Path(source)
    if parts := shards(path):
        return [row for part in parts for row in _parquet(part)]
    if on_hub(source):
        return _from_hub(str(source))
    if not path.is_file():
        raise FileNotFoundError(f"{source} does not exist; give a file, or <owner>/<data set>:<file> on the hub")
    match path.suffixes:
        case [*_, ".json"]:
            return json_list(path, lone)
        case [*_, ".jsonl"]:
            return list(read_jsonl(path))
        case [*_, ".jsonl", ".zst"]:
            return _compressed(path)
    raise ValueError(f"{source}: its kind is not known; known are {', '.join(KINDS)}")


def shards(path: Path) -> list[Path]:
    """The files that a parquet file consists of: itself and ``<name>.<number>.parquet``, those that exist."""
    if path.suffix != ".parquet":
        return []
    numbered: list[Path] = []
    if path.parent.is_dir():
        with os.scandir(path.parent) as files:  # one by one: a long run has thousands, and looks at each step
            likely = (Path(file.path) for file in files if file.name.startswith(path.stem))
            numbered = [shard for shard in likely if shard_of(shard) == path.stem]
    return [*([path] if path.is_file() else []), *sorted(numbered, key=lambda shard: (len(shard.name), shard.name))]


def shard_of(path: Path) -> str | None:
    """The name of the parquet file that a file is a shard of; None for any other file."""
    match = _SHARD.fullmatch(path.name)
    return match["name"] if match and match["number"] else None


def _compressed(path: Path) -> list[Any]:
    with needs(path, "data"):
        import zstandard
    content, frame = bytearray(), zstandard.ZstdDecompressor().decompressobj()
    try:
        with path.open("rb") as file:
            while packed := file.read(1024):  # from which at most 32 MiB come
                while packed:
                    if frame.eof:  # a file may have several, and need not say their sizes
                        frame = zstandard.ZstdDecompressor().decompressobj()
                    content += frame.decompress(packed)
                    check_size(path, len(content))
                    packed = frame.unused_data
    except zstandard.ZstdError as error:
        raise ValueError(f"{path}: not compressed JSON lines ({error})") from error
    if not frame.eof:
        raise ValueError(f"{path}: not compressed JSON lines (the end is missing)")
    return [value for _, value in json_lines(bytes(content).split(b"\n"), path)]


def _parquet(path: Path) -> list[Any]:
    with parquet_file(path) as file:
        if not holds_episodes(file.schema_arrow.metadata, path):
            return [row for batch in batches(path, file) for row in batch.to_pylist()]
        texts = [text for batch in batches(path, file, ["episode"]) for text in batch.column(0).to_pylist()]
    return [parse_json(text, f"{path}, entry {number}") for number, text in enumerate(texts, start=1)]


def _from_hub(source: str) -> list[Any]:
    with needs(source, "data"):
        import datasets
    name, _, file = source.partition(":")
    try:
        return list(datasets.load_dataset(name, data_files=file, split="train"))
    except (datasets.exceptions.DatasetNotFoundError, ConnectionError, FileNotFoundError) as error:
        raise FileNotFoundError(f"{source} cannot be loaded: {error}") from error


def _line(row: Any) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
