"""A table of a comparison."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """Of a table."""

    names: tuple[str, ...]
    cells: tuple[str, ...]
    bold: frozenset[int] = frozenset()
    """Numbers of the cells that stand out."""
    bound: bool = False
    """It belongs below the line: the random policy, or the oracle."""


@dataclass(frozen=True, slots=True)
class Table:
    """Names on the left, then a column of numbers for each panel."""

    title: str
    heads: tuple[str, ...]
    """Of the names."""
    columns: tuple[tuple[str, str], ...]
    """Environment and panel."""
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
