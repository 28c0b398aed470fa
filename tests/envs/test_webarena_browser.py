"""WebArena as an agent meets it, in a browser that all tests share; without one they are skipped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

import pytest

pytest.importorskip("playwright", reason="the extra webarena is not installed")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_rl.envs import Task
from agentgym_rl.envs.browser.assets import Asked
from agentgym_rl.envs.browser.chromium import CHROMIUM
from agentgym_rl.envs.checks import CHECKS, Subject, format_faults
from agentgym_rl.envs.core import EnvFault, EnvTimeout, EnvUnavailable, ProtocolError
from agentgym_rl.envs.hosts import LocalHost
from agentgym_rl.envs.probe import GARBAGE, BadAction, follow, walk
from agentgym_rl.envs.webarena import COMMANDS, WebArena, tasks
from agentgym_rl.envs.webarena.episode import Episode
from agentgym_rl.envs.webarena.sites.visit import SITES, Visit

pytestmark = [
    pytest.mark.usefixtures("chromium"),
    pytest.mark.timeout(300),
]


def task(template: str, split: str = "test") -> Task:
    """The first task of a template."""
    names = (index for index in tasks.SPLITS[split] if tasks.problem(index).label.endswith(f": {template}"))
    return Task("webarena", next(names))


@pytest.fixture(scope="module")
def env() -> Iterator[WebArena]:
    env = WebArena()
    yield env
    asyncio.run(env.close())


@pytest.mark.parametrize(
    "template",
    ["price", "worst review", "category", "close", "comment", "show and tell", "price in the forum"],
)
def test_the_oracle_solves(env: WebArena, template: str) -> None:
    plan = env.oracle(task(template))
    trail = asyncio.run(walk(env, task(template), follow(plan)))
    assert trail.reward == 1 and trail.steps[-1].terminated and not any(step.info["invalid"] for step in trail.steps)
    assert list(format_faults(env.spec, plan)) == []


@pytest.mark.parametrize("template", ["price", "category", "close", "show and tell"])
def test_an_end_without_the_work_earns_nothing(env: WebArena, template: str) -> None:
    trail = asyncio.run(walk(env, task(template), follow(["stop [I am done]"])))
    assert (trail.reward, trail.done) == (0, True)
    assert trail.steps[-1].observation.text == "The task is over: it is not solved."


COMMENT = "http://tracker.test/{project}/issues/{id}/notes"
REPORT = "http://tracker.test/{project}/issues"
POST = "http://forum.test/f/{forum}/submit"
CART, ORDERS = "http://shop.test/product/{product}/cart", "http://shop.test/orders"


@pytest.mark.parametrize(
    ("template", "requests", "right"),
    [
        ("cart", [(CART, {"quantity": "{number}"})], True),
        ("cart", [(CART, {"quantity": "9"}), (CART, {"quantity": "{number}"})], False),
        ("buy", [(CART, {"quantity": "1"}), (ORDERS, {})], True),
        ("buy", [(CART, {"quantity": "9"}), (CART, {"quantity": "1"}), (ORDERS, {})], False),
        ("answer in the tracker", [(COMMENT, {"comment": "{town} was founded in {year}."})], True),
        ("answer in the tracker", [(COMMENT, {"comment": "{year}0"})], False),
        ("report", [(REPORT, {"title": "{part} is cut off", "description": "Seen on a small screen."})], True),
        ("report", [(REPORT, {"title": "A fault", "description": "{part} is cut off. Seen on a small screen"})], False),
        ("post", [(POST, {"title": "Looking for {thing} for {forum}", "body": "Any ideas?"})], True),
        ("post", [(POST, {"title": "Looking for {thing} for {forum}", "body": "Well?"})], False),
        ("price in the forum", [(POST, {"title": "{name}", "body": "{price}"})], True),
        ("price in the forum", [(POST, {"title": "?", "body": "{price}"}), (POST, {"title": "{name}", "body": "?"})],
         False),
    ],
)  # fmt: skip
def test_what_is_left_on_the_sites_is_scored(
    template: str, requests: list[tuple[str, dict[str, str]]], right: bool
) -> None:
    """Requests are sent as the forms of the pages send them; what is in braces are the values of the task."""
    number = task(template).index
    row = dict(tasks.entry(number)["instantiation_dict"])

    async def play() -> bool:
        problem = tasks.problem(number)
        episode = await Episode.built_in(problem)
        assert episode._visit is not None
        products = episode._visit.db.execute("SELECT name, id FROM products")
        row["product"] = dict(map(tuple, products)).get(row.get("name"))
        try:
            await episode.start()
            for url, form in requests:
                sent = urlencode({key: value.format(**row) for key, value in form.items()})
                moved = episode._visit.serve(Asked("POST", url.format(**row), sent.encode()))
                assert moved is not None
                await episode.session.goto(moved.headers["Refresh"].removeprefix("0; url="))
            return await episode.solved("done", None, None)
        finally:
            await episode.close()

    assert CHROMIUM.call_blocking(play()) is right


def test_it_keeps_the_contract() -> None:
    env = WebArena()
    subject = Subject("webarena", {}, env, [task("comment", "val")], tuple(tasks.SPLITS), LocalHost())

    async def faults() -> list[str]:
        left = ("deterministic across processes", "achieved goals earn success", "steps left count down")
        checks = [check for name, check in CHECKS.items() if name not in left]
        try:
            return [fault for check in checks async for fault in check(subject)]
        finally:
            await env.close()

    assert asyncio.run(faults()) == []


def test_an_episode_is_the_same_everywhere(env: WebArena) -> None:
    order = task("order status")
    trail = asyncio.run(
        walk(env, order, follow(["qwzx", "click [4]", "goto homepage.com", "goto example.com", "go_back"]))
    )
    assert trail.first.text.splitlines()[:6] == [
        "OBSERVATION:", "Tab 0 (current): Home", "", "[1] RootWebArea 'Home' focused: True", "\t[2] link 'Home'",
        "\t[3] link 'Cart'",
    ]  # fmt: skip
    intent = tasks.problem(order.index).config.intent
    assert trail.first.text.endswith(f"URL: http://shop.test/\nOBJECTIVE: {intent}\nPREVIOUS ACTION: None")
    assert trail.first.actions is not None and {"click [4]", "stop [N/A]"} < set(trail.first.actions)
    bad, orders, home, refused, back = (step.observation.text for step in trail.steps)
    assert bad == "Error: there is no action 'qwzx'; there are " + ", ".join(COMMANDS)
    assert "Tab 0 (current): Orders" in orders and orders.endswith("PREVIOUS ACTION: click [4]")
    assert "link 'One Stop Shop'" in home and refused.startswith("Error: 'http://example.com' may not be opened")
    assert "URL: http://shop.test/orders" in back
    assert [step.info["invalid"] for step in trail.steps] == [True, False, False, True, False]


def test_the_compact_wording_says_the_task_once() -> None:
    async def play() -> list[str]:
        env = WebArena(style="compact")
        trail = await walk(env, task("price"), follow(["go", "click [4]"]))
        await env.close()
        return [trail.first.text, *(step.observation.text for step in trail.steps)]

    first, bad, orders = asyncio.run(play())
    intent = tasks.problem(task("price").index).config.intent
    assert first.startswith(f"Task: {intent}\nTab 0 (current): Home\n[1] RootWebArea") and "\t" not in first
    assert bad.startswith("invalid: there is no action 'go'") and intent not in orders


def test_hostile_texts_do_not_run(env: WebArena) -> None:
    hostile = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"

    async def attack() -> list[str]:
        other = WebArena()
        await other.reset(task("author"))
        seen = (await env.reset(task("author"))).text
        for action in (
            "goto forum.test/f/chess/submit",
            f"type [9] [{hostile}] [0]",
            f"type [11] [{hostile}] [0]",
            "click [12]",
        ):
            seen = (await env.step(action)).observation.text
        clean = (await other.step("goto forum.test/f/chess")).observation.text
        await other.close()
        return [seen, (await env.step("goto forum.test/f/chess")).observation.text, clean]

    made, listed, clean = asyncio.run(attack())
    assert "Tab 0 (current): <script>" in made and "heading '<script>document.title=" in made
    assert "Tab 0 (current): chess" in listed and "owned" in listed and "owned" not in clean


ACTIONS = st.one_of(
    st.sampled_from(GARBAGE),
    st.integers(0, 40).map("click [{}]".format),
    st.builds("type [{}] [{}] [{}]".format, st.integers(0, 40), st.text(max_size=20), st.integers(0, 1)),
    st.sampled_from(["go_back", "go_forward", "new_tab", "close_tab", "tab_focus [1]", "scroll [down]", "press [F5]",
                     "goto javascript:alert(1)", "goto file:///etc/passwd", "goto http://shop.test/orders/1000",
                     "press [ctrl+a]", "goto chrome://crash", "goto data:text/html,hi", "hover [3]"]),
)  # fmt: skip


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(ACTIONS, min_size=4, max_size=8), st.sampled_from(tasks.SPLITS["train"]))
def test_no_action_does_harm(actions: list[str], index: int) -> None:
    async def play() -> None:
        env = WebArena()
        try:
            trail = await walk(env, Task("webarena", index), follow(actions))
            assert len(trail.steps) == len(actions) and trail.reward == 0
            assert all(len(step.observation.text) < 7_000 for step in trail.steps)
        except BadAction as error:
            assert isinstance(error.__cause__, EnvTimeout), "only a machine under load may interrupt it"
        finally:
            await env.close()

    asyncio.run(play())


def test_a_fault_of_a_site_is_no_score(env: WebArena, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> None:
        await env.reset(task("price"))
        monkeypatch.setattr(Visit, "_answer", lambda *arguments: 1 / 0)
        with pytest.raises((EnvFault, EnvUnavailable)):
            await env.step("click [4]")
            await env.step("click [4]")
        with pytest.raises(ProtocolError):
            await env.step("click [4]")
        monkeypatch.undo()
        await env.reset(task("price"))

    asyncio.run(fail())


@contextmanager
def served(users: dict[str, str]) -> Iterator[dict[str, str]]:
    """The built-in sites on loopback, as a user has WebArena's; their addresses by name."""
    visit = Visit(users)
    servers = {name: ThreadingHTTPServer(("127.0.0.1", 0), _handler(visit, site.url)) for name, site in SITES.items()}
    for server in servers.values():
        Thread(target=server.serve_forever, daemon=True).start()
    yield {name: f"http://127.0.0.1:{server.server_port}" for name, server in servers.items()}
    for server in servers.values():
        server.shutdown()
        server.server_close()


def _handler(visit: Visit, url: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            response = visit.serve(Asked(self.command, url + self.path, body))
            assert response is not None
            self.send_response(303 if "Refresh" in response.headers else response.status)
            if "Refresh" in response.headers:
                self.send_header("Location", response.headers["Refresh"].removeprefix(f"0; url={url}"))
            self.send_header("Content-Type", response.content_type)
            self.end_headers()
            self.wfile.write(response.body)

        do_POST = do_GET

        def log_message(self, *words: object) -> None:
            return None

    return Handler


def test_official_tasks_on_official_sites(tmp_path: Path) -> None:
    """The built-in tasks as a file, and their sites behind HTTP."""
    chosen = [task(name).index for name in ("price", "comment", "show and tell", "answer in the tracker")]
    path = tmp_path / "test.json"
    path.write_text(json.dumps([tasks.entry(index) for index in chosen]))

    async def play(sites: dict[str, str]) -> list[float]:
        env, rewards = WebArena(tasks=str(path), sites=sites), []
        for index in chosen:
            plan = WebArena().oracle(Task("webarena", index))
            for name, site in SITES.items():
                plan = [action.replace(site.url, sites[name]) for action in plan]
            rewards.append((await walk(env, Task("webarena", index), follow(plan))).reward)
        away = await walk(env, Task("webarena", chosen[0]), follow(["goto http://shop.test/", "stop [no]"]))
        assert away.steps[0].info["invalid"] and away.reward == 0
        await env.close()
        return rewards

    with served({"shopping": "mia", "reddit": "mia", "gitlab": "mia"}) as sites:
        assert asyncio.run(play(sites)) == [1.0] * len(chosen)


def test_pages_reach_further_hosts_where_they_are_given(tmp_path: Path) -> None:
    path, price = tmp_path / "test.json", task("price")
    path.write_text(json.dumps([tasks.entry(price.index)]))
    script = "url => fetch(url, {mode: 'no-cors'}).then(() => 'here', () => 'refused')"

    async def reach(**options: str) -> tuple[str, bool]:
        env = WebArena(tasks=str(path), sites={"shopping": sites["shopping"]}, **options)
        try:
            await env.reset(price)
            assert env.session is not None
            text = str(await CHROMIUM.call(env.session.evaluate(script, sites["reddit"])))
            return text, bool((await env.step(f"goto {sites['reddit']}")).info["invalid"])
        finally:
            await env.close()

    with served({"shopping": "mia", "reddit": "mia"}) as sites:
        assert asyncio.run(reach()) == ("refused", True)
        assert asyncio.run(reach(hosts=sites["reddit"].removeprefix("http://"))) == ("here", False)


def test_a_site_that_is_down_is_no_score(tmp_path: Path) -> None:
    path = tmp_path / "test.json"
    path.write_text(json.dumps([tasks.entry(0)]))

    async def play() -> None:
        env = WebArena(tasks=str(path), sites="shopping=http://127.0.0.1:9")
        with pytest.raises(EnvUnavailable):
            await env.reset(Task("webarena", 0))
        await env.close()

    asyncio.run(play())


def test_a_site_that_goes_down_is_no_score(tmp_path: Path) -> None:
    path, (number,) = tmp_path / "test.json", [task("price").index]
    path.write_text(json.dumps([tasks.entry(number)]))

    async def play() -> None:
        with served({"shopping": "mia"}) as sites:
            env = WebArena(tasks=str(path), sites={"shopping": sites["shopping"]})
            await env.reset(Task("webarena", number))
        with pytest.raises(EnvUnavailable, match="cannot be reached"):
            await env.step("click [4]")
        with pytest.raises(ProtocolError):
            await env.step("stop [1]")
        await env.close()

    asyncio.run(play())


def test_served_to_agentgyms_client(env: WebArena) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("aiohttp")
    from upstream import ours

    from agentgym_rl.envs.hosts import HostSettings
    from agentgym_rl.envs.hosts.remote import RemoteEnv

    async def play(address: str) -> tuple[str, float, list[bool]]:
        remote = RemoteEnv("webarena", HostSettings.of({"kind": "remote", "address": address}))
        trail = await walk(remote, task("price"), follow(env.oracle(task("price"))))
        await remote.close()
        return trail.first.text, trail.reward, [step.terminated for step in trail.steps]

    with ours(webarena={}) as address:
        first, reward, ends = asyncio.run(play(address))
    assert first == asyncio.run(env.reset(task("price"))).text
    assert reward == 1 and ends == [False, False, True]


def test_contexts_are_given_back() -> None:
    async def play() -> int:
        env = WebArena()
        for _ in range(2):
            await env.reset(task("votes"))
        held = CHROMIUM._leases
        await env.close()
        return held - CHROMIUM._leases

    assert asyncio.run(play()) == 1
