"""A page of the shop as HTML, for a person or a browser. It needs no script, and texts reach it escaped."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from urllib.parse import urlencode

from agentgym_rl.envs.tables import read_utf8
from agentgym_rl.envs.webshop.page import SEARCH, Element, Page

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
}
"""What such a page should be sent with."""

_STYLE = read_utf8(Path(__file__).with_name("site.css"))


def render(page: Page, actions: Sequence[str] = ()) -> str:
    """The page as a document.

    Its links and buttons lead to the same address with one more action: ``?do=search[red shoes]&do=click[next >]``,
    after ``actions``; what is typed into the search bar comes as ``search``.
    """
    before = "".join(f'<input type="hidden" name="do" value="{escape(action)}">' for action in actions)
    shown = "\n".join(_render(element, actions) for element in page.elements)
    return document(f'<form method="get">{before}\n{shown}\n</form>')


def document(body: str) -> str:
    """An HTML document around a body."""
    head = f'<meta charset="utf-8"><title>WebShop</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def _render(element: Element, actions: Sequence[str]) -> str:
    text, action = escape(element.text.strip()), f"click[{element.text.lower()}]"
    press = f'name="do" value="{escape(action)}"'
    match element.kind:
        case "title":
            return f"<h2>{text}</h2>"
        case "name":
            return f"<h3>{text}</h3>"
        case "wish":
            return f'<p class="wish">{text}</p>'
        case "link":
            return f'<a href="?{escape(urlencode([("do", done) for done in (*actions, action)]))}">{text}</a>'
        case "button" if element.text == SEARCH:
            return f'<input type="search" name="search" aria-label="{SEARCH}" required> <button>{SEARCH}</button>'
        case "button":
            return f"<button {press}>{text}</button>"
        case "option":
            return f'<button {press} aria-pressed="{str(element.chosen).lower()}">{text}</button>'
        case "hidden":
            return ""
    return f"<p>{text}</p>"
