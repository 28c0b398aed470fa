"""Questions about the invented world, with the searches that lead to the answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from random import Random

from agentgym_rl.envs.searchqa.kinds import Comparison, Relation
from agentgym_rl.envs.searchqa.knowledge import SEED, Region, Thing, answers, regions

LEVELS = ("hops 1", "hops 2", "hops 3", "compare")
PARTNERS = 6
"""With how many others of its kind a thing is compared."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A question with its answer."""

    question: str
    answers: tuple[str, ...]
    """Right answers, the plainest first."""
    queries: tuple[str, ...]
    """What to search for, step by step."""
    needed: tuple[str, ...]
    """Title of the article that each search has to find."""


Path = tuple[tuple[Thing, Relation], ...]
"""Things in the order they are found, each with what is asked of it."""


@dataclass(frozen=True, slots=True)
class Contest:
    """Which of two is the greater, and then something else about it: an answer that the question does not name."""

    one: Thing
    other: Thing
    comparison: Comparison
    more: bool
    relation: Relation


def puzzle(split: str, level: str, place: int) -> Puzzle:
    """A question of a level about the region of a split.

    Raises:
        IndexError: there are not as many.
    """
    plan = _plans(split, level)[place]
    return _ask_winner(plan) if isinstance(plan, Contest) else _ask(plan)


@cache
def _plans(split: str, level: str) -> tuple[Path | Contest, ...]:
    """All that can be asked, nothing twice, in an order of chance."""
    region = regions()[split]
    rng = Random(f"{SEED}:{split}:{level}")
    plans: list[Path | Contest] = []
    if level == "compare":
        plans += _contests(region, rng)
    else:
        for start in chain.from_iterable(region.values()):
            plans += _paths((start,), int(level.removeprefix("hops ")))
    rng.shuffle(plans)
    return tuple(plans)


def _paths(met: tuple[Thing, ...], hops: int) -> Iterator[Path]:
    """Paths from the last thing met over ``hops`` relations that never come back to a thing."""
    thing = met[-1]
    for relation in thing.kind.relations:
        value = thing.facts.get(relation.name)
        if value is None or value in met:
            continue
        if hops == 1:
            yield ((thing, relation),)
        elif isinstance(value, Thing):
            for rest in _paths((*met, value), hops - 1):
                yield ((thing, relation), *rest)


def _ask(path: Path) -> Puzzle:
    asked = path[0][0].mention
    for _, relation in path[:-1]:
        asked = relation.phrase.format(x=asked)
    return _finish(asked, path)


def _contests(region: Region, rng: Random) -> Iterator[Contest]:
    for things in region.values():
        kind = things[0].kind
        order = rng.sample(things, len(things))
        for comparison in kind.comparisons:
            for step in range(1, min(PARTNERS, len(things) - 1) + 1):
                for one, other in zip(order, islice(chain(order, order), step, None), strict=False):
                    yield from _about(one, other, comparison, rng.random() < 0.5)


def _about(one: Thing, other: Thing, comparison: Comparison, more: bool) -> Iterator[Contest]:
    if one.facts[comparison.relation] == other.facts[comparison.relation]:
        return
    for relation in one.kind.relations:
        values = one.facts.get(relation.name), other.facts.get(relation.name)
        given_away = relation.name == comparison.relation or one in values or other in values
        if not given_away and None not in values and values[0] != values[1]:
            yield Contest(one, other, comparison, more, relation)


def _ask_winner(contest: Contest) -> Puzzle:
    one, other, comparison = contest.one, contest.other, contest.comparison
    compared = one.kind.relation(comparison.relation)
    winner = (max if contest.more else min)(one, other, key=lambda thing: thing.number(compared.name))
    pair = one.kind.pair.format(a=one.title, b=other.title)
    asked = f"the {comparison.more if contest.more else comparison.less} of {pair}"
    return _finish(asked, ((one, compared), (other, compared), (winner, contest.relation)))


def _finish(asked: str, path: Path) -> Puzzle:
    thing, relation = path[-1]
    return Puzzle(
        relation.question.format(x=asked),
        answers(relation, thing.facts[relation.name]),
        tuple(f"{each.title} {step.word}" for each, step in path),
        tuple(each.title for each, _ in path),
    )
