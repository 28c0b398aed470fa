"""Rows of a data file, on this machine or on the Hugging Face hub."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from agentgym_rl.data import episode_schema
from agentgym_rl.data.files import read_jsonl
from agentgym_rl.envs.core import MissingExtra

KINDS = (".json", ".jsonl", ".jsonl.zst", ".parquet")
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+:.+")


def is_source(name: str) -> bool:
    """Whether a name is that of a data file rather than, say, of a split."""
    return name.endswith(KINDS)


def rows(source: str | Path) -> list[Any]:
    """The entries of a JSON list, of JSON lines (compressed, too) or of a parquet file; of a file of episodes these.

    Args:
        source: a path, or ``<owner>/<data set>:<file>`` on the hub, such as
            ``AgentGym/AgentTraj-L:textcraft_train.json``. A path that exists is never looked for on the hub.

    Raises:
        FileNotFoundError: there is no such file, here or on the hub.
        MissingExtra: the file needs a package that is not installed.
        ValueError: the file cannot be read; names the fault.
    """
    path = Path(source)
    if not path.is_file():
        if _ON_HUB.fullmatch(str(source)):
            return _from_hub(str(source))
        raise FileNotFoundError(f"{source} does not exist; give a file, or <owner>/<data set>:<file> on the hub")
    match path.suffixes:
        case [*_, ".json"]:
            return _listed(path)
        case [*_, ".jsonl"]:
            return list(read_jsonl(path))
        case [*_, ".jsonl", ".zst"]:
            return _compressed(path)
        case [*_, ".parquet"]:
            return _parquet(path)
    raise ValueError(f"{source}: of what kind is it? Known are {', '.join(KINDS)}")


def _listed(path: Path) -> list[Any]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not JSON (line {error.lineno}: {error.msg})") from error
    if not isinstance(entries, list):
        raise ValueError(f"{path}: expected a list, found {type(entries).__name__}")
    return entries


def _compressed(path: Path) -> list[Any]:
    try:
        from zstandard import ZstdDecompressor, ZstdError
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{path} needs zstandard; install it with: pip install 'agentgym-rl[data]'") from error
    try:
        text = ZstdDecompressor().decompress(path.read_bytes()).decode()
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ZstdError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not compressed JSON lines ({error})") from error


def _parquet(path: Path) -> list[Any]:
    try:
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import read_table
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{path} needs pyarrow; install it with: pip install 'agentgym-rl[data]'") from error
    try:
        table = read_table(path)
    except ArrowInvalid as error:
        raise ValueError(f"{path}: not a parquet file ({error})") from error
    if episode_schema.version(table.schema.metadata, path) is not None:
        return [json.loads(text) for text in table.column("episode").to_pylist()]
    found: list[Any] = table.to_pylist()
    return found


def _from_hub(source: str) -> list[Any]:
    try:
        from datasets import load_dataset
        from datasets.exceptions import DatasetNotFoundError
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{source} needs datasets; install it with: pip install 'agentgym-rl[data]'") from error
    name, _, file = source.partition(":")
    try:
        return list(load_dataset(name, data_files=file, split="train"))
    except (DatasetNotFoundError, ConnectionError, FileNotFoundError) as error:
        raise FileNotFoundError(f"{source} cannot be loaded: {error}") from error
