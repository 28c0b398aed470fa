"""Success of every arm in every world as bars with their intervals."""

from __future__ import annotations

from agentgym_rl.eval.comparison.compare import Column, Comparison, Estimate
from agentgym_rl.eval.comparison.tables import cell_text
from agentgym_rl.eval.html.markup import Markup, tag
from agentgym_rl.eval.html.palette import look
from agentgym_rl.eval.html.style import variable


def bar_section(comparison: Comparison) -> Markup:
    """A card a world and panel."""
    cards = [_card(comparison, number, column) for number, column in enumerate(comparison.columns)]
    note = f"Success in %, {comparison.decoding}: mean over seeds; the line is its 95% interval, dots are seeds."
    return tag(
        "section", tag("h2", "Worlds"), tag("p", note, class_="note"), tag("div", cards, class_="cards"), id="worlds"
    )


def _card(comparison: Comparison, number: int, column: Column) -> Markup:
    cells = [row[number] for row in comparison.success]
    best = max((cell.mean for cell in cells if cell is not None), default=None)
    rows = [
        tag(
            "li",
            tag("span", arm.label, class_="name"),
            tag("span", cell_text(cell), class_="figure best" if cell.mean == best else "figure"),
            _bar(cell, variable(look(comparison.arms, place)[0])),
            data_key=place,
        )
        for place, (arm, cell) in enumerate(zip(comparison.arms, cells, strict=True))
        if cell is not None
    ]
    return tag(
        "article", tag("h3", column.env, " ", tag("small", column.panel.replace("_", " "))), tag("ul", rows),
        class_="card",
    )  # fmt: skip


def _bar(cell: Estimate, hue: str) -> Markup:
    low, high = cell.interval or (cell.mean, cell.mean)
    seeds = [tag("i", class_="seed", style=f"left:{100 * value:.2f}%") for value in cell.by_seed.values()]
    return tag(
        "span",
        tag("i", class_="fill", style=f"width:{100 * cell.mean:.2f}%"),
        tag("i", class_="range", style=f"left:{100 * low:.2f}%;width:{100 * (high - low):.2f}%"),
        seeds if len(seeds) > 1 else None,
        class_="bar", style=f"--hue:{hue}", aria_hidden="true",
    )  # fmt: skip
