"""What ``claims.yaml`` says: what each study is to show, with which seeds and panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from studies import HERE, STUDIES, Ordering, Study

AVERAGE = "average"


@dataclass(frozen=True, slots=True)
class Claim:
    """One of the claims that get a verdict."""

    ordering: Ordering
    column: str
    """One of the study, or the average over all."""
    effect: float
    """The smallest worth showing, in points."""
    power: float
    """With which such an effect is shown, Holm's correction for the claims of the page included."""
    like: Ordering
    """Whose older rows say what is known beforehand: its own, or another one's where it has none."""

    def columns(self, study: Study) -> list[str]:
        return list(study.columns) if self.column == AVERAGE else [self.column]


@dataclass(frozen=True, slots=True)
class Design:
    """How a study is to be run."""

    seeds: range
    panels: Mapping[str, Mapping[str, int]]
    """``n`` and ``samples`` of a column's panel where it is not as the recipe has it."""
    claims: tuple[Claim, ...]
    rows: str
    """The study whose older rows say what is known beforehand."""

    def size(self, study: Study, column: str, episodes: int) -> tuple[int, int]:
        """Tasks and samples of a column's panel, which has so many episodes in the recipe."""
        panel, samples = self.panels.get(column, {}), study.samples.get(column, 1)
        return panel.get("n", episodes // samples), panel.get("samples", samples)

    def overrides(self, study: Study, seed: int) -> list[str]:
        """Of the recipe, for a seed of the design."""
        places = {column: f"envs.{env}.panels.{label}" for column, (label, env) in study.columns.items()}
        return [
            f"{places[column]}.{key}={number}"
            for column, panel in self.panels.items()
            for key, number in panel.items()
            if seed in self.seeds
        ]

    def reported(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The rows of its seeds; all while there is none."""
        return self.own(rows) or list(rows)

    def own(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The rows of its seeds."""
        return [row for row in rows if row["seed"] in self.seeds]

    def older(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The rows of seeds before its own."""
        return [row for row in rows if row["seed"] < self.seeds.start]


def designed(name: str, first: int, block: Mapping[str, Any]) -> Design:
    """What a block of ``claims.yaml`` says, with seeds from its own ``first_seed`` on, or else from ``first``.

    Raises:
        KeyError: a claim is none of the study's, or of those of its older rows.
    """
    rows = block.get("rows", name)
    tables = [table for study in (STUDIES[rows], STUDIES[name]) for table in study.orderings.values()]
    orderings = {ordering.claim: ordering for table in tables for ordering in table}
    claims = tuple(
        Claim(orderings[keys["claim"]], keys["column"], keys["effect"], keys["power"], orderings[keys["like"]])
        for keys in ({"like": claim["claim"], **claim} for claim in block["claims"])
    )
    first = block.get("first_seed", first)
    return Design(range(first, first + block["seeds"]), block.get("panels", {}), claims, rows)


NONE: Mapping[str, Any] = {"seeds": 5, "claims": []}
"""Of a study that names no claims; all it finds is exploratory."""
_FOUND = yaml.safe_load((HERE / "claims.yaml").read_text())
DESIGNS = {name: designed(name, _FOUND["first_seed"], _FOUND["studies"].get(name, NONE)) for name in STUDIES}


def on_page(study: Study) -> list[tuple[str, Claim]]:
    """The claims that a page corrects for, with their studies' names."""
    return [
        (name, claim) for name, other in STUDIES.items() if other.page == study.page for claim in DESIGNS[name].claims
    ]
