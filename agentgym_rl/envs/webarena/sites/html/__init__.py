"""The templates of the sites' pages. Line breaks and the indentation after them are for readers of the files only."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_rl.envs.extras import needs

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: object) -> str:
    """A page; every text in it is escaped."""
    return _templates().get_template(template).render(values)


def dollars(cents: int) -> str:
    return f"${cents // 100}.{cents % 100:02}"


@cache
def _templates() -> Environment:
    with needs("a site of webarena", "webarena"):
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    templates = Environment(loader=FunctionLoader(_joined), autoescape=True, undefined=StrictUndefined)
    templates.filters["dollars"] = dollars
    return templates


def _joined(template: str) -> str:
    return re.sub(r"\n\s*", "", (Path(__file__).parent / template).read_text(encoding="utf-8"))
