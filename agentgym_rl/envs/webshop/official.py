"""WebShop's own products and goals: from its files to a folder with an index, and from the folder to a shop.

``python -m agentgym_rl.envs.webshop items_shuffle.json FOLDER`` builds the folder. Products are one JSON object a line.
The folder is mapped from disk, so that a million products take little memory.
"""

import json
import mmap
import os
import re
import shutil
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from math import prod
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

from agentgym_rl.envs.bm25 import Index
from agentgym_rl.envs.progress import MB, progress_bar
from agentgym_rl.envs.splits import no_task
from agentgym_rl.envs.tables import json_object
from agentgym_rl.envs.webshop.product import Goal, Product, price_cap, price_wish
from agentgym_rl.envs.webshop.shop import BM25, Shop, words

Goals = Literal["synthetic", "human"]
SPLITS: Mapping[str, Mapping[str, slice]] = {
    "synthetic": {"train": slice(200, 4130), "test": slice(200)},
    "human": {"train": slice(1500, None), "validation": slice(500, 1500), "test": slice(500)},
    "verl_agent": {"train": slice(500, None), "test": slice(500)},
}
"""AgentGym's of the synthetic goals, WebShop's of the human ones, and verl-agent's of the synthetic ones."""

PRODUCTS, OFFSETS, INDEX, ABOUT = "products.jsonl", "offsets", "index", "shop.json"
SCHEME = "porter 1, limits 2"
"""Name of the way that texts are split into words, as queries must be, and of that of the price limits."""
SEED = 233
"""WebShop's, of the order of the goals, and AgentGym's, of the price limits of those that are made."""
CHUNK, MAX_ENTRY_CHARACTERS = 1 << 20, 1 << 26
"""Characters of a JSON file that are read at once, and most of one entry."""
THREADED = 20_000
"""Number of products from which on searches run in threads."""


def build(products: str | Path, folder: str | Path, show_progress: bool = False) -> int:
    """Make a folder of WebShop's files and return the number of products. The folder appears whole.

    ``items_ins_v2.json`` and, where there is one, ``items_human_ins.json`` are read from beside ``products``, the
    former with the same ending of its name, such as ``_1000``.

    Raises:
        ValueError: a file is missing or malformed, or the folder exists.
    """
    products, folder = Path(products), Path(folder)
    attributes = products.with_name(products.name.replace("items_shuffle", "items_ins_v2"))
    human_file = products.with_name("items_human_ins.json")
    if attributes == products:
        raise ValueError(f"{products}: give WebShop's items_shuffle.json or items_shuffle_1000.json")
    for path in (products, attributes):
        if not path.is_file():
            raise ValueError(f"no file {path}; the setup.sh of WebShop's repository downloads it")
    if folder.exists():
        raise ValueError(f"{folder} exists; remove it or name another folder")
    marked, human = json_object(attributes), json_object(human_file) if human_file.is_file() else {}
    beside = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    beside.mkdir(parents=True)
    try:
        count = _build(products, marked, human, beside, show_progress)
        os.replace(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return count


def _build(products: Path, marked: dict[str, Any], human: dict[str, Any], folder: Path, show_progress: bool) -> int:
    ends = {name: array("q", [0]) for name in (OFFSETS, *get_args(Goals))}
    """Of each product: the end of its line, and of its goals among all."""
    limits = Random(SEED)

    def texts() -> Iterator[str]:
        seen = {"nan"}
        size, title = products.stat().st_size // MB, f"reading {products.name}, MB"
        with progress_bar(title, shown=show_progress) as progress, (folder / PRODUCTS).open("wb") as file:
            for number, (entry, position) in enumerate(entries(products), start=1):
                progress(position // MB, size)
                try:
                    if entry["asin"] in seen or len(entry["asin"]) > 10:
                        continue
                    product = _product(entry, marked)
                    wishes = _wishes(product, marked.get(product.asin, {}), human.get(product.asin, ()), limits)
                except (KeyError, IndexError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
                    raise ValueError(f"{products}, product {number} is not one of WebShop's: {error!r}") from error
                seen.add(product.asin)
                length = file.write(json.dumps({**asdict(product), "wishes": wishes}).encode() + b"\n")
                combinations = prod(map(len, product.options.values()))
                counts = (length, combinations if wishes["synthetic"] else 0, len(wishes["human"]))
                for end, count in zip(ends.values(), counts, strict=True):
                    end.append(end[-1] + count)
                yield product.contents

    index = Index.over(texts(), show_progress, words, **BM25)
    index.engine.save(folder / INDEX, show_progress=False)
    for name, end in ends.items():
        (folder / name).write_bytes(end.tobytes())
    count = len(ends[OFFSETS]) - 1
    (folder / ABOUT).write_text(json.dumps({"products": count, "words": SCHEME}), encoding="utf-8")
    return count


def entries(path: Path) -> Iterator[tuple[Any, int]]:
    """The entries of a JSON list of any length, each with the number of characters read so far.

    Raises:
        ValueError: the file is no JSON list, or an entry is longer than :data:`MAX_ENTRY_CHARACTERS`.
    """
    decoder, gap = json.JSONDecoder(), re.compile(r"[\s,]*")
    with path.open(encoding="utf-8-sig") as file:
        if file.read(1) != "[":
            raise ValueError(f"{path}: expected a JSON list")
        buffer, at, read = "", 0, 1
        while True:
            at = gap.match(buffer, at).end()  # type: ignore[union-attr]
            if buffer[at : at + 1] == "]":
                return
            try:
                entry, at = decoder.raw_decode(buffer, at)
            except json.JSONDecodeError as error:
                more = file.read(CHUNK)
                if not more or len(buffer) - at > MAX_ENTRY_CHARACTERS:
                    raise ValueError(f"{path}: not a JSON list ({error.msg} after character {read})") from error
                buffer, at, read = buffer[at:] + more, 0, read + len(more)
                continue
            yield entry, read


def _product(entry: dict[str, Any], marked: Mapping[str, Any]) -> Product:
    """As WebShop reads a product."""
    asin, bullets = entry["asin"], entry["small_description"]
    options = {
        name.lower(): tuple(value["value"].strip().replace("/", " | ").lower() for value in values)
        for name, values in (entry["customization_options"] or {}).items()
        if values is not None
    }
    prices = [float(re.sub(r"[^\d.]", "", part)) for part in (entry.get("pricing") or "").split("$")[1:3]] or [100.0]
    return Product(
        asin=asin,
        title=entry["name"],
        description=entry["full_description"] or "",
        bullets=tuple(bullets if isinstance(bullets, list) else [bullets or ""]),
        options=options,
        attributes=tuple(marked.get(asin, {}).get("attributes", ("DUMMY_ATTR",))),
        price=Random(asin).uniform(*prices) if len(prices) == 2 else prices[0],
        price_tag=" to ".join(f"${price}" for price in prices),
        query=entry["query"].lower().strip(),
        category=entry["product_category"],
    )


def _wishes(
    product: Product, marked: Mapping[str, Any], human: Sequence[Mapping[str, Any]], limits: Random
) -> dict[str, list[Any]]:
    """Of each kind of goals: an instruction, the attributes, and the options of human goals, the limit of others."""
    wishes = [
        [wish["instruction"].strip("."), wish["instruction_attributes"], wish["instruction_options"]] for wish in human
    ]
    text = marked.get("instruction")
    if text is not None and not marked["instruction_attributes"]:
        raise ValueError("its instruction asks for no attribute")
    return {
        "synthetic": [] if text is None else [text, marked["instruction_attributes"], price_cap(product.price, limits)],
        "human": [wish for wish in wishes if wish[1]],
    }


def open_folder(folder: str, goals: Goals, splits: str = "agentgym") -> Shop:
    """The shop in a folder of :func:`build`.

    Args:
        splits: ``verl_agent``, or those of the kind of goals.

    Raises:
        ValueError: there is none, or it has too few goals of this kind.
    """
    path, hint = Path(folder), f"build it with: python -m agentgym_rl.envs.webshop items_shuffle.json {folder}"
    if not (path / ABOUT).is_file():
        raise ValueError(f"no shop in {folder}; {hint}")
    if json_object(path / ABOUT).get("words") != SCHEME:
        raise ValueError(f"the index in {folder} is of another version; {hint}")
    import bm25s

    stock, wishes = Stock(path), Wishes(path, goals)
    parts = SPLITS[goals if splits == "agentgym" else splits]
    ranges = {split: range(len(wishes))[part] for split, part in parts.items()}
    if not ranges["train"]:
        start = parts["train"].start
        raise ValueError(
            f"{folder} has {len(wishes)} {goals} goals, train begins with goal {start}; choose other goals"
        )
    index = Index(bm25s.BM25.load(path / INDEX, mmap=True, show_progress=False), words)
    return Shop(stock, index, lambda at: wishes.goal(stock, at), ranges, threaded=len(stock) > THREADED)


class Stock(Sequence[Product]):
    """The products of a folder, read from disk one by one."""

    def __init__(self, folder: Path) -> None:
        self._ends = _numbers(folder / OFFSETS)
        self._lines = _mapped(folder / PRODUCTS)
        self._read: Callable[[int], dict[str, Any]] = lru_cache(maxsize=10_000)(self._line)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, at: Any) -> Any:
        line = self._read(at)
        options = {name: tuple(values) for name, values in line["options"].items()}
        texts = {key: line[key] for key in ("asin", "title", "description", "price", "price_tag", "query", "category")}
        return Product(**texts, options=options, bullets=tuple(line["bullets"]), attributes=tuple(line["attributes"]))

    def wishes(self, at: int) -> dict[str, list[Any]]:
        """What customers may want of a product, see :func:`_wishes`."""
        wishes: dict[str, list[Any]] = self._read(at)["wishes"]
        return wishes

    def _line(self, at: int) -> dict[str, Any]:
        line: dict[str, Any] = json.loads(self._lines[self._ends[at] : self._ends[at + 1]])
        return line


class Wishes:
    """The goals of one kind, in the order that WebShop shuffles them into."""

    def __init__(self, folder: Path, kind: Goals) -> None:
        self._kind = kind
        self._ends = _numbers(folder / kind)
        self._order = array("q", range(self._ends[-1]))
        Random(SEED).shuffle(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def goal(self, stock: Stock, index: int) -> Goal:
        """The goal of a task. Raises TaskNotFound: there is no such task."""
        if not 0 <= index < len(self):
            raise no_task("webshop", index, [range(len(self))])
        number = bisect_right(self._ends, self._order[index]) - 1
        which, product = self._order[index] - self._ends[number], stock[number]
        wishes = stock.wishes(number)[self._kind]
        options: Any
        if self._kind == "human":
            wish, attributes, options = wishes[which]
            text, cap = wish, price_cap(product.price, Random(f"{product.asin}\t{wish}"))
        else:
            (wish, attributes, cap), options = wishes, _combination(product, which)
            text = (
                wish
                + (" with " if options else "")
                + ", and ".join(f"{key}: {value}" for key, value in options.items())
            )
        goal_options = tuple(options.items()) if isinstance(options, dict) else tuple(options)
        return Goal(product, text + price_wish(cap), tuple(attributes), goal_options, cap)


def _combination(product: Product, which: int) -> dict[str, str]:
    """A value of each option; the combinations are numbered with the last name, in alphabetical order, fastest."""
    chosen = {}
    for name in sorted(product.options, reverse=True):
        which, place = divmod(which, len(product.options[name]))
        chosen[name] = product.options[name][place]
    return dict(reversed(chosen.items()))


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _numbers(path: Path) -> memoryview:
    return memoryview(_mapped(path)).cast("q")
