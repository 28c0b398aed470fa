"""Episodes on disk: written whole, listed without being opened, opened one at a time.

    write("episodes/step000012.parquet", episodes)         # or several shards, step000012.<number>.parquet
    store = EpisodeStore("runs/demo")                       # a run, a folder of episode files, or one file
    lost = store.query(env="textcraft", success=False, step=(10, 20))
    episode = store.open(lost[0])

:mod:`agentgym_rl.data.episode_schema` describes the files.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.data.episode_schema import GROUP, KEY, PACKAGE, VERSION, Summary, holds_episodes
from agentgym_rl.data.files import rows, shard_of, shards, write_parquet
from agentgym_rl.data.written_by import package_version
from agentgym_rl.envs.bounds import encodable
from agentgym_rl.envs.tables import arrow, batches, parquet_file

ENDING = ".parquet"
Table = Any
"""A ``pyarrow.Table``."""
_PLACE = ("file", "row")
SUMMARY = tuple(field.name for field in fields(Summary) if field.name not in _PLACE)
"""Columns of a listing, as they are in the files."""
packages = partial(arrow, "an episode store")


def write(path: str | Path, episodes: Sequence[Episode]) -> None:
    """Write a file of episodes; it appears whole. Raises ValueError, MissingExtra: see :func:`check`."""
    write_texts(path, [(Summary.of(episode), to_text(episode)) for episode in episodes])


def to_text(episode: Episode) -> str:
    """An episode as the column ``episode`` holds it."""
    return json.dumps(episode.to_dict(), separators=(",", ":"))


def write_texts(path: str | Path, episodes: Sequence[tuple[Summary, str]]) -> None:
    """Write a file of episodes whose texts (:func:`to_text`) are known already; see :func:`write`."""
    check(path)
    pyarrow, _ = packages()
    path = Path(path)
    table = _table([summary for summary, _ in episodes])
    table = table.append_column("episode", pyarrow.array([text for _, text in episodes], pyarrow.string()))
    table = table.replace_schema_metadata({KEY: str(VERSION).encode(), PACKAGE: package_version().encode()})
    write_parquet(
        path, table, row_group_size=GROUP, compression="zstd", use_dictionary=[*SUMMARY], write_statistics=False
    )


def check(path: str | Path) -> None:
    """Whether a file of episodes can be written, asked before there are any.

    Raises:
        ValueError: the name does not end with ``.parquet``, or is that of a folder.
        MissingExtra: pyarrow is not installed.
    """
    if Path(path).suffix != ENDING or Path(path).is_dir():
        raise ValueError(f"{path}: a file of episodes is named <name>{ENDING}")
    packages()


def read(path: str | Path) -> list[Episode]:
    """All episodes of a file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds no episodes, or episodes of another schema.
    """
    episodes = []
    for number, entry in enumerate(rows(path), start=1):
        try:
            episodes.append(Episode.from_dict(entry))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"{path} does not hold episodes: entry {number}: {type(error).__name__}: {error}"
            ) from error
    return episodes


@dataclass(frozen=True, slots=True)
class Part:
    """A file on the disk, which holds some of the rows of a file of a store."""

    file: str
    path: Path
    stamp: int
    """When it was written, in nanoseconds since the epoch."""
    first: int
    """Its first row in the file."""
    count: int


class EpisodeStore:
    """The episodes of a run, of a folder or of one file. Files that appear later are found by :meth:`refresh`.

    Raises:
        FileNotFoundError: there is no such place, or no episodes are there.
        ValueError: a file of the place holds something else.
        MissingExtra: pyarrow is not installed.
    """

    def __init__(self, place: str | Path) -> None:
        packages()
        self.place = Path(place)
        self.files: dict[str, Path] = {}
        """By name without ending, sorted; the shards of a file count as one (:func:`agentgym_rl.data.files.shards`)."""
        self._parts: dict[str, list[Path]] = {}
        self._seen: dict[Path, tuple[int, Table]] = {}
        self._whole: Table = None
        self._last: tuple[Any, list[str]] = (None, [])
        self.refresh()

    def refresh(self) -> bool:
        """Look for new and changed files; whether there were any."""
        parts = _parts(self.place)
        stamps = {path: path.stat().st_mtime_ns for part in parts.values() for path in part}
        if stamps == {path: stamp for path, (stamp, _) in self._seen.items()}:
            return False
        self._seen = {
            path: (stamp, self._seen[path][1] if self._seen.get(path, (None,))[0] == stamp else _listing(path))
            for path, stamp in stamps.items()
        }
        self.files = {name: paths[0].with_name(f"{name}{ENDING}") for name, paths in parts.items()}
        self._parts, self._whole = parts, None
        return True

    @property
    def table(self) -> Table:
        """Every summary, one column a field of :class:`Summary`; sorted by file and row."""
        if self._whole is None:
            pyarrow, _ = packages()
            files = [_placed(name, [self._seen[part][1] for part in paths]) for name, paths in self._parts.items()]
            self._whole = pyarrow.concat_tables(files).combine_chunks()
        return self._whole

    @property
    def parts(self) -> list[Part]:
        """The files on the disk, in order."""
        parts = []
        for file, paths in self._parts.items():
            first = 0
            for path in paths:
                stamp, listing = self._seen[path]
                parts.append(Part(file, path, stamp, first, len(listing)))
                first += len(listing)
        return parts

    def query(
        self,
        *,
        env: str | None = None,
        ending: Ending | str | None = None,
        success: bool | None = None,
        task: str | None = None,
        step: int | tuple[int, int] | None = None,
        panel: str | None = None,
        split: str | None = None,
        decoding: str | None = None,
        limit: int | None = None,
    ) -> list[Summary]:
        """Summaries of the episodes that have all that is asked for.

        Args:
            success: False selects failures of the agent; episodes whose ending does not count are neither.
            task: item id.
            step: of the weights; a pair is a range with both ends.
            limit: at most so many.

        Raises:
            ValueError: there is no such ending.
        """
        import pyarrow.compute as compute

        if ending is not None:
            ending = Ending(ending).value
        equal = {"env": env, "ending": ending, "success": success, "item_id": task}
        equal |= {"panel": panel, "split": split, "decoding": decoding}
        chosen = [compute.field(name) == value for name, value in equal.items() if value is not None]
        if step is not None:
            first, last = (step, step) if isinstance(step, int) else step
            chosen.append((compute.field("step") >= first) & (compute.field("step") <= last))
        table = self.table
        for condition in chosen:
            table = table.filter(condition)
        if limit is not None:
            table = table.slice(0, limit)
        return [Summary(**row) for row in table.to_pylist()]

    def open(self, summary: Summary) -> Episode:
        """The whole episode of a summary."""
        return self.episode(summary.file, summary.row)

    def episode(self, file: str, row: int) -> Episode:
        """The whole episode at a row of a file.

        Raises:
            KeyError: there is no such file.
            IndexError: it has no such row.
        """
        before = 0
        for path in self._parts[file]:
            size = len(self._seen[path][1])
            if before <= row < before + size:
                break
            before += size
        else:
            raise IndexError(f"{self.files[file]} has no row {row}")
        group, place = divmod(row - before, GROUP)
        return Episode.from_dict(json.loads(self._group(path, group)[place]))

    def _group(self, path: Path, group: int) -> list[str]:
        """The episodes of a row group; those read last are kept."""
        key = (path, self._seen[path][0], group)
        last, texts = self._last  # another thread may replace it
        if last != key:
            with parquet_file(path) as opened:
                parts = batches(path, opened, ["episode"], [group])
                texts = [text for part in parts for text in part.column(0).to_pylist()]
            self._last = (key, texts)
        return texts


def _parts(place: Path) -> dict[str, list[Path]]:
    """The files of a place by name, sorted."""
    if place.is_file():
        check(place)
    if parts := shards(place):
        return {place.stem: parts}
    folder = place / "episodes" if (place / "episodes").is_dir() else place
    by_name: dict[str, list[Path]] = {}
    there = [path for path in folder.glob(f"*{ENDING}") if not path.name.startswith(".")]
    for path in sorted(there, key=lambda path: (len(path.name), path.name)):
        by_name.setdefault(shard_of(path) or path.stem, []).append(path)
    if not by_name:
        what = "holds no episodes" if place.is_dir() else "does not exist"
        raise FileNotFoundError(
            f"{place} {what}; give the folder of a run, a folder of *{ENDING} files, or such a file"
        )
    return dict(sorted(by_name.items()))


def _listing(path: Path) -> Table:
    """Summaries of a file, without opening its episodes; the file's name is left out."""
    pyarrow, _ = packages()
    with parquet_file(path) as opened:
        if not holds_episodes(opened.schema_arrow.metadata, path):
            raise ValueError(f"{path} does not hold episodes (its metadata lack {KEY.decode()})")
        parts = [batch.select(SUMMARY) for batch in batches(path, opened, [*SUMMARY])]
    table = pyarrow.Table.from_batches(parts) if parts else _table([])
    return table.replace_schema_metadata(None)


def _placed(name: str, listings: Sequence[Table]) -> Table:
    """The summaries of a file's parts, with its name and their rows."""
    pyarrow, _ = packages()
    table = pyarrow.concat_tables(listings)
    names = pyarrow.array([name] * len(table), pyarrow.string())
    rows = pyarrow.array(range(len(table)), pyarrow.int32())
    return table.append_column("file", names).append_column("row", rows).cast(_schema())


def _schema() -> Any:
    pyarrow, _ = packages()
    kinds = {"str": pyarrow.string(), "bool": pyarrow.bool_(), "int": pyarrow.int32(), "float": pyarrow.float64()}
    columns = {field.name: kinds[str(field.type).removesuffix(" | None")] for field in fields(Summary)}
    return pyarrow.schema(list((columns | {"seed": pyarrow.int64()}).items()))


def _table(summaries: Sequence[Summary]) -> Table:
    """Summaries without their places."""
    pyarrow, _ = packages()
    schema = _schema()
    columns = {name: [_whole(getattr(summary, name)) for summary in summaries] for name in SUMMARY}
    return pyarrow.table(columns, schema=pyarrow.schema([schema.field(name) for name in SUMMARY]))


def _whole(value: Any) -> Any:
    """A text as a column can hold it; anything else as it is."""
    return encodable(value) if isinstance(value, str) else value
