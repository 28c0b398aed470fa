"""From task indices to pages and seeds: the pages take turns, so that index ``i`` is page ``i % 125`` with seed
``i // 125``."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from agentgym_rl.envs.splits import Splits
from agentgym_rl.envs.texts import EnvTexts, read_texts


@dataclass(frozen=True, kw_only=True)
class Texts(EnvTexts):
    """The file ``env.toml``."""

    commands: tuple[str, ...]
    tasks: tuple[str, ...]


TEXTS = read_texts(__file__, Texts)
_PAGES = len(TEXTS.tasks)
SEEDS = {"train": range(200), "val": range(200, 205), "test": range(205, 210)}
SPLITS = Splits("miniwob", {name: range(seeds.start * _PAGES, seeds.stop * _PAGES) for name, seeds in SEEDS.items()})


@dataclass(frozen=True, slots=True)
class Problem:
    """A task: a page, the seed of what it draws, and whether it draws from its texts for training or for tests."""

    page: str
    seed: int
    mode: str

    def __str__(self) -> str:
        return f"{self.page}, seed {self.seed}"


def problem(index: int) -> Problem:
    """The task of an index. Raises TaskNotFound: there is none."""
    split, _ = SPLITS.locate(index)
    return Problem(TEXTS.tasks[index % _PAGES], index // _PAGES, "test" if split == "test" else "train")


def only(patterns: str) -> dict[str, Sequence[int]]:
    """:data:`SPLITS` without the pages that match none of the patterns, which commas separate; empty keeps all.

    Raises:
        ValueError: a pattern matches no page.
    """
    globs = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    for pattern in globs:
        if not any(fnmatchcase(page, pattern) for page in TEXTS.tasks):
            raise ValueError(f"pages: none of MiniWoB++ matches {pattern!r}; give names such as click-test, or enter-*")
    if not globs:
        return dict(SPLITS)
    places = [at for at, page in enumerate(TEXTS.tasks) if any(fnmatchcase(page, pattern) for pattern in globs)]
    return {
        name: tuple(start + place for start in range(indices.start, indices.stop, _PAGES) for place in places)
        for name, indices in SPLITS.items()
    }
