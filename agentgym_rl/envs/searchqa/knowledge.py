"""The invented knowledge: regions of things that relate to each other, and to nothing outside their region."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from random import Random

from agentgym_rl.envs.searchqa.kinds import KINDS, LITERALS, NAMES, Kind, Relation

SEED = "searchqa 0"
COUNTRIES: Mapping[str, int] = {"train": 8, "test": 3, "train_variants": 24, "val_variants": 3, "test_variants": 3}
"""Countries in the region of each split. Nothing that is asked about in one split occurs in another."""

FIRST_NAMES, SURNAMES = 120, 320


@dataclass(eq=False, slots=True)
class Thing:
    """A thing with an article of its own."""

    kind: Kind
    name: str
    title: str
    facts: dict[str, Thing | str] = field(default_factory=dict)
    """Value of each relation. A person may have no teacher, and a novel no publisher."""

    @property
    def mention(self) -> str:
        """The thing within a sentence."""
        return self.kind.mention.format(x=self.title)

    def number(self, relation: str) -> int:
        """The value of a relation whose values are numbers."""
        return int(str(self.facts[relation]))


Region = dict[str, list[Thing]]
"""Things by kind."""


def answers(relation: Relation, value: Thing | str) -> tuple[str, ...]:
    """The ways to write the value as an answer, the plainest first."""
    if isinstance(value, str):
        return tuple(template.format(y=value) for template in LITERALS[relation.target])
    plain = len(value.kind.titles) == 1 and value.name != value.title
    return (value.title, value.name) if plain else (value.title,)


@cache
def regions() -> Mapping[str, Region]:
    """The regions by split."""
    rng = Random(SEED)
    names = _each_once(lambda: _open_word(rng) + rng.choice(NAMES.endings))  # such as Keldask
    persons = _people(rng, list(islice(names, SURNAMES)))
    return {split: _region(countries, rng, names, persons) for split, countries in COUNTRIES.items()}


def _each_once(invent: Callable[[], str]) -> Iterator[str]:
    """Invented names without end, each once."""
    used = set()
    while True:
        name = invent()
        if name not in used:
            used.add(name)
            yield name


def _people(rng: Random, surnames: list[str]) -> Iterator[str]:
    """First names such as Keldo with one of the surnames, each pair once."""
    first = sorted({_open_word(rng) for _ in range(FIRST_NAMES)})
    yield from _each_once(lambda: f"{rng.choice(first)} {rng.choice(surnames)}")


def _open_word(rng: Random) -> str:
    parts = (NAMES.onsets, NAMES.vowels, NAMES.codas, NAMES.second_onsets, NAMES.vowels)
    return "".join(rng.choice(part) for part in parts).capitalize()


def _region(countries: int, rng: Random, names: Iterator[str], persons: Iterator[str]) -> Region:
    region: Region = {}
    for kind in KINDS.values():
        region[kind.name] = []
        for _ in range(kind.count * countries):
            name = next(persons if kind.name == "person" else names)
            region[kind.name].append(Thing(kind, name, rng.choice(kind.titles).format(x=name)))
    _land(region, rng, names)
    _lives(region, rng)
    _works(region, rng)
    return region


def _land(region: Region, rng: Random, names: Iterator[str]) -> None:
    """Facts of countries, cities, rivers and mountains."""
    shares = {name: _shares(region, name) for name in ("city", "river", "mountain")}
    for place, country in enumerate(region["country"]):
        cities, rivers, mountains = (shares[name][place] for name in ("city", "river", "mountain"))
        for mountain in mountains:
            climber = rng.choice(region["person"])
            mountain.facts |= {"country": country, "height": str(rng.randrange(900, 6900)), "climber": climber}
        for river in rivers:
            length = str(rng.randrange(60, 990))
            river.facts |= {"source": rng.choice(mountains), "lake": next(names), "length": length}
        for city in cities:
            city.facts |= {
                "country": country,
                "river": rng.choice(rivers),
                "founded": str(rng.randrange(900, 1600)),
                "inhabitants": str(rng.randrange(30, 990) * 100),
                "mayor": rng.choice(region["person"]),
            }
        country.facts |= {
            "capital": rng.choice(cities),
            "currency": next(names),
            "language": next(names),
            "river": max(rivers, key=lambda river: river.number("length")),
            "mountain": max(mountains, key=lambda mountain: mountain.number("height")),
        }


def _shares(region: Region, kind: str) -> list[list[Thing]]:
    """The things of a kind, by country."""
    count = KINDS[kind].count
    return [region[kind][start : start + count] for start in range(0, len(region[kind]), count)]


def _lives(region: Region, rng: Random) -> None:
    """Facts of universities and people."""
    for university in region["university"]:
        university.facts |= {
            "city": rng.choice(region["city"]),
            "founded": str(rng.randrange(1300, 1690)),
            "rector": rng.choice(region["person"]),
        }
    for person in region["person"]:
        person.facts |= {
            "born": str(rng.randrange(1700, 1880)),
            "birthplace": rng.choice(region["city"]),
            "university": rng.choice(region["university"]),
        }
    for person in region["person"]:
        born = person.number("born")
        elders = [elder for elder in region["person"] if 18 <= born - elder.number("born") <= 50]
        if elders:
            person.facts["teacher"] = rng.choice(elders)


def _works(region: Region, rng: Random) -> None:
    """Facts of what people founded, wrote, won and built."""

    def grown(person: Thing) -> int:
        """A year of the person's working life."""
        return person.number("born") + rng.randrange(24, 56)

    for company in region["company"]:
        founder = rng.choice(region["person"])
        company.facts |= {
            "founder": founder,
            "headquarters": rng.choice(region["city"]),
            "founded": str(grown(founder)),
        }
    for novel in region["novel"]:
        author = rng.choice(region["person"])
        year = grown(author)
        novel.facts |= {"author": author, "published": str(year), "setting": rng.choice(region["city"])}
        publishers = [company for company in region["company"] if company.number("founded") <= year]
        if publishers:
            novel.facts["publisher"] = rng.choice(publishers)
    for opera in region["opera"]:
        composer, novel = rng.choice(region["person"]), rng.choice(region["novel"])
        year = max(grown(composer), novel.number("published") + 1)
        opera.facts |= {"composer": composer, "performed": str(year), "novel": novel}
    for prize in region["prize"]:
        prize.facts |= {"winner": rng.choice(region["person"]), "presenter": rng.choice(region["university"])}
    for bridge in region["bridge"]:
        engineer = rng.choice(region["person"])
        bridge.facts |= {"river": rng.choice(region["river"]), "engineer": engineer, "opened": str(grown(engineer))}
    for museum in region["museum"]:
        architect = rng.choice(region["person"])
        museum.facts |= {"city": rng.choice(region["city"]), "architect": architect, "opened": str(grown(architect))}
