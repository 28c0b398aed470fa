"""A corpus in Search-R1's form, one line for each passage: ``{"id": ..., "contents": "\\"Title\\"\\ntext"}``.

``python -m agentgym_rl.envs.searchqa wiki-18.jsonl wiki-18.bm25`` builds the index.
"""

import json
import mmap
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

from agentgym_rl.envs.bm25 import Index
from agentgym_rl.envs.progress import MB, progress_bar
from agentgym_rl.envs.searchqa.bm25 import BM25, SCHEME
from agentgym_rl.envs.tables import json_object, parse_json

OFFSETS, ABOUT = "offsets.bin", "corpus.json"
"""Files beside those of bm25s: the position of each line (64 bits each), and the corpus that the index belongs to."""

_HOW = "build it with: python -m agentgym_rl.envs.searchqa {} {}"


def build(corpus: str | Path, index: str | Path, show_progress: bool = False) -> int:
    """Index a corpus into a folder and return the number of passages.

    Reads the corpus line by line. Holds the words of all passages (4 bytes each) and the index (12 bytes for each
    different word of each passage, and as much again for sorting) in memory. A search maps the index from disk.

    Raises:
        ValueError: there is no such file, or a line is not a passage; names the line.
    """
    corpus, index = Path(corpus), Path(index)
    if not corpus.is_file():
        raise ValueError(f"no corpus at {corpus}; give a JSONL file, unpacked")
    (index / ABOUT).unlink(missing_ok=True)  # written last: where it exists, the index is whole
    offsets = array("q", [0])

    def texts() -> Iterator[str]:
        size = corpus.stat().st_size // MB
        with progress_bar(f"reading {corpus.name}, MB", shown=show_progress) as progress, corpus.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                offsets.append(offsets[-1] + len(line))
                yield _contents(corpus, number, line)
                if number % 1000 == 0:
                    progress(offsets[-1] // MB, size)

    Index.over(texts(), show_progress).engine.save(index, show_progress=False)
    with (index / OFFSETS).open("wb") as file:
        offsets.tofile(file)
    about = {"bytes": offsets[-1], "passages": len(offsets) - 1, "tokens": SCHEME}
    (index / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    return len(offsets) - 1


def _contents(corpus: Path, number: int, line: bytes) -> str:
    entry = parse_json(line, f"{corpus}, line {number}")
    contents = entry.get("contents") if isinstance(entry, dict) else None
    if not isinstance(contents, str):
        raise ValueError(f"{corpus}, line {number}: has no 'contents' with text")
    return contents


def open_corpus(corpus: str, index: str) -> BM25:
    """A search engine over a corpus.

    Raises:
        ValueError: corpus or index is missing, or they do not belong together; the message says how to build.
    """
    about = Path(index) / ABOUT
    if not Path(corpus).is_file():
        raise ValueError(f"no corpus at {corpus}; give a JSONL file, unpacked")
    if not about.is_file():
        raise ValueError(f"no index in {index}; {_HOW.format(corpus, index)}")
    known = json_object(about)
    if known.keys() != {"bytes", "passages", "tokens"}:
        raise ValueError(f"{about} is not what an index has; {_HOW.format(corpus, index)}")
    if known["bytes"] != Path(corpus).stat().st_size:
        raise ValueError(f"the index in {index} is of another corpus than {corpus}; {_HOW.format(corpus, index)}")
    if known["tokens"] != SCHEME:
        raise ValueError(f"the index in {index} splits words as {known['tokens']!r}; {_HOW.format(corpus, index)}")
    return BM25(lambda: load(Path(corpus), Path(index)), threaded=True)


def load(corpus: Path, index: Path) -> tuple[Index, Callable[[int], str]]:
    """The index, and what reads the ``contents`` of a passage from the file."""
    import bm25s

    offsets = memoryview(_mapped(index / OFFSETS)).cast("q")
    lines = _mapped(corpus)

    def contents(number: int) -> str:
        text: str = json.loads(lines[offsets[number] : offsets[number + 1]])["contents"]
        return text

    return Index(bm25s.BM25.load(index, mmap=True, show_progress=False)), contents


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
