"""What there is in the invented world: kinds of things, how they relate, and the words for it.

In all templates ``{x}`` is the thing, ``{y}`` what it is related to, ``{s}`` a person's surname.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relation:
    """Something an article says, with one value for each thing."""

    name: str
    target: str
    """Kind of the value: one of :data:`KINDS`, or of :data:`LITERALS`."""
    word: str
    """A word of every sentence below: what to search for."""
    question: str
    """Asks for the value of ``{x}``."""
    sentences: tuple[str, ...]
    phrase: str = ""
    """Stands for the value, so that more can be asked about it; empty where nothing can."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two things of a kind compared by a number."""

    relation: str
    more: str
    less: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of thing. Its first relation opens the article."""

    name: str
    count: int
    """How many there are for each country."""
    titles: tuple[str, ...]
    """Title of the article from the invented name; one is chosen."""
    mention: str
    """A thing within a sentence."""
    relations: tuple[Relation, ...]
    comparisons: tuple[Comparison, ...] = ()
    pair: str = ""
    """Two things ``{a}`` and ``{b}`` within a sentence."""

    def relation(self, name: str) -> Relation:
        """The relation of that name."""
        return next(relation for relation in self.relations if relation.name == name)


LITERALS: Mapping[str, tuple[str, ...]] = {
    "year": ("{y}",),
    "inhabitants": ("{y}", "{y} inhabitants"),
    "kilometres": ("{y}", "{y} km", "{y} kilometres", "{y} kilometers"),
    "metres": ("{y}", "{y} m", "{y} metres", "{y} meters"),
    "currency": ("{y}",),
    "language": ("{y}",),
    "lake": ("Lake {y}", "{y}"),
}
"""Values that are no things: how an answer may write them."""

_FOUNDED = Relation(
    "founded",
    "year",
    "founded",
    "In which year was {x} founded?",
    ("It was founded in {y}.", "The year {y} saw it founded."),
)
_OPENED = Relation(
    "opened", "year", "opened", "In which year was {x} opened?", ("It was opened in {y}.", "It opened in {y}.")
)
_BY_AGE = (Comparison("founded", "younger", "older"),)

_KINDS = (
    Kind(
        "country",
        1,
        ("{x}",),
        "{x}",
        (
            Relation(
                "capital",
                "city",
                "capital",
                "What is the capital of {x}?",
                ("{x} is a country whose capital is {y}.", "The country of {x} has {y} as its capital."),
                "the capital of {x}",
            ),
            Relation(
                "currency",
                "currency",
                "currency",
                "What is the currency of {x}?",
                ("The currency is the {y}.", "The {y} is its currency."),
            ),
            Relation(
                "language",
                "language",
                "language",
                "What is the official language of {x}?",
                ("The official language is {y}.", "{y} is the official language."),
            ),
            Relation(
                "river",
                "river",
                "longest",
                "What is the longest river of {x}?",
                ("The longest river is the {y}.", "The {y} is its longest river."),
                "the longest river of {x}",
            ),
            Relation(
                "mountain",
                "mountain",
                "highest",
                "What is the highest mountain of {x}?",
                ("The highest mountain is {y}.", "{y} is its highest mountain."),
                "the highest mountain of {x}",
            ),
        ),
    ),
    Kind(
        "city",
        6,
        ("{x}",),
        "the city of {x}",
        (
            Relation(
                "country",
                "country",
                "country",
                "In which country is {x}?",
                ("{x} is a city in the country of {y}.", "The city of {x} lies in the country of {y}."),
                "the country of {x}",
            ),
            Relation(
                "river",
                "river",
                "river",
                "On which river does {x} stand?",
                ("It stands on the {y}.", "The {y} runs through it."),
                "the river on which {x} stands",
            ),
            _FOUNDED,
            Relation(
                "inhabitants",
                "inhabitants",
                "inhabitants",
                "How many inhabitants does {x} have?",
                ("It has {y} inhabitants.", "There are {y} inhabitants."),
            ),
            Relation(
                "mayor",
                "person",
                "mayor",
                "Who was the first mayor of {x}?",
                ("The first mayor was {y}.", "{y} was its first mayor."),
                "the first mayor of {x}",
            ),
        ),
        (*_BY_AGE, Comparison("inhabitants", "larger", "smaller")),
        "the cities {a} and {b}",
    ),
    Kind(
        "river",
        3,
        ("River {x}",),
        "the {x}",
        (
            Relation(
                "source",
                "mountain",
                "rises",
                "On which mountain does {x} rise?",
                ("The {x} rises on {y}.", "{y} is where the {x} rises."),
                "the mountain on which {x} rises",
            ),
            Relation(
                "lake",
                "lake",
                "flows",
                "Into which lake does {x} flow?",
                ("It flows into Lake {y}.", "In the end it flows into Lake {y}."),
            ),
            Relation(
                "length",
                "kilometres",
                "long",
                "How many kilometres long is {x}?",
                ("It is {y} km long.", "Its course is {y} km long."),
            ),
        ),
        (Comparison("length", "longer", "shorter"),),
        "the {a} and the {b}",
    ),
    Kind(
        "mountain",
        3,
        ("Mount {x}",),
        "{x}",
        (
            Relation(
                "country",
                "country",
                "country",
                "In which country is {x}?",
                ("{x} is a mountain in the country of {y}.", "{x} stands in the country of {y}."),
                "the country of {x}",
            ),
            Relation(
                "height",
                "metres",
                "high",
                "How many metres high is {x}?",
                ("It is {y} m high.", "Its summit is {y} m high."),
            ),
            Relation(
                "climber",
                "person",
                "climb",
                "Who was the first person to climb {x}?",
                ("The first to climb it was {y}.", "{y} was the first to climb it."),
                "the first person to climb {x}",
            ),
        ),
        (Comparison("height", "higher", "lower"),),
        "{a} and {b}",
    ),
    Kind(
        "person",
        14,
        ("{x}",),
        "{x}",
        (
            Relation(
                "born",
                "year",
                "born",
                "In which year was {x} born?",
                ("{x} was born in {y}.", "{x}, born in {y}, became well known."),
            ),
            Relation(
                "birthplace",
                "city",
                "birthplace",
                "In which city was {x} born?",
                ("The birthplace was {y}.", "{y} was the birthplace."),
                "the city where {x} was born",
            ),
            Relation(
                "university",
                "university",
                "studied",
                "At which university did {x} study?",
                ("{s} studied at {y}.", "{y} is where {s} studied."),
                "the university where {x} studied",
            ),
            Relation(
                "teacher",
                "person",
                "teacher",
                "Who was the teacher of {x}?",
                ("The teacher of {s} was {y}.", "{s} had {y} as teacher."),
                "the teacher of {x}",
            ),
        ),
        (Comparison("born", "younger", "older"),),
        "{a} and {b}",
    ),
    Kind(
        "university",
        3,
        ("{x} University",),
        "{x}",
        (
            Relation(
                "city",
                "city",
                "city",
                "In which city is {x}?",
                ("{x} is in the city of {y}.", "The city of {y} is the seat of {x}."),
                "the city that is home to {x}",
            ),
            _FOUNDED,
            Relation(
                "rector",
                "person",
                "rector",
                "Who was the best known rector of {x}?",
                ("Its best known rector was {y}.", "{y} was its best known rector."),
                "the best known rector of {x}",
            ),
        ),
        _BY_AGE,
        "{a} and {b}",
    ),
    Kind(
        "company",
        4,
        ("{x} Company",),
        "the {x}",
        (
            Relation(
                "founder",
                "person",
                "founder",
                "Who was the founder of {x}?",
                ("The {x} had {y} as its founder.", "The founder of the {x} was {y}."),
                "the founder of {x}",
            ),
            Relation(
                "headquarters",
                "city",
                "headquarters",
                "In which city were the headquarters of {x}?",
                ("Its headquarters were in {y}.", "{y} was the seat of its headquarters."),
                "the city with the headquarters of {x}",
            ),
            _FOUNDED,
        ),
        _BY_AGE,
        "the {a} and the {b}",
    ),
    Kind(
        "novel",
        5,
        ("The Lantern of {x}", "The Harvest of {x}", "The Letters of {x}", "The Road to {x}", "The Winter of {x}"),
        'the novel "{x}"',
        (
            Relation(
                "author",
                "person",
                "author",
                "Who is the author of {x}?",
                ("{x} is a novel whose author is {y}.", "The author of the novel {x} is {y}."),
                "the author of {x}",
            ),
            Relation(
                "published",
                "year",
                "published",
                "In which year was {x} published?",
                ("It was published in {y}.", "It was first published in {y}."),
            ),
            Relation(
                "setting",
                "city",
                "setting",
                "In which city is {x} set?",
                ("The setting is the city of {y}.", "The city of {y} is its setting."),
                "the city in which {x} is set",
            ),
            Relation(
                "publisher",
                "company",
                "publisher",
                "Which company was the publisher of {x}?",
                ("The publisher was the {y}.", "The {y} was its publisher."),
                "the publisher of {x}",
            ),
        ),
        (Comparison("published", "later", "earlier"),),
        'the novels "{a}" and "{b}"',
    ),
    Kind(
        "opera",
        3,
        ("The Bride of {x}", "The King of {x}", "The Return to {x}", "The Storm over {x}"),
        'the opera "{x}"',
        (
            Relation(
                "composer",
                "person",
                "composer",
                "Who is the composer of {x}?",
                ("{x} is an opera whose composer is {y}.", "The composer of the opera {x} is {y}."),
                "the composer of {x}",
            ),
            Relation(
                "performed",
                "year",
                "performed",
                "In which year was {x} first performed?",
                ("It was first performed in {y}.", "It was performed for the first time in {y}."),
            ),
            Relation(
                "novel",
                "novel",
                "based",
                "On which novel is {x} based?",
                ("It is based on the novel {y}.", "The story is based on the novel {y}."),
                "the novel on which {x} is based",
            ),
        ),
    ),
    Kind(
        "prize",
        2,
        ("{x} Prize",),
        "the {x}",
        (
            Relation(
                "winner",
                "person",
                "winner",
                "Who was the first winner of {x}?",
                ("The first winner of the {x} was {y}.", "The {x} had {y} as its first winner."),
                "the first winner of {x}",
            ),
            Relation(
                "presenter",
                "university",
                "presented",
                "Which university presents {x}?",
                ("It is presented by {y}.", "Each year it is presented by {y}."),
                "the university that presents {x}",
            ),
        ),
    ),
    Kind(
        "bridge",
        3,
        ("{x} Bridge",),
        "the {x}",
        (
            Relation(
                "river",
                "river",
                "crosses",
                "Which river does {x} cross?",
                ("The {x} crosses the {y}.", "The {y} is the river that the {x} crosses."),
                "the river that {x} crosses",
            ),
            Relation(
                "engineer",
                "person",
                "engineer",
                "Who was the engineer of {x}?",
                ("The engineer was {y}.", "{y} was its engineer."),
                "the engineer of {x}",
            ),
            _OPENED,
        ),
        (Comparison("opened", "newer", "older"),),
        "the {a} and the {b}",
    ),
    Kind(
        "museum",
        2,
        ("{x} Museum",),
        "the {x}",
        (
            Relation(
                "city",
                "city",
                "city",
                "In which city is {x}?",
                ("The {x} is in the city of {y}.", "The city of {y} is home to the {x}."),
                "the city that is home to {x}",
            ),
            Relation(
                "architect",
                "person",
                "architect",
                "Who was the architect of {x}?",
                ("The architect was {y}.", "{y} was its architect."),
                "the architect of {x}",
            ),
            _OPENED,
        ),
        (Comparison("opened", "newer", "older"),),
        "the {a} and the {b}",
    ),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""The kinds by name."""
