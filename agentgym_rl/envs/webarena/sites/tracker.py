"""The issue tracker: projects with issues. Anybody who is logged in reports and comments; the maintainer of a project
also closes, labels and assigns."""

from agentgym_rl.envs.webarena.sites.page import Answer, Failed, Moved, Page, Request, Row, key

NAME = "Ticketry"
NAVIGATION = {"Projects": "/"}
LABELS = ["bug", "docs", "feature", "question"]
STATES = ("open", "closed")
NOBODY = "nobody"


def answer(request: Request) -> Answer:
    match (request.method, *request.path):
        case ("GET",):
            projects = request.rows("SELECT * FROM projects ORDER BY name")
            return Page("Projects", "tracker/projects.html", {"projects": projects})
        case ("GET", name, "issues"):
            return _issues(request, _named(request, name))
        case ("GET", name, "issues", "new"):
            _named(request, name)
            return Page(f"New issue in {name}", "tracker/new.html", {"project": name})
        case ("POST", name, "issues"):
            return _report(request, _named(request, name)["name"])
        case ("GET", name, "issues", number):
            return _issue(request, _named(request, name), _find(request, name, number))
        case ("POST", name, "issues", number, "notes"):
            issue = _find(request, name, number)["id"]
            request.change(
                "INSERT INTO notes (issue, author, body) VALUES (?, ?, ?)",
                issue, request.member, request.text("comment"),
            )  # fmt: skip
            return Moved(f"/{name}/issues/{issue}")
        case ("POST", name, "issues", number, ("state" | "label" | "assignee") as column):
            return _set(request, _named(request, name), _find(request, name, number), column)
    raise Failed(404, "There is no such page.")


def _named(request: Request, name: str) -> Row:
    return request.one("SELECT * FROM projects WHERE name = ?", name)


def _find(request: Request, project: str, number: str) -> Row:
    return request.one("SELECT * FROM issues WHERE id = ? AND project = ?", key(number), project)


def _people(request: Request) -> list[str]:
    return [NOBODY, *(name for (name,) in request.rows("SELECT name FROM users WHERE site = 'gitlab' ORDER BY name"))]


def _issues(request: Request, project: Row) -> Page:
    name, state, label = project["name"], request.fields.get("state", "open"), request.fields.get("label", "all")
    issues = request.rows(
        "SELECT * FROM issues WHERE project = ? AND state = ? AND ? IN (label, 'all') ORDER BY id DESC",
        name, state, label,
    )  # fmt: skip
    values = {"project": project, "issues": issues, "states": STATES, "labels": LABELS, "state": state, "label": label}
    return Page(f"Issues of {name}", "tracker/issues.html", values)


def _report(request: Request, project: str) -> Moved:
    title = request.text("title")
    if request.rows("SELECT 1 FROM issues WHERE title = ?", title):
        raise Failed(400, "There is an issue with this title.")
    issue = request.change(
        "INSERT INTO issues (project, title, body, author, assignee, label, state, opened) "
        "VALUES (?, ?, ?, ?, ?, 'question', 'open', '2024-06-01')",
        project, title, request.text("description"), request.member, NOBODY,
    )  # fmt: skip
    return Moved(f"/{project}/issues/{issue}")


def _issue(request: Request, project: Row, issue: Row) -> Page:
    notes = request.rows("SELECT * FROM notes WHERE issue = ? ORDER BY id", issue["id"])
    values = {"project": project, "issue": issue, "notes": notes, "labels": LABELS, "people": _people(request)}
    return Page(issue["title"], "tracker/issue.html", values)


def _set(request: Request, project: Row, row: Row, column: str) -> Moved:
    if request.member != project["maintainer"]:
        raise Failed(403, "Only the maintainer may do this.")
    allowed = {"state": STATES, "label": LABELS, "assignee": _people(request)}[column]
    if (value := request.text(column)) not in allowed:
        raise Failed(400, f"{column.capitalize()}: choose one of {', '.join(allowed)}.")
    request.change(f"UPDATE issues SET {column} = ? WHERE id = ?", value, row["id"])
    return Moved(f"/{project['name']}/issues/{row['id']}")
