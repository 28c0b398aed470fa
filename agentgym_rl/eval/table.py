"""The table at the end of a run."""

from __future__ import annotations

from typing import Any

from rich.table import Table


def percent(score: dict[str, Any]) -> str:
    """Success with its 95% interval, in percent."""
    low, high = score["ci95"]
    return f"{100 * score['success']:.1f} [{100 * low:.0f}, {100 * high:.0f}]"


def results(summary: dict[str, Any]) -> Table:
    """Success by policy and panel, sampled and greedy; random and oracle are bounds."""
    stages = summary["stages"]
    panels = [(label, env) for label, worlds in stages[-1]["panels"].items() for env in worlds]
    table = Table(title="Success in % with 95% interval", title_justify="left")
    table.add_column("policy", no_wrap=True)
    for label, env in panels:
        n = stages[-1]["panels"][label][env]["sampled"]["n"]
        table.add_column(f"{env}\n{label.replace('_', ' ')}\nsampled, n={n}", justify="right", no_wrap=True)
        if "greedy" in stages[-1]["panels"][label][env]:
            n = stages[-1]["panels"][label][env]["greedy"]["n"]
            table.add_column(f"\n\ngreedy, n={n}", justify="right", no_wrap=True)
    references = summary.get("reference", {})
    rows = [("random", references.get("random"))]
    rows += [(stage["name"], stage["panels"]) for stage in stages]
    rows += [("oracle", references.get("oracle"))]
    for name, scores in rows:
        if scores is None:
            continue
        cells: list[str] = []
        for label, env in panels:
            found = scores[label][env]
            by_decoding = found if "sampled" in found else {"sampled": found}
            played = stages[-1]["panels"][label][env]
            cells += [percent(by_decoding[one]) if one in by_decoding else "" for one in played]
        table.add_row(name, *cells)
    return table
