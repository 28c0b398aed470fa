"""The built-in questions about the invented articles, each with the searches that lead to its answer.

Everything is a function of the task's index; indices below 300,000 are AgentGym's. In every split the levels take
turns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from random import Random

from agentgym_rl.envs.searchqa.kinds import Comparison, Relation
from agentgym_rl.envs.searchqa.knowledge import SEED, Region, Thing, answers, regions
from agentgym_rl.envs.searchqa.question import Question
from agentgym_rl.envs.splits import Splits

LEVELS = ("hops 1", "hops 2", "hops 3", "compare")
SPLITS = Splits.read(__file__, "searchqa")
PARTNERS = 6
"""Number of other things of its kind that a thing is compared with."""


class BuiltIn:
    """The built-in questions."""

    splits = SPLITS

    def question(self, index: int) -> Question:
        split, place = SPLITS.locate(index)
        plan = _plans(split, self.difficulty(index))[place // len(LEVELS)]
        return _ask_winner(plan) if isinstance(plan, Contest) else _ask(plan)

    def difficulty(self, index: int) -> str:
        """One of :data:`LEVELS`."""
        return LEVELS[SPLITS.locate(index)[1] % len(LEVELS)]


Path = tuple[tuple[Thing, Relation], ...]
"""Things in the order they are found, each with the relation that is asked for."""


@dataclass(frozen=True, slots=True)
class Contest:
    """A question which of two things is the greater, and for another fact about it.

    The answer is not one of the two things, so the question does not contain it.
    """

    first: Thing
    second: Thing
    comparison: Comparison
    more: bool
    relation: Relation


@cache
def _plans(split: str, level: str) -> tuple[Path | Contest, ...]:
    """All questions of a level about the region of a split, each once, in random order."""
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


def _paths(visited: tuple[Thing, ...], hops: int) -> Iterator[Path]:
    """Paths from the last visited thing over ``hops`` relations that never return to a thing."""
    thing = visited[-1]
    for relation in thing.kind.relations:
        value = thing.facts.get(relation.name)
        if value is None or value in visited:
            continue
        if hops == 1:
            yield ((thing, relation),)
        elif isinstance(value, Thing):
            for rest in _paths((*visited, value), hops - 1):
                yield ((thing, relation), *rest)


def _ask(path: Path) -> Question:
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
                for first, second in zip(order, islice(chain(order, order), step, None), strict=False):
                    yield from _about(first, second, comparison, rng.random() < 0.5)


def _about(first: Thing, second: Thing, comparison: Comparison, more: bool) -> Iterator[Contest]:
    if first.facts[comparison.relation] == second.facts[comparison.relation]:
        return
    for relation in first.kind.relations:
        values = first.facts.get(relation.name), second.facts.get(relation.name)
        revealing = relation.name == comparison.relation or first in values or second in values
        if not revealing and None not in values and values[0] != values[1]:
            yield Contest(first, second, comparison, more, relation)


def _ask_winner(contest: Contest) -> Question:
    first, second, comparison = contest.first, contest.second, contest.comparison
    compared = first.kind.relation(comparison.relation)
    winner = (max if contest.more else min)(first, second, key=lambda thing: thing.number(compared.name))
    pair = first.kind.pair.format(a=first.title, b=second.title)
    asked = f"the {comparison.more if contest.more else comparison.less} of {pair}"
    return _finish(asked, ((first, compared), (second, compared), (winner, contest.relation)))


def _finish(asked: str, path: Path) -> Question:
    thing, relation = path[-1]
    return Question(
        relation.question.format(x=asked),
        answers(relation, thing.facts[relation.name]),
        queries=tuple(f"{each.title} {step.word}" for each, step in path),
        needed=tuple(each.title for each, _ in path),
    )
