"""The forum: forums with posts, comments, votes and subscriptions."""

from agentgym_rl.envs.webarena.sites.page import Answer, Failed, Moved, Page, Request, Row, key

NAME = "Gather"
NAVIGATION = {"Forums": "/", "Subscriptions": "/subscriptions"}


def answer(request: Request) -> Answer:
    match (request.method, *request.path):
        case ("GET",):
            forums = request.rows("SELECT * FROM forums ORDER BY name")
            return Page("Forums", "forum/forums.html", {"forums": forums})
        case ("GET", "subscriptions"):
            forums = request.rows("SELECT forum FROM subscribed WHERE user = ? ORDER BY forum", request.member)
            return Page("Subscriptions", "forum/subscriptions.html", {"forums": forums})
        case ("GET", "u", name):
            posts = request.rows("SELECT * FROM posts WHERE author = ? ORDER BY votes DESC, id", name)
            return Page(f"Posts by {name}", "forum/posts.html", {"posts": posts})
        case ("GET", "f", name):
            return _forum(request, _named(request, name))
        case ("POST", "f", name, "subscribe"):
            request.change(
                "INSERT OR IGNORE INTO subscribed VALUES (?, ?)", request.member, _named(request, name)["name"]
            )
            return Moved(f"/f/{name}")
        case ("GET", "f", name, "submit"):
            _named(request, name)
            return Page(f"Post in {name}", "forum/submit.html", {"forum": name})
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
                post, request.member, request.text("comment"),
            )  # fmt: skip
            return Moved(f"/f/{name}/{post}")
    raise Failed(404, "There is no such page.")


def _named(request: Request, name: str) -> Row:
    return request.one("SELECT * FROM forums WHERE name = ?", name)


def _find(request: Request, forum: str, number: str) -> Row:
    return request.one("SELECT * FROM posts WHERE id = ? AND forum = ?", key(number), forum)


def _forum(request: Request, forum: Row) -> Page:
    posts = request.rows("SELECT * FROM posts WHERE forum = ? ORDER BY votes DESC, id", forum["name"])
    mine = request.rows("SELECT 1 FROM subscribed WHERE user = ? AND forum = ?", request.user, forum["name"])
    return Page(forum["name"], "forum/forum.html", {"forum": forum, "posts": posts, "subscribed": bool(mine)})


def _submit(request: Request, forum: str) -> Moved:
    title = request.text("title")
    if request.rows("SELECT 1 FROM posts WHERE title = ?", title):
        raise Failed(400, "There is a post with this title.")
    post = request.change(
        "INSERT INTO posts (forum, author, title, body, votes, posted) VALUES (?, ?, ?, ?, 1, '2024-06-01')",
        forum, request.member, title, request.text("body"),
    )  # fmt: skip
    return Moved(f"/f/{forum}/{post}")


def _post(request: Request, post: Row) -> Page:
    comments = request.rows("SELECT * FROM comments WHERE post = ? ORDER BY id", post["id"])
    voted = request.rows("SELECT 1 FROM voted WHERE user = ? AND post = ?", request.user, post["id"])
    return Page(post["title"], "forum/post.html", {"post": post, "comments": comments, "voted": bool(voted)})


def _vote(request: Request, row: Row) -> Moved:
    if not request.rows("SELECT 1 FROM voted WHERE user = ? AND post = ?", request.member, row["id"]):
        request.change("INSERT INTO voted VALUES (?, ?)", request.member, row["id"])
        request.change("UPDATE posts SET votes = votes + 1 WHERE id = ?", row["id"])
    return Moved(f"/f/{row['forum']}/{row['id']}")
