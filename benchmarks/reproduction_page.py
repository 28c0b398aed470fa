"""Renews the tables of docs/reproduce.md: published numbers, and those that ``agentgym-rl reproduce`` found.

    python benchmarks/reproduction_page.py                                       # from what is kept
    python benchmarks/reproduction_page.py reproductions/*/result.json           # keep these, too

Published numbers are those of ``agentgym_rl/api/published.toml``. Results are kept in ``benchmarks/reproduced``; one
with settings other than the published ones is refused.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evidence_page import with_table
from studies import DOCS, HERE

from agentgym_rl.api.published import PROTOCOLS, TARGETS, Protocol
from agentgym_rl.data.files import write_text
from agentgym_rl.envs.tables import json_object

PAGE, KEPT = DOCS / "reproduce.md", HERE / "reproduced"
TABLES = {
    "verl_agent": ("verl_agent_alfworld", "verl_agent_webshop"),
    "agentevol": ("agentevol",),
    "scaling_inter": tuple(name for name in PROTOCOLS if name.endswith("_scaling_inter")),
}
"""Protocols of each table of the page."""


def table(names: Iterable[str], reproduced: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A row for each method, a column for each environment and size of the model.

    Args:
        reproduced: what ``result.json`` has, by name.
    """
    cells: dict[str, dict[tuple[str, str], str]] = {}
    sources: dict[str, dict[str, None]] = {}
    for name, protocol in ((name, PROTOCOLS[name]) for name in names):
        for method, size, values, source in _rows(name, protocol, reproduced):
            cells.setdefault(method, {}).update({(env, size): text for env, text in values.items()})
            sources.setdefault(method, {})[source] = None
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    sizes = {size for _, size in columns}
    heads = [env if len(sizes) == 1 else f"{env} {size}" for env, size in columns]
    seeds = ", ".join({PROTOCOLS[name].seeds: None for name in names})
    yield f"| published, {seeds} | {' | '.join(heads)} | source |"
    yield f"|---|{'---|' * (len(columns) + 1)}"
    for method, row in cells.items():
        texts = [row.get(column, "") for column in columns]
        yield f"| {method} | {' | '.join(texts)} | {_linked('; '.join(sources[method]))} |"


def _rows(
    name: str, protocol: Protocol, reproduced: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, str, dict[str, str], str]]:
    """Method, size, cell by environment, and source."""
    for arm in protocol.results:
        lines = reproduced.get(f"{name}_{arm.name}", {"lines": []})["lines"]
        ours = {line["env"]: line for line in reversed(lines)}  # of the published checkpoint before those of the last
        values = {env: f"{value:g}{_ours(ours.get(env))}" for env, value in arm.values.items()}
        yield arm.method, arm.size, values, arm.source
    for other in protocol.others:
        yield other.method, other.size, other.values, other.source


def _ours(line: Mapping[str, Any] | None) -> str:
    if line is None:
        return ""
    low, high = line["interval"]
    return f"; ours {line['ours']:.1f} [{low:.0f}, {high:.0f}], seeds {', '.join(line['by_seed'])}"


def _linked(source: str) -> str:
    return re.sub(r"(?:arXiv )?(\d{4}\.\d{5})", r"[\1](https://arxiv.org/abs/\1)", source)


def page(text: str, reproduced: Mapping[str, Mapping[str, Any]]) -> str:
    """The page with its tables renewed."""
    for name, protocols in TABLES.items():
        text = with_table(text, name, "\n".join(table(protocols, reproduced)), PAGE)
    return text


def keep(files: Iterable[Path]) -> None:
    """Copy results to those that are kept.

    Raises:
        ValueError: one is of no published name, or has settings other than the published ones; none is kept.
    """
    results = {file: json_object(file) for file in files}
    for file, result in results.items():
        if result.get("name") not in TARGETS:
            raise ValueError(f"{file} is no result of `agentgym-rl reproduce NAME`")
        if result["changed"]:
            raise ValueError(f"{file} is of other settings ({' '.join(result['changed'])}); it reproduces nothing")
    for file, result in results.items():
        write_text(KEPT / f"{result['name']}.json", file.read_text())


def kept() -> dict[str, dict[str, Any]]:
    """What is kept, by name."""
    return {file.stem: json_object(file) for file in sorted(KEPT.glob("*.json"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", type=Path, metavar="result.json", help="results to keep")
    options = parser.parse_args()
    try:
        keep(options.results)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    write_text(PAGE, page(PAGE.read_text(), kept()))


if __name__ == "__main__":
    main()
