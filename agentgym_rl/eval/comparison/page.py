"""A comparison as one HTML page that needs nothing else."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from statistics import mean
from urllib.parse import quote

from agentgym_rl.data.files import write_text
from agentgym_rl.eval.comparison.bars import bar_section
from agentgym_rl.eval.comparison.charts import (
    arms_drawn,
    horizon_section,
    learning_section,
    share_section,
    tokens_known,
)
from agentgym_rl.eval.comparison.compare import Comparison
from agentgym_rl.eval.comparison.learning import AXES, Log, horizons, logs, online, plots, shares
from agentgym_rl.eval.comparison.sections import (
    Link,
    configuration_section,
    cost_section,
    difference_section,
    run_section,
    success_section,
)
from agentgym_rl.eval.comparison.tables import seeds_text
from agentgym_rl.eval.html.markup import Markup, join, tag
from agentgym_rl.eval.html.palette import look
from agentgym_rl.eval.html.script import SCRIPT
from agentgym_rl.eval.html.style import CSS, border, colours, variable


def write_page(comparison: Comparison, path: Path, link: Link | None = None) -> Path:
    """Write the page; see :func:`page`."""
    write_text(path, page(comparison, link))
    return path


def links(comparison: Comparison, episodes: Path, start: Path) -> Link:
    """Addresses of exported episodes, ``<episodes>/<run folder>/index.html``, as seen from the folder ``start``.

    Raises:
        FileNotFoundError: no run has any there.
    """
    found = {run.folder: episodes / run.folder.resolve().name / "index.html" for run in comparison.runs}
    there = {folder: file for folder, file in found.items() if file.is_file()}
    if not there:
        wanted = next(iter(found.values()))
        raise FileNotFoundError(f"{wanted} does not exist, nor do other runs' pages; export them: agentgym-rl view RUN")
    addresses = {folder: quote(os.path.relpath(file, start).replace(os.sep, "/")) for folder, file in there.items()}
    return lambda run: addresses.get(run.folder)


def page(comparison: Comparison, link: Link | None = None) -> str:
    """The page's HTML: bars, curves, tables, and in what the configurations of the arms differ.

    Args:
        link: address of the episodes of a run, as seen from the page.
    """
    found = logs(comparison)
    drawn, shared, limits = plots(comparison, found), shares(comparison, found), horizons(comparison, found)
    count = len(comparison.runs)
    title = f"{count} run{'s' if count > 1 else ''} compared"
    sections = {
        "Worlds": bar_section(comparison),
        "Curves": learning_section(comparison, drawn),
        "Success": success_section(comparison),
        "Differences": difference_section(comparison),
        "Shares": share_section(shared),
        "Horizon": horizon_section(limits),
        "Cost": cost_section(comparison, _tokens(comparison, found)),
        "Configuration": configuration_section(comparison),
        "Runs": run_section(comparison, link),
    }
    shown = {name: section for name, section in sections.items() if section is not None}
    menu = [tag("a", name, href=f"#{name.lower()}") for name in shown]
    over_time = any(name in shown for name in ("Curves", "Shares", "Horizon"))
    numbers = {arm.label: number for number, arm in enumerate(comparison.arms)}
    arms = sorted((numbers[arm.label], arm.label) for arm in arms_drawn(drawn))
    body = [
        tag("a", "Skip to the results", href="#worlds", class_="skip"),
        tag(
            "header",
            tag("h1", title),
            tag("p", _facts(comparison), class_="lead"),
            tag("nav", menu, aria_label="sections"),
        ),
        tag(
            "div",
            _axis_switch(tokens_known(drawn, shared, limits)) if over_time else None,
            _arm_switch(comparison, arms) if len(arms) > 1 else None,
            tag("label", tag("input", type="checkbox", id="seeds"), "each seed", class_="choice"),
            tag("button", "Light or dark", type="button", id="theme", class_="choice", hidden=""),
            class_="tools", role="toolbar", aria_label="what the page shows",
        ),
        tag("main", list(shown.values())),
        tag("p", id="point", role="status", aria_live="polite", hidden=""),
        Markup(f"<script>{SCRIPT}</script>"),
    ]  # fmt: skip
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", title),
        Markup(f"<style>{colours()}{CSS}</style>"),
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{join(body)}</body></html>\n'


POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; "
    f"script-src 'sha256-{b64encode(sha256(SCRIPT.encode()).digest()).decode()}'"
)
"""The browser requests nothing and runs no script but the page's own."""


def _facts(comparison: Comparison) -> str:
    worlds = list(dict.fromkeys(column.env for column in comparison.columns if len(column.parts) == 1))
    algorithms = list(dict.fromkeys(run.algorithm for run in comparison.runs))
    seeds = sorted({run.seed for run in comparison.runs})
    return (
        f"{', '.join(algorithms)} on {', '.join(worlds)}; {len(comparison.arms)} arms, seeds {seeds_text(seeds)}, "
        f"{comparison.decoding} decoding"
    )


def _axis_switch(tokens: bool) -> Markup:
    choices = []
    for axis in AXES:
        off = axis == "tokens" and not tokens
        box = tag(
            "input", type="radio", name_="x", id=f"x-{axis}", value=axis, checked="" if axis == AXES[0] else None,
            disabled="" if off else None,
        )  # fmt: skip
        why = "no run has logged run/tokens, and the stored episodes carry no token counts" if off else None
        choices.append(tag("label", box, tag("span", axis), title=why))
    return tag("fieldset", tag("legend", "Curves against"), choices, class_="switch")


def _arm_switch(comparison: Comparison, arms: list[tuple[int, str]]) -> Markup:
    chips = []
    for number, label in arms:
        colour, dashes = look(comparison.arms, number)
        sample = tag("i", style=f"--hue:{variable(colour)};border-top-style:{border(dashes)}")
        chips.append(tag("button", sample, label, type="button", class_="chip", aria_pressed="true", data_key=number))
    return tag("div", chips, class_="chips", role="group", aria_label="arms shown")


def _tokens(comparison: Comparison, found: Mapping[Path, Log]) -> dict[str, float]:
    """Tokens of the training episodes of each arm all of whose runs know them; mean over runs."""
    spent = {}
    for arm in online(comparison):
        known = [max(log.tokens.values()) for run in arm.runs if (log := found[run.folder]).tokens]
        if len(known) == len(arm.runs):
            spent[arm.label] = mean(known)
    return spent
