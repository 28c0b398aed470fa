"""Generated papers and authors. The graphs are the same on every machine and never change."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import Random

from agentgym_rl.envs.tables import load
from agentgym_rl.envs.tooluse.names import NAMES

PAPERS = 2_400
RECENT = 300
"""A paper cites some of this many papers before it."""

GROUPS = 240
"""Groups of five or six authors who write most of their papers together."""


@dataclass(frozen=True, slots=True)
class Words:
    """What papers are made of: the file ``words.toml``."""

    qualities: tuple[str, ...]
    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    titles: tuple[str, ...]
    """Patterns."""
    journals: tuple[str, ...]
    conferences: tuple[str, ...]
    towns: tuple[str, ...]
    organizations: tuple[str, ...]
    """Patterns of names with a town."""


WORDS = load(Path(__file__).with_name("words.toml"), Words)
TOPICS = (*WORDS.methods, *WORDS.tasks)
VENUES = (*WORDS.journals, *WORDS.conferences)
ORGANIZATIONS = tuple(pattern.format(town) for town in WORDS.towns for pattern in WORDS.organizations)


@dataclass(frozen=True, slots=True)
class Paper:
    """A node of PaperNet; ``references`` are the titles of the papers it cites, which are older.

    ``n_citation`` counts the papers of the graph that cite it, and others.
    """

    title: str
    authors: tuple[str, ...]
    year: int
    venue: str
    n_citation: int
    keywords: tuple[str, ...]
    references: tuple[str, ...]

    @property
    def doc_type(self) -> str:
        return "Journal" if self.venue in WORDS.journals else "Conference"


@dataclass(frozen=True, eq=False)
class Graphs:
    papers: Mapping[str, Paper]
    """By title."""
    organizations: Mapping[str, str]
    """By name of the author."""
    together: Mapping[str, Mapping[str, Sequence[str]]]
    """For each author, the collaborators and the titles of the papers both wrote."""


@lru_cache(maxsize=1)
def graphs() -> Graphs:
    """Both graphs."""
    rng = Random("academia 0")
    groups, organizations = _authors(rng)
    everyone = list(organizations)
    papers: dict[str, Paper] = {}
    recent: deque[Paper] = deque(maxlen=RECENT)
    together: dict[str, dict[str, list[str]]] = {name: defaultdict(list) for name in everyone}
    for title, year in zip(_titles(rng), sorted(rng.choices(range(1998, 2024), k=PAPERS)), strict=True):
        authors = rng.sample(rng.choice(groups), rng.choice((1, 2, 2, 3, 3, 4)))
        guest = rng.choice(everyone)
        if rng.random() < 0.2 and guest not in authors:
            authors.append(guest)
        papers[title] = paper = _paper(rng, title, year, authors, recent)
        recent.append(paper)
        for author in authors:
            for other in authors:
                if other != author:
                    together[author][other].append(title)
    cited = Counter(title for paper in papers.values() for title in paper.references)
    counted = {title: replace(paper, n_citation=paper.n_citation + cited[title]) for title, paper in papers.items()}
    return Graphs(counted, organizations, {name: dict(others) for name, others in together.items()})


def _authors(rng: Random) -> tuple[list[list[str]], dict[str, str]]:
    names = NAMES.full
    rng.shuffle(names)
    groups = []
    organizations: dict[str, str] = {}
    for _ in range(GROUPS):
        homes = rng.sample(ORGANIZATIONS, rng.choice((1, 2, 3)))
        groups.append([names.pop() for _ in range(rng.choice((5, 6)))])
        organizations |= {name: rng.choice(homes) for name in groups[-1]}
    return groups, organizations


def _titles(rng: Random) -> list[str]:
    titles: dict[str, None] = {}
    while len(titles) < PAPERS:
        parts = {"quality": WORDS.qualities, "method": WORDS.methods, "task": WORDS.tasks}
        title = rng.choice(WORDS.titles).format(**{name: rng.choice(words) for name, words in parts.items()})
        titles[title] = None
    return list(titles)


def _paper(rng: Random, title: str, year: int, authors: list[str], recent: Iterable[Paper]) -> Paper:
    older = [paper.title for paper in recent if paper.year < year]
    topic = [words for words in TOPICS if words in title]
    more = [words for words in rng.sample(TOPICS, 3) if words not in topic]
    return Paper(
        title=title,
        authors=tuple(authors),
        year=year,
        venue=rng.choice(VENUES),
        n_citation=int(rng.paretovariate(0.7) - 1) % 400,  # by papers outside the graph
        keywords=tuple([*topic, *more[: rng.randint(0, 3)]]),
        references=tuple(rng.sample(older, min(len(older), rng.randint(1, 7)))),
    )
