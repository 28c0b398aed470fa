"""Search in what was said and done: a full-text index of the episodes of a store, in SQLite.

    index = Index(store)
    index.update()
    index.find("iron ingot")                       # {("step000012", 3), ...}: file and row

It lies in the user's cache, not in the run's folder, and is extended by what is new. A text is found where its words
follow each other, the last one perhaps continued; case and whatever stands between words (``iron_ingot``) do not count.
"""

import re
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from agentgym_rl.data.episode import Episode, Turn
from agentgym_rl.data.episode_store import EpisodeStore, Part
from agentgym_rl.data.files import user_cache
from agentgym_rl.envs.bounds import encodable
from agentgym_rl.eval.viewer.parts import spans

FIELDS = ("observation", "response", "thought")
"""What can be searched. The first observation counts, instructions do not; a response contains its thought."""
VERSION = 2
"""Of the index; another one is built anew."""
AROUND = 40
"""Characters of an excerpt before and after what was found."""
BETWEEN = "\nbetweenturns0\n"
"""A word between the texts of two turns, so that none is found across them."""
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a text stands in an episode."""

    turn: int
    """From 1; 0 is the first observation."""
    field: str
    excerpt: str


class Index:
    """The index of a store's episodes.

    Args:
        folder: where it is kept; None takes ``search`` in the user's cache.

    Raises:
        ValueError: SQLite cannot read or write there, or was built without FTS5.
    """

    def __init__(self, store: EpisodeStore, folder: Path | None = None) -> None:
        self.store = store
        name = sha256(str(store.place.resolve()).encode()).hexdigest()[:16]
        self.path = (folder or user_cache() / "search") / f"{name}.sqlite"

    def update(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Read the episodes that are not in the index yet.

        Args:
            progress: called with the number of episodes read and of those to read.
        """
        with self._database() as database:
            parts = {(str(part.path.resolve()), part.stamp): part for part in self.store.parts}
            known = {(path, stamp) for path, stamp, *_ in _parts(database)}
            gone, new = known - parts.keys(), [key for key in parts if key not in known]
            with database:
                database.executemany("DELETE FROM parts WHERE path = ? AND stamp = ?", gone)
            total, done = sum(parts[key].count for key in new), 0
            for key in new:
                self._add(database, *key, parts[key])
                done += parts[key].count
                if progress:
                    progress(done, total)

    def find(self, text: str, within: str | None = None) -> set[tuple[str, int]]:
        """File and row of the episodes that contain a text.

        Args:
            within: one of :data:`FIELDS`; None searches all.

        Raises:
            ValueError: see :func:`check`.
        """
        check(text, within)
        quoted = encodable(text).replace('"', '""')
        query = f'{"" if within is None else within + " : "}"{quoted}" *'
        places = {(str(part.path.resolve()), part.stamp): part for part in self.store.parts}
        with self._database() as database:
            matches = database.execute("SELECT rowid FROM said WHERE said MATCH ? ORDER BY rowid", (query,))
            rows = [row for (row,) in matches]
            indexed = _parts(database)
        hits_found: set[tuple[str, int]] = set()
        for path, stamp, first, last in indexed:
            if (part := places.get((path, stamp))) is not None:
                inside = rows[bisect_left(rows, first) : bisect_right(rows, last)]
                hits_found |= {(part.file, part.first + row - first) for row in inside}
        return hits_found

    def _add(self, database: sqlite3.Connection, path: str, stamp: int, part: Part) -> None:
        """Whole, or not at all where this is interrupted; another process may have been faster."""
        with database:
            database.execute("BEGIN IMMEDIATE")
            if database.execute("SELECT 1 FROM parts WHERE path = ? AND stamp = ?", (path, stamp)).fetchone():
                return
            (first,) = database.execute("SELECT coalesce(max(last), 0) + 1 FROM parts").fetchone()
            (highest,) = database.execute("SELECT coalesce(max(rowid), 0) + 1 FROM said_docsize").fetchone()
            first = max(first, highest)  # rows of a file that has changed are never used again
            rows = range(part.first, part.first + part.count)
            database.executemany(
                "INSERT INTO said(rowid, observation, response, thought) VALUES (?, ?, ?, ?)",
                ((first + place, *texts(self.store.episode(part.file, row))) for place, row in enumerate(rows)),
            )
            database.execute("INSERT INTO parts VALUES (?, ?, ?, ?)", (path, stamp, first, first + part.count - 1))

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """The index, open inside."""
        try:
            with closing(self._open()) as database:
                yield database
        except sqlite3.DatabaseError as error:  # the disk is full, or a crash has left half of a page
            raise ValueError(
                f"the search index {self.path} cannot be used ({error}); delete it, or name another folder in "
                "AGENTGYM_RL_CACHE"
            ) from error

    def _open(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists() and not _is_ours(self.path):
                self.path.unlink()
            database = sqlite3.connect(self.path, timeout=600)
            database.execute("PRAGMA synchronous = off")  # what a crash takes is built again
            with database:
                database.execute("BEGIN IMMEDIATE")
                database.execute("CREATE TABLE IF NOT EXISTS parts (path TEXT, stamp INT, first INT, last INT)")
                database.execute(
                    "CREATE VIRTUAL TABLE IF NOT EXISTS said USING fts5(observation, response, thought, content='', "
                    "tokenize='unicode61 remove_diacritics 0')"
                )
                database.execute(f"PRAGMA user_version = {VERSION}")
        except (OSError, sqlite3.OperationalError) as error:
            raise ValueError(
                f"the search index {self.path} cannot be written ({error}); AGENTGYM_RL_CACHE names another folder"
            ) from error
        return database


def check(text: str, within: str | None) -> None:
    """Raises ValueError: there is no such field, or no word in the text."""
    _words(text)
    if within is not None and within not in FIELDS:
        raise ValueError(f"there is no field {within!r}; choose {', '.join(FIELDS[:-1])} or {FIELDS[-1]}")


def texts(episode: Episode) -> tuple[str, str, str]:
    """What was observed, answered and thought in an episode."""
    by_field: dict[str, list[str]] = {field: [] for field in FIELDS}
    for _, field, text in _said(episode):
        by_field[field].append(text)
    observed, answered, thought = (BETWEEN.join(by_field[field]) for field in FIELDS)
    return encodable(observed), encodable(answered), encodable(thought)


def hits(episode: Episode, text: str, within: str | None = None) -> list[Hit]:
    """Where a text stands in an episode; in a thought it is not listed again as a response.

    Raises:
        ValueError: there is no word in the text.
    """
    pattern = re.compile(r"(?<![^\W_])" + r"[\W_]+".join(map(re.escape, _words(text))), re.IGNORECASE)
    by_place: dict[tuple[int, bool], Hit] = {}
    for turn, field, content in _said(episode):
        if within in (None, field) and (match := pattern.search(content)):
            by_place[turn, field == "observation"] = Hit(turn, field, _excerpt(content, *match.span()))
    return sorted(by_place.values(), key=lambda hit: (hit.turn, hit.field == "observation"))


def _said(episode: Episode) -> Iterator[tuple[int, str, str]]:
    """Number of the turn, field and text; a response comes before its thought."""
    if 0 < episode.start <= len(episode.messages):
        yield 0, "observation", episode.messages[episode.start - 1]["content"]
    for number, turn in enumerate(episode.turns, start=1):
        yield number, "response", turn.response
        yield number, "thought", _thought(turn)
        yield number, "observation", turn.observation


def _thought(turn: Turn) -> str:
    return "\n".join(turn.response[start:end] for start, end, kind in spans(turn) if kind == "thought")


def _words(text: str) -> list[str]:
    words = _WORD.findall(text)
    if not words:
        raise ValueError(f"there is no word in {text!r}; write one to search for")
    return words


def _excerpt(text: str, start: int, end: int) -> str:
    before, after = max(0, start - AROUND), min(len(text), end + AROUND)
    cut = ("…" if before else "") + text[before:after] + ("…" if after < len(text) else "")
    return " ".join(cut.split())


def _parts(database: sqlite3.Connection) -> list[tuple[str, int, int, int]]:
    return database.execute("SELECT path, stamp, first, last FROM parts").fetchall()


def _is_ours(path: Path) -> bool:
    """Whether a file is an index of this version."""
    try:
        with closing(sqlite3.connect(path)) as database:
            (version,) = database.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError:
        return False
    return bool(version == VERSION or not path.stat().st_size)  # another process is making an empty one
