"""Questions about one table."""

from __future__ import annotations

from agentgym_rl.envs.sqlgym.templates.draft import Draft, Draw, names


def value_of(draw: Draw) -> Draft:
    entity = draw.entity()
    column = draw.column(entity)
    name = draw.name(entity)
    return Draft(
        (
            f'What is the {column.phrase} of the {entity.table} "{name}"?',
            f'Give the {column.phrase} of the {entity.table} whose {entity.name} is "{name}".',
        ),
        f"SELECT {column.column} FROM {entity.table} WHERE {entity.name} = '{name}'",
    )


def with_value(draw: Draw) -> Draft:
    entity = draw.entity()
    category, value = draw.category(entity)
    return Draft(
        (
            f'List the {names(entity)} of the {entity.plural} whose {category.phrase} is "{value}".',
            f'Which {entity.plural} have the {category.phrase} "{value}"? Give their {names(entity)}.',
        ),
        f"SELECT {entity.name} FROM {entity.table} WHERE {category.column} = '{value}'",
        differ=(f"SELECT {entity.name} FROM {entity.table}",),
    )


def beyond(draw: Draw) -> Draft:
    entity = draw.entity()
    number = draw.number(entity)
    bound = draw.bound(number)
    word, sign = draw.rng.choice((("greater", ">"), ("less", "<")))
    return Draft(
        (
            f"List the {names(entity)} of the {entity.plural} whose {number.phrase} is {word} than {bound}.",
            f"Which {entity.plural} have a {number.phrase} that is {word} than {bound}? Give their {names(entity)}.",
        ),
        f"SELECT {entity.name} FROM {entity.table} WHERE {number.column} {sign} {bound}",
        differ=(f"SELECT {entity.name} FROM {entity.table}",),
    )


def with_value_and_beyond(draw: Draw) -> Draft:
    entity = draw.entity()
    category, value = draw.category(entity)
    number = draw.number(entity)
    bound = draw.bound(number)
    start = f"SELECT {entity.name} FROM {entity.table} WHERE"
    one, other = f"{category.column} = '{value}'", f"{number.column} > {bound}"
    return Draft(
        (
            f'List the {names(entity)} of the {entity.plural} whose {category.phrase} is "{value}" and whose '
            f"{number.phrase} is greater than {bound}.",
        ),
        f"{start} {one} AND {other}",
        differ=(f"{start} {one}", f"{start} {other}"),
    )


def extreme(draw: Draw) -> Draft:
    entity = draw.entity()
    number = draw.number(entity)
    word, order, aggregate = draw.extreme()
    start = f"SELECT {entity.name} FROM {entity.table}"
    return Draft(
        (
            f"What is the {entity.name} of the {entity.table} with the {word} {number.phrase}?",
            f"Which {entity.table} has the {word} {number.phrase}? Give its {entity.name}.",
        ),
        f"{start} ORDER BY {number.column} {order} LIMIT 1",
        agree=(f"{start} WHERE {number.column} = (SELECT {aggregate}({number.column}) FROM {entity.table})",),
    )


TEMPLATES = (value_of, with_value, beyond, with_value_and_beyond, extreme)
