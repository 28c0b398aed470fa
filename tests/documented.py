"""The commands that README, the pages of docs and the examples show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:agentgym-rl|make|python) [^`]+)`")


def prose(path: Path) -> str:
    """A page without its code blocks."""
    return FENCE.sub("", path.read_text())


def commands(path: Path) -> list[list[str]]:
    """Commands of ours that a page shows, in words; in a shell's code blocks, and in backticks."""
    text = path.read_text()
    if path.suffix == ".py":
        lines = re.findall(r"(?:^ +|`)((?:agentgym-rl|make|python) [^`\n]+)", text.split('"""')[1], re.MULTILINE)
    else:
        blocks = [body for language, body in FENCE.findall(text) if language.split(" ")[0] in ("bash", "sh")]
        lines = [line.strip() for body in blocks for line in body.replace("\\\n", " ").splitlines()]
        lines += [found.replace("\n", " ") for found in INLINE.findall(prose(path))]
    found = []
    for line in lines:
        for part in re.split(r"\s(?:\||&&|&)\s", line):
            words = shlex.split(part, comments=True)
            if words and words[0] in ("agentgym-rl", "make", "python"):
                found.append([word for word in words if word not in ("...", "&")])
    return found


SHOWN = [(path, words) for path in [*PAGES, *EXAMPLES] for words in commands(path)]
"""Page and words of each command."""
OURS = [(path, words) for path, words in SHOWN if words[0] == "agentgym-rl" and len(words) > 1]
"""Those of ``agentgym-rl``."""
