"""The page's own files: markup, style and script. No other file is needed to show it."""

from agentgym_rl.data.written_by import package_version
from agentgym_rl.eval import html

CHUNK = 50
"""Episodes of one script of an exported folder."""
SCRIPTS = ("data", "filters", "list", "intervals", "overview", "latency", "notes", "search", "episode", "task", "app")


def page(source: str) -> str:
    """The page's HTML.

    Args:
        source: where its script finds the episodes: ``server`` or ``files``.
    """
    text = (html.HERE / "viewer/page/page.html").read_text(encoding="utf-8")
    return text.replace("SOURCE", source).replace("VERSION", package_version())


def script() -> str:
    """The script, in one piece."""
    return html.script(*(f"viewer/page/{name}.js" for name in SCRIPTS)).replace("CHUNK_SIZE", str(CHUNK))
