"""Data files: TOML tables beside an environment's code, read into dataclasses; JSON, JSON lines and parquet."""

import codecs
import json
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from agentgym_rl.envs.extras import needs

T = TypeVar("T")

UNPACKED = 2 << 30
"""Most bytes of the unpacked content of a compressed data file."""
VALUE = 16
"""Bytes that a row, and a value in it, count at least."""


def load(path: Path, kind: type[T]) -> T:
    """Read a TOML file.

    Args:
        kind: type of the whole file, made of dataclasses, ``dict[str, X]``, ``tuple[X, ...]``, str, int, float and
            bool. ``X | None`` is X; Any is not checked; all keys of a ``dict[Literal[...], X]`` are required. The
            fields of a dataclass are the keys of a table; those without a default are required. A dataclass checks the
            meaning of its values in ``__post_init__``.

    Raises:
        ValueError: the file is not TOML, a key is unknown or missing, or a value has another type or is refused;
            the message names file and entry, such as ``kinds.toml > kinds > 1 > titles``.
    """
    try:
        content = tomllib.loads(read_utf8(path))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not TOML ({error})") from error
    loaded: T = _convert(content, kind, str(path))
    return loaded


def json_list(path: Path, lone: bool = False) -> list[Any]:
    """The entries of a JSON list; with ``lone``, an object is a list of one.

    Raises:
        ValueError: the file is not JSON or not a list; names the file.
    """
    entries = _json(path)
    if lone and isinstance(entries, dict):
        return [entries]
    if not isinstance(entries, list):
        raise ValueError(f"{path}: expected a list, found {type(entries).__name__}")
    return entries


def json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ValueError: the file is not JSON or not an object; names the file."""
    value = _json(path)
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected an object, found {type(value).__name__}")
    return value


def read_utf8(path: Path) -> str:
    """The text of a file, without the byte order mark that Windows' editors write.

    Raises:
        ValueError: it is not UTF-8; names the file.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 (byte {error.start}); save it in this encoding") from error


def parse_json(text: str | bytes, where: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it has none, or one that is nested too deeply to be read; begins with ``where``.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}: " if error.lineno > 1 else ""
        raise ValueError(f"{where}: not JSON ({line}{error.msg})") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not UTF-8 (byte {error.start}); save it in this encoding") from error
    except RecursionError as error:
        raise ValueError(f"{where}: JSON nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise ValueError(f"{where}: not JSON that can be read ({error})") from error


def read_jsonl(path: str | Path, torn_end: bool = False) -> Iterator[Any]:
    """The values of a JSON-lines file.

    Args:
        torn_end: drop a last line without its line end, which a process that died while writing leaves behind.

    Raises:
        ValueError: a line is not JSON; names file and line.
    """
    return (value for _, value in numbered_jsonl(path, torn_end))


def numbered_jsonl(path: str | Path, torn_end: bool = False) -> Iterator[tuple[int, Any]]:
    """The values of a JSON-lines file, each with its line's number, from 1; see :func:`read_jsonl`."""
    with Path(path).open("rb") as file:
        yield from json_lines(file, path, torn_end)


def json_lines(lines: Iterable[bytes], path: str | Path, torn_end: bool = False) -> Iterator[tuple[int, Any]]:
    """Numbers, from 1, and values of lines of JSON, see :func:`read_jsonl`; empty lines and byte order marks, also of
    joined files, are skipped."""
    for number, line in enumerate(lines, start=1):
        if torn_end and not line.endswith(b"\n"):
            return
        if text := line.removeprefix(codecs.BOM_UTF8).strip():
            yield number, parse_json(text, f"{path}, line {number}")


def _json(path: Path) -> Any:
    return parse_json(read_utf8(path), str(path))


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """A ``pyarrow.parquet.ParquetFile``, open inside.

    Raises:
        MissingExtra: pyarrow is not installed.
        ValueError: the file cannot be read, also inside; names the file.
    """
    pyarrow, parquet = arrow(path)
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a parquet file that can be read ({error})") from error


def batches(
    path: Path, file: Any, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None
) -> Iterator[Any]:
    """The record batches of a file of :func:`parquet_file`.

    What is stored once may be repeated any number of times, so that kilobytes unpack to terabytes. Batches are
    therefore small, and counted. A file whose metadata lie about its values can still make a single batch large.

    Args:
        columns: None reads all.
        groups: numbers of row groups; None reads all.

    Raises:
        ValueError: a column is missing or a dictionary, or the content is larger than :data:`UNPACKED`; names the file.
    """
    if missing := [name for name in columns or () if name not in file.schema_arrow.names]:
        raise ValueError(f"{path}: has no column {missing[0]!r}")
    for column in file.schema_arrow:
        if "dictionary<" in str(column.type):  # its size is not known before it is repeated
            raise ValueError(f"{path}: column {column.name!r} is an Arrow dictionary (a category); store plain values")
    parts = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    chunks = [part.column(place) for part in parts for place in range(part.num_columns)]
    check_size(path, VALUE * sum(chunk.num_values for chunk in chunks))
    largest = max((chunk.total_uncompressed_size for chunk in chunks), default=1)
    at_once = max(1, min(1024, (UNPACKED >> 4) // max(1, largest)))  # though each holds the largest value there may be
    size = 0
    for batch in file.iter_batches(at_once, groups, columns):
        size += VALUE * len(batch) + batch.nbytes
        check_size(path, size)
        yield batch


def check_size(path: Path, size: int) -> None:
    """Raises ValueError: a file with so many bytes, unpacked, is too large."""
    if size > UNPACKED:
        raise ValueError(f"{path}: more than {UNPACKED >> 20} MiB unpacked; divide it into several files")


def arrow(purpose: str | Path) -> tuple[Any, Any]:
    """pyarrow and its parquet module. Raises MissingExtra: it is not installed; names the purpose."""
    with needs(purpose, "data"):
        import pyarrow
        from pyarrow import parquet
    return pyarrow, parquet


def _convert(value: Any, kind: Any, where: str) -> Any:
    if kind is Any:
        return value
    if isinstance(kind, UnionType):
        kind = get_args(kind)[0]
    if is_dataclass(kind) and isinstance(value, dict):
        return _entry(value, kind, where)
    if get_origin(kind) is dict and isinstance(value, dict):
        return _mapping(value, get_args(kind), where)
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_convert(each, get_args(kind)[0], f"{where} > {place}") for place, each in enumerate(value))
    if type(value) is kind:
        return value
    raise ValueError(f"{where}: expected {kind if get_origin(kind) else kind.__name__}, found {value!r}")


def _mapping(values: dict[str, Any], kinds: tuple[Any, ...], where: str) -> dict[str, Any]:
    key_kind, kind = kinds
    if get_origin(key_kind) is Literal and values.keys() != set(get_args(key_kind)):
        raise ValueError(f"{where}: expected the keys {', '.join(get_args(key_kind))}, found {', '.join(values)}")
    return {key: _convert(value, kind, f"{where} > {key}") for key, value in values.items()}


def _entry(values: dict[str, Any], kind: Any, where: str) -> Any:
    known = {field.name: field for field in fields(kind)}
    if unknown := sorted(values.keys() - known):
        raise ValueError(f"{where}: unknown key {unknown[0]!r}; the keys are {', '.join(known)}")
    for name, field in known.items():
        if name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where}: key {name!r} is missing")
    kinds = _hints(kind)
    converted = {name: _convert(value, kinds[name], f"{where} > {name}") for name, value in values.items()}
    try:
        return kind(**converted)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
