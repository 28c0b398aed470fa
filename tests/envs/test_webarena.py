"""WebArena without a browser: its tasks, its scores, the files of others, and the built-in sites."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.browser.assets import Asked
from agentgym_rl.envs.core import EnvUnavailable, ProtocolError, TaskNotFound
from agentgym_rl.envs.webarena import WebArena, tasks
from agentgym_rl.envs.webarena.config import NotScored, read
from agentgym_rl.envs.webarena.evaluate import answer_matches, includes, post_url, solved, url_matches
from agentgym_rl.envs.webarena.files import Files
from agentgym_rl.envs.webarena.judge import OpenAIJudge
from agentgym_rl.envs.webarena.sites.visit import SITES, Visit

BASE = {"task_id": 7, "sites": ["reddit"], "intent": "How many?", "start_url": "__REDDIT__", "storage_state": None}
PART = {"url": "last", "locator": ""}
URLS = {"reddit": "http://127.0.0.1:9999", "shopping": "http://127.0.0.1:7770"}


def entry(types: tuple[str, ...] = ("string_match",), answers: Any = None, **rules: Any) -> dict[str, Any]:
    """An entry of WebArena's files."""
    rules_of_entry = {"eval_types": list(types), "reference_answers": answers, "reference_url": "", "program_html": []}
    return {**BASE, "eval": {**rules_of_entry, **rules}}


class Left:
    """A page that was left behind; its JavaScript is looked up."""

    def __init__(self, url: str, values: dict[tuple[str, str], str]) -> None:
        self.url, self._values = url, values

    async def goto(self, url: str) -> None:
        self.url = url

    async def evaluate(self, script: str, argument: Any = None) -> Any:
        values = [value for (url, part), value in self._values.items() if url == self.url and part in script]
        return values[0] if values else ""


# ------------------------------------------------------------------------------------------------------------- tasks


def test_every_task_is_another_one() -> None:
    assert {name: len(split) for name, split in tasks.SPLITS.items()} == {
        "test": 50, "train": 372, "val": 50, "judged": 40,
    }  # fmt: skip
    intents = [tasks.problem(index).config.intent for split in tasks.SPLITS.values() for index in split]
    assert len(set(intents)) == len(intents) == 512
    with pytest.raises(TaskNotFound, match="webarena has no task 512: valid are 0 to 511"):
        tasks.problem(512)


def test_the_tasks_need_every_evaluator() -> None:
    configs = [tasks.problem(index).config for split in ("train", "judged") for index in tasks.SPLITS[split]]
    assert {config.types for config in configs} == {
        ("string_match",), ("url_match",), ("program_html",), ("string_match", "url_match"),
        ("url_match", "program_html"),
    }  # fmt: skip
    assert {kind for config in configs for kind in config.answers} == {"exact_match", "must_include", "fuzzy_match"}
    targets = [target for config in configs for target in config.targets]
    assert {target.exact is None for target in targets} == {True, False}
    assert {target.url.partition(":")[0] for target in targets} == {"last", "func", "http"}
    assert any(config.answers.get("exact_match") == "N/A" for config in configs)
    assert {len(config.sites) for config in configs} == {1, 2}


def test_the_tasks_have_the_format_of_the_files() -> None:
    entry_of_task = tasks.entry(11)
    assert (
        entry_of_task["start_url"] == "__GITLAB__"
        and entry_of_task["require_login"]
        and entry_of_task["intent_template"].count("{{") == 2
    )
    assert read(entry_of_task, {"gitlab": "http://tracker.test"}, "here") == tasks.problem(11).config
    assert json.loads(json.dumps(entry_of_task)) == entry_of_task


def test_nobody_moves_to_where_the_account_is() -> None:
    problems = [tasks.problem(index) for split in tasks.SPLITS.values() for index in split]
    cities = {problem.config.targets[0].exact for problem in problems if problem.label.endswith(": move")}
    assert len(cities) == 11 and "Ashford" not in cities


def test_without_a_judge_its_split_is_refused() -> None:
    assert "judged" in WebArena().spec.unavailable
    assert not WebArena(judge_url="http://127.0.0.1:1", judge_model="m").spec.unavailable
    with pytest.raises(TaskNotFound, match=r"webarena_472 cannot be scored: .* give judge_url and judge_model"):
        asyncio.run(WebArena().reset(Task("webarena", 472)))


def test_without_a_browser_there_are_tasks_and_servers() -> None:
    program = "import sys; sys.modules['playwright'] = None; from agentgym_rl.envs import make, Task; "
    program += "print(make('webarena').goal(Task('webarena', 0)))"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout.startswith("What does the Hollin Basic Camp Stove cost?")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"judge_url": "http://127.0.0.1:1"}, "judge_url and judge_model go together"),
        ({"judge_url": "ftp://x", "judge_model": "m"}, "judge_url 'ftp://x' is not an address"),
        ({"sites": "reddit=http://127.0.0.1:1"}, "sites, hosts and logins are for WebArena's own"),
        ({"hosts": "127.0.0.1:5000"}, "sites, hosts and logins are for WebArena's own"),
        ({"shop_admin": "root"}, "shop_admin and shop_password_env are for WebArena's own tasks"),
        ({"tasks": "x", "shop_password_env": "NO_SUCH_VARIABLE"}, "shop_password_env=NO_SUCH_VARIABLE: set that"),
        ({"judge_token_env": "NO_SUCH_VARIABLE"}, "judge_token_env=NO_SUCH_VARIABLE: set that variable"),
        ({"tasks": "/nowhere.json"}, "tasks=/nowhere.json does not exist"),
        ({"tasks": "verified", "judge_url": "http://h", "judge_model": "m"}, "tasks=verified ask neither a judge nor"),
        ({"tasks": "verified", "shop_admin": "root"}, "tasks=verified ask neither a judge nor a shop"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make("webarena", **options)


# ------------------------------------------------------------------------------------------------------------- files


def write(path: Path, *entries: dict[str, Any]) -> str:
    path.write_text(json.dumps(list(entries)))
    return str(path)


def test_official_tasks_by_path(tmp_path: Path) -> None:
    right = {"exact_match": "3"}
    entries = [
        entry(answers=right) | {"task_id": 3},
        entry(answers={"fuzzy_match": ["three"]}) | {"task_id": 60},
        entry(answers=right) | {"task_id": 61, "start_url": "__MAP__"},
        entry(("program_html",), program_html=[{"url": "func:shopping_get_latest_order_url()", "locator": "",
              "required_contents": {"must_include": ["a"]}}]) | {"task_id": 62},
        entry(answers=right) | {"task_id": 500},
    ]  # fmt: skip
    path = write(tmp_path / "test.json", *entries)
    env = WebArena(tasks=path, sites="reddit=http://127.0.0.1:9999/")
    assert env.spec.splits == {"test": (3,), "train": (3, 500), "rest": (500,)}
    assert not env.spec.deterministic and env.goal(Task("webarena", 3)) == "How many?"
    assert env.difficulty(Task("webarena", 3)) == "reddit"
    for index, why in ((60, "give judge_url"), (61, "give sites=map=http"), (62, "its site shopping has no address")):
        with pytest.raises(TaskNotFound, match=why):
            env.goal(Task("webarena", index))
    judged = WebArena(tasks=path, sites=URLS, judge_url="http://127.0.0.1:1", judge_model="m")
    assert judged.spec.splits["train"] == (60, 62)
    for number, spoiled in enumerate(entries):
        (tmp_path / f"{number}.json").write_text(json.dumps(spoiled))
    folder = WebArena(tasks=str(tmp_path), sites={"reddit": URLS["reddit"]})
    assert folder.spec.splits == env.spec.splits


def test_logins_come_from_a_folder(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.json", entry(answers={"exact_match": "3"}) | {"storage_state": "./.auth/reddit_state.json"}
    )
    with pytest.raises(ValueError, match=r"task 7 needs the login .*reddit_state.json, which does not exist"):
        Files(path, URLS, str(tmp_path), False)
    (tmp_path / "reddit_state.json").write_text('{"cookies": []}')
    files = Files(path, URLS, str(tmp_path), False)
    assert files.storage(files.config(7)) == {"cookies": []}
    assert Files(path, URLS, None, False).storage(files.config(7)) is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"eval": None}, "entry 0: it is no task of WebArena's"),
        (entry(types=()), "eval_types is empty"),
        (entry(types=("taste",)), "'taste' is none of"),
        (entry(answers={"exact_match": ["a"]}), r"reference_answers > exact_match: \['a'\]"),
        (entry(("program_html",), program_html=[{"url": "last", "locator": "x()", "required_contents": 1}]), "loc"),
        (entry(("program_html",), program_html=[{"url": "cart", "locator": "", "required_contents": {}}]), "url .cart"),
        (entry(answers={"must_include": "N/A"}), "reference_answers > must_include: 'N/A'"),
        (entry(answers={"must_include": []}), r"reference_answers > must_include: \[\]"),
        (entry(answers={"must_include": [5]}), r"reference_answers > must_include: \[5\]"),
        (entry(("url_match",)), "reference_url is empty, so that every url_match would succeed"),
        (entry(("program_html",)), "program_html is empty, so that every program_html would succeed"),
        (entry(("program_html",), program_html=[PART | {"required_contents": {"must_include": "ab"}}]), "contents {.m"),
        (entry(("program_html",), program_html=[PART | {"required_contents": {"exact_match": 5}}]), "contents {.exact"),
        ({"task_id": "x"}, "task_id 'x' is no number of its own"),
        (entry(answers={"exact_match": "a"}) | {"start_url": "__MAP__"}, "no task can be played; task 7: its site map"),
    ],
)  # fmt: skip
def test_faults_of_files_are_named(wrong: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        Files(write(tmp_path / "a.json", {**BASE, **wrong}), URLS, None, False)


@pytest.mark.parametrize("sites", ["shop=http://127.0.0.1:1", "reddit=ftp://x", "reddit", 'reddit=http://a"b'])
def test_wrong_addresses_are_named(sites: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sites: "):
        WebArena(tasks=write(tmp_path / "a.json", entry(answers={"exact_match": "3"})), sites=sites)


@pytest.mark.parametrize("hosts", ["http://a", "*", "a/b", "a b", "a:x"])
def test_wrong_hosts_are_named(hosts: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="hosts: "):
        WebArena(tasks=write(tmp_path / "a.json", entry(answers={"exact_match": "3"})), sites=URLS, hosts=f"b, {hosts}")


def test_unknown_helpers_are_not_scored() -> None:
    target = {"url": "last", "locator": "func:map_get_route()", "required_contents": {}}
    with pytest.raises(NotScored, match="its score needs map_get_route, which is none of reddit_get_post_url"):
        read(entry(("program_html",), program_html=[target]), URLS, "here")


# ------------------------------------------------------------------------------------------------------------ scores


@pytest.mark.parametrize(
    ("answers", "answer", "right"),
    [
        ({"exact_match": "Quest Band"}, " 'quest band' ", True),
        ({"exact_match": "Quest Band"}, "the quest band", False),
        ({"exact_match": "N/A"}, "n/a", True),
        ({"must_include": ["2 hours", "July"]}, "It took 2 Hours in july", True),
        ({"must_include": ["2 hours", "July"]}, "It took 2 hours in June", False),
        ({"must_include": ["5"]}, "There are 15 of them", False),
        ({"must_include": ["5"]}, "There are 5.", True),
        ({"must_include": ["5"]}, "It is 5% of 1,005", True),
        ({"must_include": ["5"]}, "It is 1,005", False),
        ({"must_include": ["5"]}, "It is the 5th", False),
        ({"must_include": ["5"]}, "It is among the top-5 since 2024-1-5", False),
        ({"must_include": ["5"]}, "It has 4/5 or 5/5", False),
        ({"must_include": ["5"]}, "It is **5**, I think", True),
        ({"must_include": ["5", "a"]}, "15 a", True),
        ({"must_include": ["15"]}, "It is 115", True),
        ({"exact_match": "5", "must_include": ["6"]}, "5", False),
        ({"fuzzy_match": "N/A"}, "N/A", True),
    ],
)
def test_answers_by_hand(answers: dict[str, Any], answer: str, right: bool) -> None:
    assert asyncio.run(answer_matches(read(entry(answers=answers), URLS, "here"), answer, None)) is right


@pytest.mark.parametrize(
    ("expected", "url", "right"),
    [
        ("http://a.test/f/books", "http://a.test/f/books/", True),
        ("http://a.test/f/books", "http://a.test/f/books/12?sort=new", True),
        ("http://a.test/f/books", "http://b.test/f/books", False),
        ("http://a.test/x |OR| http://a.test/y", "http://a.test/y", True),
        ("http://a.test/s?q=red+shoes", "http://a.test/s?page=2&q=red%20shoes", True),
        ("http://a.test/s?q=red", "http://a.test/s?q=blue", False),
        ("http://a.test/s?q=red", "http://a.test/s", False),
        ("http://a.test/s?q=red |OR| http://a.test/s?q=blue", "http://a.test/s?q=blue", True),
    ],
)
def test_addresses_by_hand(expected: str, url: str, right: bool) -> None:
    assert url_matches(expected, url) is right


def test_contents_by_hand() -> None:
    post = "http://127.0.0.1:9999/f/books/12/"
    values = {
        (f"{post}#comment", "h1"): "A &amp; B",
        (post, "main"): "one two",
        ("http://127.0.0.1:7770/cart", "outerHTML"): "<p>3",
    }
    html = [
        {"url": "last", "locator": "document.querySelector('h1').outerText",
         "required_contents": {"exact_match": "a & b"}},
        {"url": "func:reddit_get_post_url('__last_url__')", "locator": "document.querySelector('main').outerText",
         "required_contents": {"must_include": ["TWO", "three |OR| one"]}},
        {"url": "__SHOPPING__/cart", "locator": "", "required_contents": {"must_include": ["<p>3"]}},
    ]  # fmt: skip

    def score(*targets: dict[str, Any], types: tuple[str, ...] = ("program_html",), answer: str = "") -> bool:
        task = entry(types, {"exact_match": "yes"}, program_html=list(targets), reference_url="__REDDIT__/f/books")
        return asyncio.run(solved(read(task, URLS, "here"), answer, Left(f"{post}#comment", values), None, None))

    assert score(*html)
    assert not score(*html, html[0]), "the page has been left since"
    assert not score({**html[0], "required_contents": {"exact_match": "a"}})
    assert not score({**html[1], "required_contents": {"must_include": ["one", "four"]}})
    assert not score({**html[0], "locator": "document.querySelector('h2').outerText"})
    assert not score({**html[1], "url": "func:reddit_get_post_url('chrome-error://chromewebdata/')"}), "left the forum"
    all_types = ("string_match", "url_match", "program_html")
    assert score(*html, types=all_types, answer="Yes") and not score(*html, types=all_types, answer="No")
    assert post_url("http://a.test/f/b/3/title") == "http://a.test/f/b/3/"
    assert post_url("http://a.test/user/3/title") == "http://a.test/user/3/title"
    assert includes("", "anything")


@contextmanager
def model(*says: Any) -> Iterator[tuple[str, list[Any]]]:
    """A judge on loopback that answers with these contents or statuses; its address, and what it was asked."""
    left, requests = list(says), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append((self.path, self.headers.get("Authorization"), body))
            answer = left.pop(0)
            self.send_response(answer if isinstance(answer, int) else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"choices": [{"message": {"content": answer}}]}).encode())

        def log_message(self, *words: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()


def test_a_judge_compares_answers() -> None:
    config = read(entry(answers={"fuzzy_match": ["a tower", "a lake"]}), URLS, "here")
    undoable = read(entry(answers={"fuzzy_match": "N/A"}, string_note="there is no such book"), URLS, "here")
    with model("Correct.", "CORRECT", "correct", "partial", "no: INCORRECT", "SAME", "is DIFFERENT") as (url, requests):
        judge = OpenAIJudge(url, "some-model", "secret")
        verdicts = [asyncio.run(answer_matches(config, "Tower and lake", judge)) for _ in range(3)]
        reasons = [asyncio.run(answer_matches(undoable, "no book", judge)) for _ in range(2)]
    assert verdicts == [True, False, False] and reasons == [True, False]
    path, token, body = requests[0]
    assert (path, token, body["model"], body["temperature"]) == (
        "/v1/chat/completions",
        "Bearer secret",
        "some-model",
        0,
    )
    assert all(part in body["messages"][0]["content"] for part in ("How many?", "a tower", "tower and lake"))
    assert "there is no such book" in requests[-1][2]["messages"][0]["content"]


def test_the_token_comes_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_TOKEN", "hush")
    with model("correct") as (url, requests):
        judge = WebArena(judge_url=url, judge_model="m", judge_token_env="JUDGE_TOKEN")._judge
        assert judge is not None and asyncio.run(judge.agrees("q", "a", "b"))
    assert requests[0][1] == "Bearer hush"


def test_a_judge_may_answer_in_parts_and_with_its_thinking() -> None:
    content = [{"type": "text", "text": "Incorrect."}, {"type": "thinking", "thinking": "or is it CORRECT"}]
    with model(content) as (url, _):
        assert not asyncio.run(OpenAIJudge(url, "m").agrees("q", "a", "b"))


def test_a_verdict_may_be_said_in_other_words() -> None:
    with model("Partially correct.", "It is not correct", "It is not entirely correct: no lake.", "not the same") as (
        url,
        _,
    ):
        judge = OpenAIJudge(url, "m")
        assert [asyncio.run(judge.agrees("q", "a", "b")) for _ in range(3)] == [False] * 3
        assert not asyncio.run(judge.same_reason("t", "a", "b"))


@pytest.mark.parametrize(
    ("says", "error"),
    [
        ("maybe", EnvUnavailable),
        (None, EnvUnavailable),
        ({}, EnvUnavailable),
        (503, EnvUnavailable),
        (401, ProtocolError),
    ],
)
def test_a_judge_that_fails_gives_no_score(says: Any, error: type[Exception]) -> None:
    with model(says) as (url, _), pytest.raises(error):
        asyncio.run(OpenAIJudge(url, "m").agrees("q", "a", "b"))


# ------------------------------------------------------------------------------------------------------------- sites

USERS = {"shopping": "mia", "reddit": "mia", "gitlab": "noa"}


def ask(visit: Visit, site: str, path: str, **form: str) -> tuple[int, str]:
    """Status and text of a page; with a form, of the one that it leads to."""
    method = "POST" if form else "GET"
    response = visit.serve(Asked(method, SITES[site].url + path, urlencode(form).encode()))
    assert response is not None
    if "Refresh" in response.headers:
        return ask(visit, site, response.headers["Refresh"].removeprefix(f"0; url={SITES[site].url}"))
    return response.status, response.body.decode()


def test_what_a_visitor_does_stays_with_the_visitor() -> None:
    visit, other = Visit(USERS), Visit(USERS)
    assert "Total" in ask(visit, "shopping", "/product/101/cart", quantity="2")[1]
    assert "Order 1120" in ask(visit, "shopping", "/orders", x="")[1]
    assert ask(visit, "shopping", "/orders/1120/cancel", x="")[1].count("cancelled") == 1
    assert "Newtown" in ask(visit, "shopping", "/account/city", city="Newtown")[1]
    assert "I disagree" in ask(visit, "reddit", "/f/baking/101/comments", comment="I disagree")[1]
    assert "You voted" in ask(visit, "reddit", "/f/baking/101/vote", x="")[1]
    assert ask(visit, "gitlab", "/almanac/issues/104/state", state="closed")[1].count("Reopen issue") == 1
    assert "Anna" in ask(visit, "wikipedia", "/wiki/Ashford/mayor", mayor="Anna")[1]
    for site, path, text in (
        ("shopping", "/orders", "Order 1120"), ("shopping", "/account", "Newtown"),
        ("wikipedia", "/wiki/Ashford", "Anna"),
        ("reddit", "/f/baking/101", "I disagree"), ("reddit", "/f/baking/101", "You voted"),
        ("gitlab", "/almanac/issues/104", "Reopen"),
    ):  # fmt: skip
        assert text in ask(visit, site, path)[1] and text not in ask(other, site, path)[1]


def test_roles_decide_what_may_be_done() -> None:
    visit = Visit({"gitlab": "mia"})
    status, text = ask(visit, "gitlab", "/almanac/issues/104/state", state="closed")
    assert status == 403 and "Only the maintainer may do this." in text
    assert "Close issue" not in ask(visit, "gitlab", "/almanac/issues/104")[1]
    assert ask(visit, "gitlab", "/login", user="noa", password="guess")[0] == 403
    assert "Logged in as noa" in ask(visit, "gitlab", "/login", user="noa", password="noa.1234")[1]
    assert "closed" in ask(visit, "gitlab", "/almanac/issues/104/state", state="closed")[1]
    assert ask(visit, "shopping", "/cart")[0] == 403 and ask(visit, "shopping", "/orders/1000")[0] == 403
    assert "Log in" in ask(visit, "gitlab", "/logout", x="")[1]
    assert ask(Visit(USERS), "shopping", "/orders/1100")[0] == 404, "of another customer"


HOSTILE = "<script>document.title = 'owned'</script><img src=x onerror=alert(1)>\"' onmouseover='alert(2)"


def test_texts_of_visitors_are_escaped() -> None:
    visit = Visit(USERS)
    pages = [
        ask(visit, "shopping", "/product/101/reviews", stars="3 stars", review=HOSTILE),
        ask(visit, "shopping", f"/search?{urlencode({'q': HOSTILE})}"),
        ask(visit, "shopping", "/account/full_name", full_name=HOSTILE),
        ask(visit, "reddit", "/f/baking/submit", title=HOSTILE, body=HOSTILE),
        ask(visit, "reddit", "/f/baking"),
        ask(visit, "wikipedia", "/wiki/Ashford/edit", text=HOSTILE),
        ask(visit, "wikipedia", "/wiki/Ashford/edit"),
        ask(visit, "gitlab", "/almanac/issues", title=HOSTILE, description=HOSTILE),
    ]
    for status, text in pages:
        assert status == 200 and "owned" in text
        assert "<script" not in text and "<img" not in text and "' onmouseover" not in text


PATHS = st.sampled_from(
    ["/", "/search", "/product/101", "/product/101/cart", "/product/101/reviews", "/cart", "/orders",
     "/orders/1000/cancel", "/account/city", "/f/chess/submit", "/f/chess", "/f/baking/101/comments",
     "/wiki/Ashford/edit", "/almanac/issues",
     "/almanac/issues/104/label", "/login", "/logout"]
)  # fmt: skip
TEXT = st.text(max_size=40) | st.sampled_from(["1", "9" * 30, "-1", "%", "' OR 1=1 --", "\x00", "x" * 3000, "bug"])
FIELDS = [
    *("q", "sort", "quantity", "stars", "review", "city", "title", "body", "comment", "text", "state", "label", "user")
]
VISIT = Visit(USERS)


@given(
    st.sampled_from([*SITES]), st.sampled_from(["GET", "POST"]), PATHS | st.text(max_size=30).map("/{}".format),
    st.dictionaries(st.sampled_from(FIELDS), TEXT, max_size=4),
)  # fmt: skip
def test_no_request_breaks_a_site(site: str, method: str, path: str, form: dict[str, str]) -> None:
    sent = urlencode(form, errors="replace")
    url = SITES[site].url + path + (f"?{sent}" if method == "GET" else "")
    response = VISIT.serve(Asked(method, url.encode(errors="replace").decode(), sent.encode()))
    assert response is not None and response.status in (200, 400, 403, 404)
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_what_is_no_page_of_the_sites_is_refused() -> None:
    visit = Visit(USERS)
    assert visit.serve(Asked("GET", "http://example.com/")) is None
    assert visit.serve(Asked("DELETE", "http://shop.test/cart")) is None
    assert visit.serve(Asked("POST", "http://homepage.com/")) is None
    big = visit.serve(Asked("POST", "http://wiki.test/wiki/Ashford/edit", b"text=" + b"x" * 200_000))
    assert big is not None and big.status == 413


@pytest.mark.parametrize("site", ["shop", "wiki"])
def test_a_long_search_finds_nothing(site: str) -> None:
    found = Visit(USERS).serve(Asked("GET", f"http://{site}.test/search?q={'a' * 60_000}"))
    assert found is not None and found.status == 200
