"""Does the built site load nothing from elsewhere? Exit status 1 names the pages that do."""

import re
import sys
from pathlib import Path

PAGE = re.compile(r"""<(?:script|img|iframe|source|link)\b[^>]*\b(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")
STYLE = re.compile(r"""(?:url\(|@import\s+)["']?((?:https?:)?//[^"')\s]+)""")
ASKS = "mermaid", "glightbox", "pyodide"
"""Classes for which the theme's script fetches a library."""


def found(path: Path) -> list[str]:
    """Addresses elsewhere that a page or a style sheet loads."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        return STYLE.findall(text)
    return [*PAGE.findall(text), *STYLE.findall(text), *(word for word in ASKS if f'class="{word}' in text)]


def main() -> None:
    site = Path(sys.argv[1])
    files = [path for path in sorted(site.rglob("*")) if path.suffix in (".html", ".css")]
    faults = [f"{path}: {address}" for path in files for address in found(path)]
    if not files or faults:
        raise SystemExit("\n".join(faults) or f"{site} has no pages")
    print(f"{site}: {len(files)} pages and style sheets load nothing from elsewhere")


if __name__ == "__main__":
    main()
