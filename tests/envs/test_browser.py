"""The browser, with pages from loopback. The tests share one Chromium; those that end it have one of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sweep import swept

pytest.importorskip("playwright", reason="the extra miniwob is not installed")

from agentgym_rl.envs.browser.assets import Asked, Asset
from agentgym_rl.envs.browser.chromium import CHROMIUM, BrowserMissing, Chromium
from agentgym_rl.envs.browser.commands import FORMS, Refused, read
from agentgym_rl.envs.browser.session import Session
from agentgym_rl.envs.browser.settings import Settings
from agentgym_rl.envs.core import EnvTimeout, EnvUnavailable

FORM = """<title>Form</title><label>Name <input id=name value=old></label><label>Agree <input type=checkbox></label>
<select><option>one<option>two</select><div id=said></div>
<button onclick="said.textContent = 'hello ' + document.querySelector('#name').value">Greet</button>
<button onclick="setTimeout(() => said.textContent = 'late', 30)">Later</button>
<button onclick="location = '/slow'">Slow</button><button onclick="alert('boo')">Alert</button>
<a href=/second>next</a><a href=/second target=_blank>tab</a><div style="height: 3000px"></div><button>Far</button>
<input id=keys onkeydown="said.textContent = event.key"><p onmouseover="said.textContent = 'over'">Point here</p>"""

EVIL = """<title>Evil</title><button onclick="while (true) {}">Hang</button>
<button onclick="while (true) alert('again')">Alerts</button>
<button onclick="for (let i = 0; i < 50; i++) open('/second')">Windows</button>
<a href=/file download>Download</a><a href=file:///etc/passwd>File</a><a href=/away>Redirect</a>
<a href=data:text/html,hi>Data</a><p id=log></p><script>
open('/second'); const say = text => log.textContent += text + ' '
fetch('OTHER/fetch', {mode: 'no-cors'}).then(() => say('fetched'), () => say('refused'))
new Image().src = 'OTHER/image'; navigator.sendBeacon('OTHER/beacon', 'x')
const socket = new WebSocket('OTHER/socket'.replace('http', 'ws')); socket.onerror = () => say('closed')
navigator.serviceWorker.register('/worker.js')
document.cookie = 'a=b'; localStorage.mark = 'left'
</script>"""

PAGES = {
    "/": FORM,
    "/second": "<title>Second</title><a href=/>back</a>",
    "/slow": "<title>Slow</title>arrived",
    "/evil": EVIL,
    "/worker.js": "",
    "/mark": "<p id=p></p><script>p.textContent = 'mark ' + localStorage.mark + document.cookie</script>",
}


class Site(ThreadingHTTPServer):
    """Pages on loopback, and the paths that were asked for."""

    daemon_threads = True

    def __init__(self, other: Site | None = None) -> None:
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                if self.path == "/slow":
                    time.sleep(0.4)
                self.send_response(302 if self.path == "/away" else 200)
                if self.path == "/away":
                    self.send_header("Location", other.url if other else "/")
                if self.path == "/file":
                    self.send_header("Content-Disposition", "attachment")
                self.send_header("Content-Type", "text/javascript" if self.path.endswith(".js") else "text/html")
                self.end_headers()
                body = PAGES.get(self.path, "nothing").replace("OTHER", other.url if other else "")
                self.wfile.write(body.encode())

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server_port}"
        self.url = f"http://{self.host}"
        Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def other() -> Site:
    """A site that no session may reach."""
    return Site()


@pytest.fixture(scope="module")
def site(chromium: Chromium, other: Site) -> Site:
    return Site(other)


class Play:
    """A session for a test, which blocks."""

    def __init__(self, permitted: Settings, url: str = "", browser: Chromium = CHROMIUM) -> None:
        self.browser = browser
        self.session = self.run(Session.open(permitted, browser))
        if url:
            self.run(self.session.goto(url))
        self.look()

    def run(self, work):
        return self.browser.call_blocking(work)

    def look(self) -> str:
        self.view = self.run(self.session.view())
        return self.view.text

    def do(self, text: str) -> str:
        self.run(self.session.perform(read(text, FORMS)))
        return self.look()

    def id(self, name: str, role: str = "") -> int:
        return next(element.id for element in self.view.elements if name in element.name and role in element.role)

    def click(self, name: str) -> str:
        return self.do(f"click [{self.id(name)}]")

    def __enter__(self) -> Play:
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.session.close())


@pytest.fixture
def form(site: Site) -> Iterator[Play]:
    with Play(Settings(hosts=(site.host,)), site.url) as play:
        yield play


def test_each_command_does_what_it_says(form: Play, site: Site) -> None:
    assert form.look().startswith("Tab 0 (current): Form\n\n[1] RootWebArea 'Form' focused: True\n\t[2] ")
    name = form.id("Name", "textbox")
    assert f"[{name}] textbox 'Name' value: 'old new'" in form.do(f"type [{name}] [ new] [0]")
    assert f"[{name}] textbox 'Name' value: 'Ann'" in form.do(f"fill [{name}] [Ann]")
    assert "'hello Ann'" in form.click("Greet")
    assert "checked: true" in form.click("Agree")
    assert "value: 'two'" in form.do(f"select [{form.id('', 'combobox')}] [two]")
    assert "value: 'one'" in form.do(f"click [{form.id('one', 'option')}]")
    assert "alert: boo" in form.click("Alert") and "boo" not in form.look()
    assert "Far" not in form.look() and "Far" in form.do("press [End]")
    assert "Far" not in form.do("scroll [up]") and "Far" in form.do("scroll [down]")
    assert "'over'" in form.do(f"hover [{form.id('Point here')}]") + form.do("press [ctrl+Home]")


def test_keys_go_to_what_has_the_focus(form: Play) -> None:
    form.do("press [End]")
    keys = [element.id for element in form.view.elements if element.role == "textbox"][-1]
    form.do(f"click [{keys}]")
    for key, name in (("esc", "Escape"), ("pagedown", "PageDown"), ("x", "x"), ("arrowup", "ArrowUp")):
        form.do(f"press [{key}]")
        assert form.run(form.session.evaluate("said.textContent")) == name


def test_an_action_waits_until_the_page_has_settled(form: Play) -> None:
    assert "late" in form.click("Later")
    assert "Tab 0 (current): Slow" in form.click("Slow") and "arrived" in form.look()


def test_tabs_and_history(form: Play, site: Site) -> None:
    assert form.click("tab").startswith("Tab 0: Form | Tab 1 (current): Second")
    assert form.do("tab_focus [0]").startswith("Tab 0 (current): Form | Tab 1: Second")
    assert form.do(f"click [{form.id('next', 'link')}]").startswith("Tab 0 (current): Second")
    assert form.do("go_back").startswith("Tab 0 (current): Form")
    assert form.do("go_forward").startswith("Tab 0 (current): Second")
    assert form.do("close_tab").startswith("Tab 0 (current): Second\n")
    assert form.do("close_tab").startswith("Tab 0 (current): \n")
    assert form.do(f"goto [{site.host}/]").startswith("Tab 0 (current): Form")
    assert form.do("new_tab").startswith("Tab 0: Form | Tab 1 (current): ")
    form.run(form.session.goto(f"{site.url}/second"))
    assert form.look().startswith("Tab 0 (current): Second\n")


def test_tabs_are_bounded(form: Play) -> None:
    for _ in range(7):
        form.do("new_tab")
    with pytest.raises(Refused, match="there are 8 tabs already"):
        form.do("new_tab")
    with pytest.raises(Refused, match="there is no tab 8"):
        form.do("tab_focus [8]")
    form.do("close_tab")
    form.do("new_tab")
    assert len(form.view.tabs) == 8 and "Form" in form.do("tab_focus [0]")


def test_what_cannot_be_done_is_refused(form: Play) -> None:
    for action, fault in {
        "click [999]": "there is no element [999]",
        "press [nokey]": "there is no key 'nokey'",
        "tab_focus [7]": "there is no tab 7: there are 0 to 0",
        "select [2] [x]": "[2] is no list with the option 'x'",
        "goto [file:///etc/passwd]": "may not be opened",
        "goto [http://example.com]": "'http://example.com' may not be opened; open only 127.0.0.1",
        "goto [http://127.0.0.1:1/]": "may not be opened",
        "goto [javascript:alert(1)]": "is no address",
        "goto [data://x]": "may not be opened",
    }.items():
        with pytest.raises(Refused) as raised:
            form.do(action)
        assert fault in str(raised.value)
    assert "Form" in form.look()


def test_a_page_reaches_no_other_host(site: Site, other: Site) -> None:
    with Play(Settings(hosts=(site.host,)), f"{site.url}/evil") as play:
        assert {"refused", "closed"} <= set(play.run(play.session.evaluate("log.textContent")).split())
        assert play.run(play.session.evaluate("navigator.serviceWorker.getRegistrations()")) == []
        play.click("Redirect")
        assert other.url.removeprefix("http://") in play.view.url or "chrome-error" in play.view.url
    assert other.asked == []


def test_windows_downloads_and_files_are_contained(site: Site) -> None:
    with Play(Settings(hosts=(site.host,), tabs=3), f"{site.url}/evil") as play:
        assert len(play.view.tabs) == 1, "a page opens no window by itself"
        for name in ("Download", "File", "Data"):
            play.click(name)
            assert play.view.url == f"{site.url}/evil"
        play.click("Windows")
        assert len(play.view.tabs) <= 3


def test_contexts_are_isolated(site: Site) -> None:
    permitted = Settings(hosts=(site.host,))
    with Play(permitted, f"{site.url}/evil") as evil, Play(permitted, f"{site.url}/mark") as mark:
        assert "mark undefined" in mark.look()
        evil.run(evil.session.goto(f"{site.url}/mark"))
        assert "mark lefta=b" in evil.look()


def test_a_login_is_part_of_the_settings(site: Site) -> None:
    storage = {"cookies": [], "origins": [{"origin": site.url, "localStorage": [{"name": "mark", "value": "known"}]}]}
    with Play(Settings(hosts=(site.host,), storage=storage), f"{site.url}/mark") as play:
        assert "mark known" in play.look()


@pytest.mark.parametrize("name", ["Hang", "Alerts"])
def test_a_hung_page_is_no_answer_and_harms_no_other(site: Site, form: Play, name: str) -> None:
    permitted = Settings(hosts=(site.host,), settle_s=0.5)
    with Play(permitted, f"{site.url}/evil") as play:
        play.session._settings = replace(permitted, patience=2)
        with pytest.raises(EnvTimeout, match="does not answer"):
            play.click(name)
        assert play.session.dead
        assert "hello old" in form.click("Greet")
        with pytest.raises(EnvTimeout):
            play.look()


def test_a_crashed_page_is_unavailable(site: Site, form: Play) -> None:
    with Play(Settings(hosts=(site.host,)), site.url) as play:
        with pytest.raises(EnvUnavailable):
            play.run(play.session.goto("chrome://crash"))
        with pytest.raises(EnvUnavailable):
            play.look()
    assert "hello old" in form.click("Greet")


@pytest.mark.usefixtures("chromium")
def test_a_site_that_goes_down_is_unavailable() -> None:
    site = Site()
    with Play(Settings(hosts=(site.host,)), f"{site.url}/second") as play:
        site.shutdown()
        site.server_close()
        with pytest.raises(EnvUnavailable, match=f"{site.url}/ cannot be reached: net::ERR_CONNECTION_REFUSED"):
            play.click("back")
        assert play.session.dead
    with Play(Settings(hosts=("127.0.0.1",))) as play:
        play.do(f"goto {site.url}/")
        assert play.view.url.startswith("chrome-error:") and not play.session.dead, "any port of a host is no site"


@pytest.mark.usefixtures("chromium")
def test_assets_stand_for_the_network() -> None:
    def serve(request: Asked) -> Asset | None:
        page = Asset(b"<title>Made up</title><img src=/none>", "text/html")
        return page if request.url.endswith(".test/page") else None

    with Play(Settings(serve=serve), "http://made-up.test/page") as play:
        assert play.view.tabs == ("Made up",)
        assert play.run(play.session.screenshot())[8:12] == b"WEBP"


@settings(max_examples=swept(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(action=st.one_of(
    st.sampled_from(["scroll [up]", "go_back", "go_forward", "new_tab", "close_tab", "press [Tab]", "wait"]),
    st.builds("{} [{}]".format, st.sampled_from(["click", "dblclick", "hover", "tab_focus"]), st.integers(0, 20)),
    st.builds("{} [{}] [{}]".format, st.sampled_from(["type", "fill", "select"]), st.integers(0, 20), st.text()),
    st.builds("press [{}]".format, st.text(min_size=1, max_size=4)),
    st.builds("mouse_click [{}] [{}]".format, st.integers(-999, 9999), st.integers(-999, 9999)),
    st.builds("goto [{}]".format, st.text(max_size=12)),
))  # fmt: skip
def test_no_action_breaks_a_session(form: Play, action: str) -> None:
    try:
        form.do(action)
    except Refused:
        form.look()


@pytest.fixture
def mortal() -> Iterator[Chromium]:
    """A browser that a test may end."""
    browser = Chromium(contexts=2, patience=30, linger=0.5)
    yield browser
    browser.call_blocking(browser.give_up())


def processes() -> dict[int, str]:
    """The command lines of the processes that this one has started."""
    command_lines = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended since
            if process.status() != psutil.STATUS_ZOMBIE:
                command_lines[process.pid] = " ".join(process.cmdline())
    return command_lines


def test_a_killed_browser_is_started_again(site: Site, mortal: Chromium) -> None:
    before = processes()
    with Play(Settings(hosts=(site.host,)), site.url, mortal) as play:
        (main,) = (
            pid
            for pid, line in processes().items()
            if pid not in before and "--headless" in line and "--type" not in line and "/bin/sh" not in line
        )
        os.kill(main, signal.SIGKILL)
        with pytest.raises(EnvUnavailable):
            for _ in range(100):
                play.look()
    with Play(Settings(hosts=(site.host,)), site.url, mortal) as play:
        assert "Form" in play.look()
    deadline = time.monotonic() + 20
    while set(processes()) - set(before) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not set(processes()) - set(before), "the browser is closed when nobody needs it"


def test_leases_are_bounded_and_given_back() -> None:
    browser = Chromium(contexts=1, patience=0.2)

    async def lease() -> None:
        with pytest.raises(EnvUnavailable, match="all 1 contexts of this process's browser are in use"):
            async with browser._counted():
                await browser.lease()
        async with browser._counted():
            pass

    asyncio.run(lease())


def test_a_driver_that_starts_too_late_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    running = set()

    class Late:
        async def start(self) -> Late:
            running.add(self)
            await asyncio.sleep(0.3)
            return self

        async def stop(self) -> None:
            running.remove(self)

    monkeypatch.setattr("agentgym_rl.envs.browser.chromium.async_playwright", Late)
    browser = Chromium(patience=0.1)
    with pytest.raises(EnvUnavailable, match="Chromium opens no context"):
        browser.call_blocking(browser.lease())
    assert running
    deadline = time.monotonic() + 20
    while running and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running


def test_a_missing_browser_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", "/nowhere")
    browser = Chromium()
    try:
        with pytest.raises(BrowserMissing, match=r"there is no Chromium: .* install it with: apt-get install chromium"):
            browser.call_blocking(browser.lease())
    finally:
        browser.call_blocking(browser.give_up())
