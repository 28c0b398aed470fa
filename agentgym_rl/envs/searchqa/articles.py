"""The invented articles: one for each thing."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from agentgym_rl.envs.bm25 import Index
from agentgym_rl.envs.searchqa.kinds import Relation
from agentgym_rl.envs.searchqa.knowledge import SEED, Thing, regions


def article(thing: Thing) -> str:
    """Title in quotes, then two to five sentences: the first relation, then the others in random order."""
    rng = Random(f"{SEED}:{thing.title}")
    first, *others = (relation for relation in thing.kind.relations if relation.name in thing.facts)
    rng.shuffle(others)
    text = " ".join(_sentence(thing, relation, rng) for relation in (first, *others))
    return f'"{thing.title}"\n{text}'


def _sentence(thing: Thing, relation: Relation, rng: Random) -> str:
    value = thing.facts[relation.name]
    text = value if isinstance(value, str) else value.title
    sentence = rng.choice(relation.sentences).format(x=thing.title, y=text, s=thing.name.split()[-1])
    return sentence[0].upper() + sentence[1:]


def articles() -> Iterator[str]:
    """All articles in random order."""
    things = [thing for region in regions().values() for kind in region.values() for thing in kind]
    Random(f"{SEED}:order").shuffle(things)
    return map(article, things)


def write(path: str | Path) -> int:
    """Write the articles in Search-R1's form, for another search engine; returns their number."""
    lines = [json.dumps({"id": str(number), "contents": each}) + "\n" for number, each in enumerate(articles())]
    Path(path).write_text("".join(lines), encoding="utf-8")
    return len(lines)


def load() -> tuple[Index, Callable[[int], str]]:
    """The index of the articles, and what gives an article by its number."""
    contents = list(articles())
    return Index.over(contents), contents.__getitem__
