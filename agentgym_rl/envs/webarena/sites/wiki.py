"""The wiki: articles about invented towns, which anybody may edit."""

from agentgym_rl.envs.webarena.sites.page import Answer, Failed, Moved, Page, Request, Row

NAME = "Townpedia"
NAVIGATION = {"Regions": "/"}


def answer(request: Request) -> Answer:
    match (request.method, *request.path):
        case ("GET",):
            regions = request.rows("SELECT region, count(*) FROM articles GROUP BY region ORDER BY region")
            return Page("Regions", "wiki/regions.html", {"regions": regions})
        case ("GET", "search"):
            words = request.pattern("q")
            return _listed(
                "Results",
                request.rows("SELECT * FROM articles WHERE title LIKE ? OR river LIKE ? ORDER BY title", words, words),
            )
        case ("GET", "region", name):
            return _listed(name, request.rows("SELECT * FROM articles WHERE region = ? ORDER BY title", name))
        case ("GET", "wiki", title):
            return Page(title, "wiki/article.html", {"article": _titled(request, title)})
        case ("GET", "wiki", title, "edit"):
            return Page(f"Edit {title}", "wiki/edit.html", {"article": _titled(request, title)})
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


def _titled(request: Request, title: str) -> Row:
    return request.one("SELECT * FROM articles WHERE title = ?", title)


def _listed(title: str, articles: list[Row]) -> Page:
    return Page(title, "wiki/list.html", {"articles": articles})
