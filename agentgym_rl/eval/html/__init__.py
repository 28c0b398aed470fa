"""What every page is made of: templates, one style sheet, the palette and the chart library."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_rl.data.written_by import package_version
from agentgym_rl.envs.extras import needs
from agentgym_rl.eval.html.palette import css

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parents[1]
"""Templates, scripts and styles are named from here: ``html/dom.js``."""


def style() -> str:
    """The style sheet of all pages, with the palette."""
    return css() + "\n" + (HERE / "html" / "style.css").read_text(encoding="utf-8")


def script(*names: str) -> str:
    """JavaScript files in one piece, after those that every page uses; they share one scope of their own."""
    files = ("html/dom.js", "html/chart.js", *names)
    parts = "\n".join((HERE / name).read_text(encoding="utf-8") for name in files)
    return f'(() => {{\n"use strict";\n{parts}\n}})();\n'


def render(template: str, code: str, data: Any, **values: Any) -> str:
    """A page that needs nothing else: the browser requests nothing and runs no script but the page's own.

    Args:
        template: extends ``html/page.html``; whatever it shows is escaped.
        code: the page's script, see :func:`script`.
        data: what the script finds as JSON in the element ``data``; charts and other dataclasses become objects.
        values: what the template uses.

    Raises:
        MissingExtra: Jinja2 is not installed.
    """
    written = json.dumps(data, separators=(",", ":"), default=asdict, allow_nan=False)
    written = written.replace("<", "\\u003c")  # no text can end the element
    digest = b64encode(sha256(code.encode()).digest()).decode()
    page = _templates().get_template(template)
    common = {"style": style(), "script": code, "digest": digest, "data": written, "version": package_version()}
    return page.render(values | common)


@cache
def _templates() -> Environment:
    with needs("a page", "eval"):
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    return Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
