"""Questions about a table and the one above, or all three."""

from __future__ import annotations

from agentgym_rl.envs.sqlgym.templates.draft import Draft, Draw, joined, names


def below_one(draw: Draw) -> Draft:
    child, parent = draw.pair()
    name = draw.name(parent)
    return Draft(
        (
            f'List the {names(child)} of the {child.plural} {child.link} the {parent.table} "{name}".',
            f'What are the {names(child)} of all {child.plural} {child.link} the {parent.table} "{name}"?',
        ),
        f"SELECT {child.table}.{child.name} FROM {joined(child, parent)} WHERE {parent.table}.{parent.name} = '{name}'",
    )


def above_one(draw: Draw) -> Draft:
    child, parent = draw.pair()
    column = draw.column(parent)
    name = draw.name(child)
    return Draft(
        (f'What is the {column.phrase} of the {parent.table} that the {child.table} "{name}" belongs to?',),
        f"SELECT {parent.table}.{column.column} FROM {joined(child, parent)} "
        f"WHERE {child.table}.{child.name} = '{name}'",
    )


def below_value(draw: Draw) -> Draft:
    child, parent = draw.pair()
    category, value = draw.category(parent)
    number = draw.number(child)
    bound = draw.bound(number)
    start = f"SELECT {child.table}.{child.name} FROM {joined(child, parent)} WHERE"
    one, other = f"{parent.table}.{category.column} = '{value}'", f"{child.table}.{number.column} > {bound}"
    text = f'the {names(child)} of the {child.plural} {child.link} {parent.plural} whose {category.phrase} is "{value}"'
    if draw.rng.random() < 0.5:
        return Draft(
            (f"List {text}.", f"What are {text}?"),
            f"{start} {one}",
            differ=(f"SELECT {child.name} FROM {child.table}",),
        )
    return Draft(
        (f"List {text}, but only of {child.plural} whose own {number.phrase} is greater than {bound}.",),
        f"{start} {one} AND {other}",
        differ=(f"{start} {one}", f"{start} {other}"),
    )


def having_one_below(draw: Draw) -> Draft:
    child, parent = draw.pair()
    category, value = draw.category(child)
    start = f"SELECT DISTINCT {parent.table}.{parent.name} FROM {joined(child, parent)}"
    return Draft(
        (
            f"Which {parent.plural} have at least one {child.table} whose {category.phrase} is "
            f'"{value}"? Give their {names(parent)}.',
        ),
        f"{start} WHERE {child.table}.{category.column} = '{value}'",
        differ=(start,),
    )


def two_below(draw: Draw) -> Draft:
    top, middle, bottom = draw.domain.entities
    name = draw.name(top)
    return Draft(
        (
            f"List the {names(bottom)} of the {bottom.plural} {bottom.link} {middle.plural} {middle.link} the "
            f'{top.table} "{name}".',
        ),
        f"SELECT {bottom.table}.{bottom.name} FROM {joined(bottom, middle)} JOIN {top.table} ON "
        f"{middle.table}.{top.table}_id = {top.table}.id WHERE {top.table}.{top.name} = '{name}'",
    )


TEMPLATES = (below_one, above_one, below_value, having_one_below, two_below)
