"""Questions that count or sum up rows."""

from __future__ import annotations

from agentgym_rl.envs.sqlgym.templates.draft import Draft, Draw, joined, names


def count_of(draw: Draw) -> Draft:
    entity = draw.entity()
    category, value = draw.category(entity)
    start = f"SELECT COUNT(*) FROM {entity.table}"
    return Draft(
        (
            f'How many {entity.plural} have the {category.phrase} "{value}"?',
            f'Count the {entity.plural} whose {category.phrase} is "{value}".',
        ),
        f"{start} WHERE {category.column} = '{value}'",
        differ=(start,),
    )


def count_below(draw: Draw) -> Draft:
    child, parent = draw.pair()
    name = draw.name(parent)
    return Draft(
        (f'How many {child.plural} {child.link} the {parent.table} "{name}" are there?',),
        f"SELECT COUNT(*) FROM {joined(child, parent)} WHERE {parent.table}.{parent.name} = '{name}'",
    )


def summary(draw: Draw) -> Draft:
    child, _ = draw.pair()
    category, value = draw.category(child)
    word, aggregate = draw.rng.choice((("total", "SUM"), ("average", "AVG"), ("highest", "MAX"), ("lowest", "MIN")))
    number = draw.number(child, adds=word == "total")
    start = f"SELECT {aggregate}({number.column}) FROM {child.table}"
    return Draft(
        (
            f'What is the {word} {number.phrase} of the {child.plural} whose {category.phrase} is "{value}"?',
            f'Compute the {word} {number.phrase} over all {child.plural} with the {category.phrase} "{value}".',
        ),
        f"{start} WHERE {category.column} = '{value}'",
        differ=(start,),
    )


def count_each(draw: Draw) -> Draft:
    entity = draw.entity()
    category, _ = draw.category(entity)
    return Draft(
        (
            f"How many {entity.plural} are there of each {category.phrase}? Give the {category.phrase} and the number.",
            f"For each {category.phrase}, count the {entity.plural}. Give the {category.phrase}, then the number.",
        ),
        f"SELECT {category.column}, COUNT(*) FROM {entity.table} GROUP BY {category.column}",
    )


def summary_each(draw: Draw) -> Draft:
    child, parent = draw.pair()
    word, aggregate = draw.rng.choice((("total", "SUM"), ("average", "AVG"), ("highest", "MAX"), ("lowest", "MIN")))
    number = draw.number(child, adds=word == "total")
    group = f"{parent.table}.{parent.name}"
    return Draft(
        (
            f"For each {parent.table} that has {child.plural}, give its {parent.name} and the {word} {number.phrase} "
            f"of its {child.plural}.",
        ),
        f"SELECT {group}, {aggregate}({child.table}.{number.column}) FROM {joined(child, parent)} GROUP BY {group}",
    )


def many_below(draw: Draw) -> Draft:
    child, parent = draw.pair()
    least = draw.rng.randint(2, 6)
    group = f"{parent.table}.{parent.name}"
    start = f"SELECT {group} FROM {joined(child, parent)} GROUP BY {group}"
    return Draft(
        (
            f"Which {parent.plural} have more than {least} {child.plural}? Give their {names(parent)}.",
            f"List the {names(parent)} of the {parent.plural} with more than {least} {child.plural}.",
        ),
        f"{start} HAVING COUNT(*) > {least}",
        differ=(start,),
    )


def different(draw: Draw) -> Draft:
    child, parent = draw.pair()
    category, _ = draw.category(child)
    name = draw.name(parent)
    return Draft(
        (
            f"How many different {category.plural} occur among the {child.plural} {child.link} the {parent.table} "
            f'"{name}"?',
        ),
        f"SELECT COUNT(DISTINCT {child.table}.{category.column}) FROM {joined(child, parent)} "
        f"WHERE {parent.table}.{parent.name} = '{name}'",
    )


TEMPLATES = (count_of, count_below, summary, count_each, summary_each, many_below, different)
