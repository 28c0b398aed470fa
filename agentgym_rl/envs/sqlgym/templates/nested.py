"""Questions that need a query within the query."""

from __future__ import annotations

from agentgym_rl.envs.sqlgym.templates.draft import Draft, Draw, joined, names


def above_average(draw: Draw) -> Draft:
    entity = draw.entity()
    number = draw.number(entity)
    word, sign = draw.rng.choice((("above", ">"), ("below", "<")))
    start = f"SELECT {entity.name} FROM {entity.table}"
    average = f"(SELECT AVG({number.column}) FROM {entity.table})"
    return Draft(
        (
            f"List the {names(entity)} of the {entity.plural} whose {number.phrase} is {word} the average of all "
            f"{entity.plural}.",
        ),
        f"{start} WHERE {number.column} {sign} {average}",
    )


def none_below(draw: Draw) -> Draft:
    child, parent = draw.pair()
    category, value = draw.category(child)
    ids = f"SELECT {parent.table}_id FROM {child.table}"
    start = f"SELECT {parent.name} FROM {parent.table} WHERE id NOT IN"
    if draw.rng.random() < 0.3:
        return Draft(
            (f"Which {parent.plural} have no {child.plural} at all? Give their {names(parent)}.",),
            f"{start} ({ids})",
        )
    return Draft(
        (
            f'Which {parent.plural} have no {child.table} whose {category.phrase} is "{value}"? '
            f"{parent.plural.title()} without any {child.plural} count, too. Give their {names(parent)}.",
        ),
        f"{start} ({ids} WHERE {category.column} = '{value}')",
        differ=(f"{start} ({ids})", f"SELECT {parent.name} FROM {parent.table}"),
    )


def most_below(draw: Draw) -> Draft:
    child, parent = draw.pair()
    number = draw.number(child, adds=True)
    what, value = draw.rng.choice(
        (
            (f"most {child.plural}", "COUNT(*)"),
            (f"highest total {number.phrase} over its {child.plural}", f"SUM({child.table}.{number.column})"),
        )
    )
    group = f"{parent.table}.{parent.name}"
    start = f"SELECT {group} FROM {joined(child, parent)} GROUP BY {group}"
    highest = f"(SELECT MAX(x) FROM (SELECT {value} AS x FROM {joined(child, parent)} GROUP BY {group}))"
    return Draft(
        (f"Which {parent.table} has the {what}? Give its {parent.name}.",),
        f"{start} ORDER BY {value} DESC LIMIT 1",
        agree=(f"{start} HAVING {value} = {highest}",),
    )


def extreme_among(draw: Draw) -> Draft:
    entity = draw.entity()
    category, value = draw.category(entity)
    number = draw.number(entity)
    word, order, aggregate = draw.extreme()
    start, where = f"SELECT {entity.name} FROM {entity.table}", f"WHERE {category.column} = '{value}'"
    highest = f"(SELECT {aggregate}({number.column}) FROM {entity.table} {where})"
    return Draft(
        (
            f'Among the {entity.plural} whose {category.phrase} is "{value}", which has the {word} {number.phrase}? '
            f"Give its {entity.name}.",
        ),
        f"{start} {where} AND {number.column} = {highest}",
        agree=(f"{start} {where} ORDER BY {number.column} {order} LIMIT 1",),
        differ=(f"{start} ORDER BY {number.column} {order} LIMIT 1", f"{start} {where}"),
    )


def same_as(draw: Draw) -> Draft:
    child, _ = draw.pair()
    category, _ = draw.category(child)
    name = draw.name(child)
    start = f"SELECT {child.name} FROM {child.table} WHERE {category.column} ="
    return Draft(
        (
            f'Which other {child.plural} have the same {category.phrase} as the {child.table} "{name}"? Give their '
            f"{names(child)}.",
        ),
        f"{start} (SELECT {category.column} FROM {child.table} WHERE {child.name} = '{name}') "
        f"AND {child.name} <> '{name}'",
    )


def beyond_all(draw: Draw) -> Draft:
    child, _ = draw.pair()
    category, value = draw.category(child)
    number = draw.number(child)
    highest = f"(SELECT MAX({number.column}) FROM {child.table} WHERE {category.column} = '{value}')"
    return Draft(
        (
            f"List the {names(child)} of the {child.plural} whose {number.phrase} is higher than that of every "
            f'{child.table} whose {category.phrase} is "{value}".',
        ),
        f"SELECT {child.name} FROM {child.table} WHERE {number.column} > {highest}",
    )


def above_average_of_its_own(draw: Draw) -> Draft:
    child, parent = draw.pair()
    number = draw.number(child)
    key = f"{parent.table}_id"
    average = f"(SELECT AVG(other.{number.column}) FROM {child.table} AS other WHERE other.{key} = {child.table}.{key})"
    return Draft(
        (
            f"List the {names(child)} of the {child.plural} whose {number.phrase} is above the average of the "
            f"{child.plural} {child.link} the same {parent.table}.",
        ),
        f"SELECT {child.name} FROM {child.table} WHERE {number.column} > {average}",
    )


TEMPLATES = (above_average, none_below, most_below, extreme_among, same_as, beyond_all, above_average_of_its_own)
