"""The forum: forums with posts, comments, votes and subscriptions."""

from __future__ import annotations

from agentgym_rl.envs.webarena.sites import page as html
from agentgym_rl.envs.webarena.sites.page import Answer, Failed, Moved, Page, Request, Row

NAME = "Gather"
NAVIGATION = {"Forums": "/", "Subscriptions": "/subscriptions"}


def answer(request: Request) -> Answer:
    match (request.method, *request.path):
        case ("GET",):
            found = request.rows("SELECT * FROM forums ORDER BY name")
            return Page("Forums", (html.items([html.link(f"/f/{name}", name), f" {about}"] for name, about in found),))
        case ("GET", "subscriptions"):
            rows = request.rows("SELECT forum FROM subscribed WHERE user = ? ORDER BY forum", request.member)
            return Page(
                "Subscriptions", (html.items(([html.link(f"/f/{name}", name)] for (name,) in rows), id="subscribed"),)
            )
        case ("GET", "u", name):
            found = request.rows("SELECT * FROM posts WHERE author = ? ORDER BY votes DESC, id", name)
            return Page(f"Posts by {name}", (_posts(found),))
        case ("GET", "f", name):
            return _forum(request, _named(request, name))
        case ("POST", "f", name, "subscribe"):
            request.change(
                "INSERT OR IGNORE INTO subscribed VALUES (?, ?)", request.member, _named(request, name)["name"]
            )
            return Moved(f"/f/{name}")
        case ("GET", "f", name, "submit"):
            _named(request, name)
            return Page(
                f"Post in {name}",
                (
                    html.form(
                        f"/f/{name}/submit", "Create post", html.field("Title", "title"), html.area("Body", "body")
                    ),
                ),
            )
        case ("POST", "f", name, "submit"):
            return _submit(request, _named(request, name)["name"])
        case ("GET", "f", name, number):
            return _post(request, _find(request, name, number))
        case ("POST", "f", name, number, "vote"):
            return _vote(request, _find(request, name, number))
        case ("POST", "f", name, number, "comments"):
            post = _find(request, name, number)["id"]
            request.change(
                "INSERT INTO comments (post, author, body) VALUES (?, ?, ?)",
                post,
                request.member,
                request.text("comment"),
            )
            return Moved(f"/f/{name}/{post}")
    raise Failed(404, "There is no such page.")


def _named(request: Request, name: str) -> Row:
    return request.one("SELECT * FROM forums WHERE name = ?", name)


def _find(request: Request, forum: str, number: str) -> Row:
    return request.one("SELECT * FROM posts WHERE id = ? AND forum = ?", html.key(number), forum)


def _posts(found: list[Row]) -> object:
    rows = (
        (
            html.link(f"/f/{row['forum']}/{row['id']}", row["title"]),
            row["votes"],
            html.link(f"/u/{row['author']}", row["author"]),
        )
        for row in found
    )
    return html.table(("Title", "Votes", "Author"), rows)


def _forum(request: Request, row: Row) -> Page:
    name = row["name"]
    found = request.rows("SELECT * FROM posts WHERE forum = ? ORDER BY votes DESC, id", name)
    mine = request.rows("SELECT 1 FROM subscribed WHERE user = ? AND forum = ?", request.user, name)
    follow = html.tag("p", "You are subscribed.") if mine else html.form(f"/f/{name}/subscribe", "Subscribe")
    return Page(name, (html.tag("p", row["about"]), follow, html.link(f"/f/{name}/submit", "New post"), _posts(found)))


def _submit(request: Request, forum: str) -> Moved:
    title = request.text("title")
    if request.rows("SELECT 1 FROM posts WHERE title = ?", title):
        raise Failed(400, "There is a post with this title.")
    post = request.change(
        "INSERT INTO posts (forum, author, title, body, votes, posted) VALUES (?, ?, ?, ?, 1, '2024-06-01')",
        forum, request.member, title, request.text("body"),
    )  # fmt: skip
    return Moved(f"/f/{forum}/{post}")


def _post(request: Request, row: Row) -> Page:
    at = f"/f/{row['forum']}/{row['id']}"
    comments = request.rows("SELECT * FROM comments WHERE post = ? ORDER BY id", row["id"])
    voted = request.rows("SELECT 1 FROM voted WHERE user = ? AND post = ?", request.user, row["id"])
    forum, author = html.link(f"/f/{row['forum']}", row["forum"]), html.link(f"/u/{row['author']}", row["author"])
    shown = html.facts({"Forum": forum, "Author": author, "Posted": row["posted"], "Votes": row["votes"]})
    return Page(
        row["title"],
        (
            html.tag("p", row["body"]),
            shown,
            html.tag("p", "You voted for this post.") if voted else html.form(f"{at}/vote", "Upvote"),
            html.tag("h2", f"{len(comments)} comments"),
            html.table(("Author", "Comment"), ((one["author"], one["body"]) for one in comments)),
            html.form(f"{at}/comments", "Send comment", html.area("Comment", "comment")),
        ),
    )


def _vote(request: Request, row: Row) -> Moved:
    if not request.rows("SELECT 1 FROM voted WHERE user = ? AND post = ?", request.member, row["id"]):
        request.change("INSERT INTO voted VALUES (?, ?)", request.member, row["id"])
        request.change("UPDATE posts SET votes = votes + 1 WHERE id = ?", row["id"])
    return Moved(f"/f/{row['forum']}/{row['id']}")
