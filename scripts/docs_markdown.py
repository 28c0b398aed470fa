"""A Markdown extension for the documentation: formulas as MathML, and what docstrings say in reStructuredText.

``$...$`` and ``$$...$$`` become MathML, which browsers draw without a script or a font from elsewhere. In docstrings,
``.. math::`` and ``:math:`` are formulas too, ``:class:`~a.b.C``` is the code ``C``, and a simple table is a table.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert_to_element
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

DIRECTIVE = re.compile(r"^( *)\.\. math:: *((?:.*)(?:\n\1 +\S.*)*)", re.MULTILINE)
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`(~?)([\w.]+)`")
TITLED = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`([^`<]+?) <[^`]+>`")
TABLE = re.compile(r"^(?P<rule>=+(?: +=+)+)\n(?P<rows>(?:.+\n)+)(?P=rule)$", re.MULTILINE)


class Formula(InlineProcessor):
    """One formula between dollars."""

    def __init__(self, pattern: str, md: Markdown, display: str) -> None:
        super().__init__(pattern, md)
        self.display = display

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[Element, int, int]:
        return convert_to_element(m[1].strip(), display=self.display), m.start(0), m.end(0)


def table(simple: re.Match[str]) -> str:
    """A simple table of reStructuredText as one of Markdown; a row goes on where its first column is empty."""
    starts = [column.start() for column in re.finditer("=+", simple["rule"])]
    rows: list[list[str]] = []
    head = False
    for line in simple["rows"].splitlines():
        if line == simple["rule"]:
            head = True
            continue
        cells = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = [f"{cell} {more}".strip() for cell, more in zip(rows[-1], cells, strict=True)]
    if not head:
        rows.insert(0, [""] * len(starts))
    rows.insert(1, ["---"] * len(starts))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


class Docstrings(Preprocessor):
    """reStructuredText of docstrings as Markdown."""

    def run(self, lines: list[str]) -> list[str]:
        text = "\n".join(lines)
        text = DIRECTIVE.sub(lambda match: f"{match[1]}$${' '.join(match[2].split())}$$", text)
        text = re.sub(r":math:`([^`]+)`", r"$\1$", text)
        text = TABLE.sub(table, text)
        text = TITLED.sub(r"\1", text)
        text = ROLE.sub(lambda match: f"`{match[2].rpartition('.')[2] if match[1] else match[2]}`", text)
        return text.split("\n")


class DocsMarkdown(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(Docstrings(md), "docstrings", 27)
        # before escapes (180), which would eat backslashes, and after code (190)
        md.inlinePatterns.register(Formula(r"\$\$((?:.|\n)+?)\$\$", md, "block"), "formula", 186)
        md.inlinePatterns.register(Formula(r"(?<![\\$])\$(?![\s$])([^$]+?)(?<!\s)\$(?!\d)", md, "inline"), "math", 185)


def makeExtension(**settings: object) -> DocsMarkdown:
    return DocsMarkdown(**settings)
