"""The wiki: articles about invented towns, which anybody may edit."""

from __future__ import annotations

from agentgym_rl.envs.webarena.sites import page as html
from agentgym_rl.envs.webarena.sites.page import Answer, Failed, Html, Moved, Page, Request, Row

NAME = "Townpedia"
NAVIGATION = {"Regions": "/"}


def answer(request: Request) -> Answer:
    match (request.method, *request.path):
        case ("GET",):
            found = request.rows("SELECT region, count(*) FROM articles GROUP BY region ORDER BY region")
            return Page(
                "Regions",
                (_search(), html.items([html.link(f"/region/{name}", name), f" {n} towns"] for name, n in found)),
            )
        case ("GET", "search"):
            words = f"%{request.given.get('q', '')}%"
            return _listed(
                "Results",
                request.rows("SELECT * FROM articles WHERE title LIKE ? OR river LIKE ? ORDER BY title", words, words),
            )
        case ("GET", "region", name):
            return _listed(name, request.rows("SELECT * FROM articles WHERE region = ? ORDER BY title", name))
        case ("GET", "wiki", title):
            return _article(_titled(request, title))
        case ("GET", "wiki", title, "edit"):
            row = _titled(request, title)
            return Page(
                f"Edit {title}", (html.form(f"/wiki/{title}/edit", "Save", html.area("Text", "text", row["body"])),)
            )
        case ("POST", "wiki", title, "edit"):
            request.change(
                "UPDATE articles SET body = ? WHERE id = ?", request.text("text"), _titled(request, title)["id"]
            )
            return Moved(f"/wiki/{title}")
        case ("POST", "wiki", title, "mayor"):
            request.change(
                "UPDATE articles SET mayor = ? WHERE id = ?", request.text("mayor"), _titled(request, title)["id"]
            )
            return Moved(f"/wiki/{title}")
    raise Failed(404, "There is no such page.")


def _search() -> Html:
    return html.form("/search", "Search", html.field("Search articles", "q"), method="get")


def _titled(request: Request, title: str) -> Row:
    return request.one("SELECT * FROM articles WHERE title = ?", title)


def _listed(title: str, found: list[Row]) -> Page:
    rows = ((html.link(f"/wiki/{row['title']}", row["title"]), row["river"], row["founded"]) for row in found)
    return Page(title, (_search(), html.table(("Town", "River", "Founded"), rows)))


def _article(row: Row) -> Page:
    shown = html.facts(
        {
            "Region": html.link(f"/region/{row['region']}", row["region"]),
            "Population": f"{row['population']:,}",
            "Founded": row["founded"],
            "River": row["river"],
            "Mayor": row["mayor"],
        }
    )
    body = html.tag("p", row["body"], id="text")
    change = html.form(f"/wiki/{row['title']}/mayor", "Change mayor", html.field("New mayor", "mayor"))
    return Page(row["title"], (_search(), shown, body, html.link(f"/wiki/{row['title']}/edit", "Edit text"), change))
