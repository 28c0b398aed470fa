"""A context of the browser: its tabs, what is done in them, and what is seen."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, CDPSession, Dialog, Error, Frame, Page, Request, Route

from agentgym_rl.envs.bounds import cut
from agentgym_rl.envs.browser.assets import Asked, Asset
from agentgym_rl.envs.browser.chromium import CHROMIUM, Chromium, typed_errors
from agentgym_rl.envs.browser.commands import Command, Refused
from agentgym_rl.envs.browser.tree import STYLES, Element, Numbers, elements, layout
from agentgym_rl.envs.core import EnvError, EnvFault, EnvUnavailable

T = TypeVar("T")

LONGEST_KEYS = 200
"""Characters of a text that is typed key by key; a longer one is inserted at once."""
QUALITY = 50
"""Quality of screenshots, from 0 to 100: at this one text is sharp, and a page takes some 20 kB."""
SAID = 200
"""Characters of a dialog's text that are shown."""

_KEYS = {
    **{"ctrl": "Control", "control": "Control", "cmd": "Meta", "command": "Meta", "meta": "Meta", "option": "Alt"},
    **{"alt": "Alt", "shift": "Shift", "esc": "Escape", "escape": "Escape", "enter": "Enter", "return": "Enter"},
    **{"tab": "Tab", "space": "Space", "backspace": "Backspace", "delete": "Delete", "del": "Delete", "home": "Home"},
    **{"end": "End", "pageup": "PageUp", "pagedown": "PageDown"},
    **{f"{before}{way.lower()}": f"Arrow{way}" for way in ("Up", "Down", "Left", "Right") for before in ("", "arrow")},
}
"""Names of keys that agents write, and the browser's."""

_DOWN = tuple(f"net::ERR_{fault}" for fault in ("CONNECTION_", "EMPTY_RESPONSE", "TIMED_OUT", "NAME_", "ADDRESS_"))
"""How the browser begins to say that a host cannot be reached."""
_OPTIONS = {"option", "MenuListOption"}
_QUIET = """quiet => new Promise(done => {
    let timer
    const seen = new MutationObserver(wait)
    function wait() {
        clearTimeout(timer)
        timer = setTimeout(() => { seen.disconnect(); done() }, quiet)
    }
    seen.observe(document, {subtree: true, childList: true, attributes: true, characterData: true})
    wait()
})"""
_WINDOWS = """(() => {
    const open = window.open
    window.open = (...given) => navigator.userActivation.isActive ? open.apply(window, given) : null
})()"""
"""Lets a page open windows only while it is acted upon, as Chromium does, but not its shell."""
_CHOOSE = """function(wanted) {
    const list = this instanceof HTMLOptionElement ? this.closest('select') : this
    if (!(list instanceof HTMLSelectElement)) return false
    const plain = text => text.replace(/\\s+/g, ' ').trim()
    const option = this === list
        ? [...list.options].find(one => plain(one.text) === plain(wanted) || one.value === wanted) : this
    if (!option || option.disabled || list.disabled) return false
    list.focus()
    if (list.multiple) option.selected = this === list || !option.selected
    else list.value = option.value, option.selected = true
    list.dispatchEvent(new Event('input', {bubbles: true}))
    list.dispatchEvent(new Event('change', {bubbles: true}))
    return true
}"""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a context is made and used."""

    hosts: tuple[str, ...] = ()
    """``host`` or ``host:port`` that may be opened; pages reach them unless there is ``serve``. All others are
    refused. A session is over when one of them cannot be reached."""
    serve: Callable[[Asked], Asset | None] | None = None
    """Answers every request, without any network; None refuses it. Chromium asks nobody after a redirect by status: to
    redirect, send the header ``Refresh``."""
    script: str = ""
    """Runs in every document before its own."""
    settle: str = ""
    """JavaScript that runs after an action, in place of waiting until the page is quiet."""
    width: int = 1280
    height: int = 720
    """Pixels of the viewport."""
    whole: bool = False
    """Whether all of the page is listed, not only what the viewport shows."""
    figures: bool = False
    """Whether shapes and unnamed elements that can be clicked are listed, too."""
    storage: Mapping[str, Any] | None = None
    """Cookies and local storage, Playwright's ``storage_state``: a login."""
    trace: Path | None = None
    """File to which all requests and answers are written as HAR, when the session is closed."""
    tabs: int = 8
    """Most tabs; further ones are closed as they open."""
    quiet_ms: float = 50.0
    """A page has settled when it has loaded and nothing in it has changed for so long."""
    settle_s: float = 5.0
    """Most seconds of waiting for that; the page is then shown as it is."""
    patience: float = 30.0
    """Seconds without an answer after which a page counts as hung."""


@dataclass(frozen=True, slots=True)
class View:
    """What a session shows."""

    tabs: tuple[str, ...]
    """Titles."""
    current: int
    url: str
    elements: tuple[Element, ...]
    said: tuple[str, ...] = ()
    """What dialogs said since the last view."""

    @property
    def text(self) -> str:
        """WebArena's observation: the line of the tabs, an empty line, the tree."""
        marks = (
            f"Tab {number}{' (current)' if number == self.current else ''}: {title}"
            for number, title in enumerate(self.tabs)
        )
        lines = [" | ".join(marks), *self.said, "", *map(str, self.elements)]
        return "\n".join(lines)


class Session:
    """A leased context, used in the browser's thread. One call at a time.

    After an EnvError the session is dead: each further call but :meth:`close` raises it, too.
    """

    def __init__(self, browser: Chromium, context: BrowserContext, settings: Settings) -> None:
        self._browser, self._context, self._settings = browser, context, settings
        self._current: Page
        self._connections: dict[Page, CDPSession] = {}
        self._numbers: dict[Page, Numbers] = {}
        self._loading: dict[Request, Frame | None] = {}
        """Requests of whole documents that are not shown yet, and the frames that are to show them; None is a window
        that is only opening."""
        self._asked_for = 0
        """Number of documents that were requested."""
        self._options: frozenset[int] = frozenset()
        """Nodes of the last view that may be options of a list."""
        self._said: list[str] = []
        self._fault: EnvError | None = None
        self._closed = False

    @classmethod
    async def open(cls, settings: Settings, browser: Chromium = CHROMIUM) -> Session:
        """Lease a context and open a tab in it.

        Raises:
            BrowserMissing: there is no Chromium.
            EnvUnavailable, EnvTimeout: it does not start, or all contexts are in use.
        """
        context = await browser.lease(
            settings.hosts if settings.serve is None else (),
            viewport={"width": settings.width, "height": settings.height},
            storage_state=settings.storage,
            locale="en-US",
            timezone_id="UTC",
            record_har_path=settings.trace,
        )
        session = cls(browser, context, settings)
        try:
            await session._guarded("opening a tab", session._prepare)
        except BaseException:
            await session.close()
            raise
        return session

    @property
    def dead(self) -> bool:
        """Whether it can only be closed."""
        return self._fault is not None or self._closed

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the viewport in pixels."""
        return self._settings.width, self._settings.height

    @property
    def url(self) -> str:
        """The address of the current tab."""
        return self._current.url

    async def close(self) -> None:
        """Close the context with all its tabs. May be called twice."""
        if not self._closed:
            self._closed = True
            await self._browser.give_back(self._context)

    async def goto(self, url: str) -> None:
        """Open an address in the current tab, which is then the only one; what fails to load shows as the browser's
        own page of the fault.

        Raises:
            EnvUnavailable, EnvTimeout: the page or the browser has ended, or hangs.
        """

        async def go() -> None:
            for page in self._context.pages:
                if page is not self._current:
                    await page.close()
            await self._current.goto(url)
            if not self._settings.settle:
                await self._settle()

        await self._guarded(url, go)

    async def perform(self, command: Command) -> Any:
        """Carry out a command, and wait until the page has settled; the value of the settings' script for that.

        Raises:
            Refused: it cannot be carried out, for a reason that the agent can mend.
            EnvUnavailable, EnvTimeout: the page or the browser has ended, or hangs.
        """

        async def act() -> Any:
            await self._acts()[command.name](*command.arguments)
            return await self._settle()

        return await self._guarded(command.name, act)

    async def view(self) -> View:
        """What is seen now.

        Raises:
            EnvUnavailable, EnvTimeout: the page or the browser has ended, or hangs.
        """
        return await self._guarded("reading the page", self._look)

    async def evaluate(self, script: str, argument: Any = None) -> Any:
        """The JSON value of JavaScript in the current tab.

        Raises:
            EnvUnavailable, EnvTimeout: the page or the browser has ended, or hangs.
        """
        return await self._guarded("evaluating", lambda: self._current.evaluate(script, argument))

    async def nodes(self, expression: str) -> list[int]:
        """The ``backendNodeId`` of the node that JavaScript gives, and of all within it, in the order of the page.

        Raises:
            EnvUnavailable, EnvTimeout: the page or the browser has ended, or hangs.
        """

        async def ask() -> list[int]:
            connection = await self._connection()
            found = await connection.send("Runtime.evaluate", {"expression": expression})
            request = {"objectId": found["result"]["objectId"], "depth": -1}
            return list(_within((await connection.send("DOM.describeNode", request))["node"]))

        return await self._guarded("asking for nodes", ask)

    async def screenshot(self) -> bytes:
        """The viewport of the current tab as WebP.

        Raises:
            EnvUnavailable, EnvTimeout: the page or the browser has ended, or hangs.
        """

        async def shoot() -> bytes:
            request = {"format": "webp", "quality": QUALITY}
            return b64decode((await (await self._connection()).send("Page.captureScreenshot", request))["data"])

        return await self._guarded("a screenshot", shoot)

    async def _guarded(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        if self._fault is not None:
            raise self._fault
        try:
            with typed_errors(what):
                async with asyncio.timeout(self._settings.patience):
                    return await work()
        except EnvError as error:
            self._fault = self._fault or error
            raise self._fault from error

    async def _prepare(self) -> None:
        context, settings = self._context, self._settings
        context.set_default_timeout(0)  # `_guarded` bounds all calls
        context.on("page", self._opened)
        context.on("request", self._asked)
        context.on("requestfinished", self._answered)
        context.on("requestfailed", self._failed)
        context.on("dialog", self._answer)
        if settings.serve is not None:
            await context.route("**/*", self._serve)
        await context.add_init_script(_WINDOWS)
        if settings.script:
            await context.add_init_script(settings.script)
        self._current = await context.new_page()

    def _opened(self, page: Page) -> None:
        if len(self._context.pages) > self._settings.tabs:
            page.once("domcontentloaded", _close)
            return
        self._renumber(page)
        page.on("domcontentloaded", self._renumber)
        page.on("framenavigated", self._arrived)
        page.on("crash", self._died)
        page.on("close", self._left)
        self._current = page

    def _renumber(self, page: Page) -> None:
        self._numbers[page] = Numbers()

    def _asked(self, request: Request) -> None:
        if request.is_navigation_request():
            self._asked_for += 1
            self._loading[request] = None
            with suppress(Error):
                self._loading[request] = request.frame

    def _answered(self, request: Request) -> None:
        if self._loading.get(request) is None:
            self._loading.pop(request, None)

    def _failed(self, request: Request) -> None:
        self._loading.pop(request, None)
        if request.is_navigation_request() and (request.failure or "").startswith(_DOWN):
            parts = urlsplit(request.url)
            names = {parts.netloc, f"{parts.netloc}:{443 if parts.scheme == 'https' else 80}"}
            if names & set(self._settings.hosts):  # not any port of a host: the agent may try them
                fault = f"{cut(request.url, SAID)} cannot be reached: {request.failure}"
                self._fault = self._fault or EnvUnavailable(fault)

    def _arrived(self, frame: Frame) -> None:
        self._loading = {request: other for request, other in self._loading.items() if other is not frame}

    def _died(self, page: Page) -> None:
        self._fault = self._fault or EnvUnavailable(f"the page at {cut(page.url, SAID)} crashed")

    def _left(self, page: Page) -> None:
        self._connections.pop(page, None)
        self._numbers.pop(page, None)
        if page is self._current and self._context.pages:
            self._current = self._context.pages[-1]

    async def _answer(self, dialog: Dialog) -> None:
        self._said.append(f"{dialog.type}: {cut(dialog.message, SAID)}")
        del self._said[:-3]
        with suppress(Error):  # its page has closed
            await (dialog.accept() if dialog.type in ("alert", "beforeunload") else dialog.dismiss())

    async def _serve(self, route: Route) -> None:
        assert self._settings.serve is not None
        request, asset = route.request, None
        try:
            asset = self._settings.serve(Asked(request.method, request.url, request.post_data_buffer or b""))
        except Exception as error:  # a bug, which the episode must not outlive
            self._fault = self._fault or EnvFault(f"{request.method} {cut(request.url, SAID)}: {error!r}")
        with suppress(Error):  # its page has closed
            if asset is None:
                await route.abort("blockedbyclient")
            else:
                await route.fulfill(
                    status=asset.status,
                    headers={"Content-Type": asset.content_type, **asset.headers},
                    body=asset.body,
                )

    async def _settle(self) -> Any:
        """Wait until the page has loaded and is quiet, at most for a while; or run the script of the settings."""
        if self._settings.settle:
            return await self._current.evaluate(self._settings.settle)
        try:
            async with asyncio.timeout(self._settings.settle_s):
                await self._quiet()
        except TimeoutError:
            self._loading.clear()  # what has not come by now is not waited for again
            await self._unless_gone(lambda page: page.evaluate("0"))  # it is busy, not hung
        return None

    async def _unless_gone(self, ask: Callable[[Page], Awaitable[Any]]) -> bool:
        """Ask something of the current page; False where it went on to another one, or its tab was closed."""
        try:
            await ask(self._current)
        except Error:
            if self._fault is not None or not self._context.pages:
                raise
            return False
        return True

    async def _quiet(self) -> None:
        async def wait(page: Page) -> None:
            await page.wait_for_load_state("load")
            await page.evaluate(_QUIET, self._settings.quiet_ms)

        while True:
            page = self._current
            if await self._unless_gone(wait) and page is self._current and not self._loading:
                return
            await asyncio.sleep(0)

    async def _look(self) -> View:
        """What is seen now; if the page goes on to another one meanwhile, what is seen there."""
        asked_for = self._asked_for
        try:
            view = await self._read()
        except Error:
            if asked_for == self._asked_for:
                raise
        else:
            if asked_for == self._asked_for:
                return view
        await self._settle()
        return await self._read()

    async def _read(self) -> View:
        page = self._current
        connection = await self._connection()
        styles = list(STYLES) if self._settings.figures else []
        tree, snapshot, *titles = await asyncio.gather(
            connection.send("Accessibility.getFullAXTree"),
            connection.send("DOMSnapshot.captureSnapshot", {"computedStyles": styles}),
            *(one.title() for one in self._context.pages if one is not page),
        )
        size = None if self._settings.whole else (self._settings.width, self._settings.height)
        found = elements(tree["nodes"], self._numbers[page], layout(snapshot, size), self._settings.figures)
        self._options = frozenset(element.node for element in found if element.role in _OPTIONS)
        current = self._context.pages.index(page)
        title = snapshot["documents"][0]["title"]
        titles.insert(current, snapshot["strings"][title] if title >= 0 else "")
        said, self._said = tuple(self._said), []
        return View(tuple(titles), current, page.url, tuple(found), said)

    async def _connection(self) -> CDPSession:
        page = self._current
        if page not in self._connections:
            self._connections[page] = await self._context.new_cdp_session(page)
        return self._connections[page]

    def _acts(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        return {
            "click": self._click,
            "dblclick": lambda id: self._click(id, clicks=2),
            "hover": self._hover,
            "type": self._type,
            "fill": self._fill,
            "select": self._select,
            "drag": self._drag,
            "mouse_click": lambda x, y: self._current.mouse.click(float(x), float(y)),
            "mouse_drag": self._mouse_drag,
            "press": self._press,
            "scroll": self._scroll,
            "wait": self._wait,
            "tab_focus": self._focus,
            "new_tab": self._context.new_page,
            "close_tab": self._close_tab,
            "goto": self._go,
            "go_back": lambda: self._current.go_back(wait_until="commit"),
            "go_forward": lambda: self._current.go_forward(wait_until="commit"),
        }

    async def _click(self, id: str, clicks: int = 1) -> None:
        if clicks == 1 and self._node(id) in self._options and await self._call(id, _CHOOSE, ""):
            return  # an option of a list, which has no place on the page
        await self._current.mouse.click(*await self._point(id), click_count=clicks)

    async def _hover(self, id: str) -> None:
        await self._current.mouse.move(*await self._point(id))

    async def _type(self, id: str, text: str, enter: str) -> None:
        await self._click(id)
        await self._write(text)
        if enter != "0":
            await self._current.keyboard.press("Enter")

    async def _fill(self, id: str, text: str) -> None:
        await self._click(id)
        await self._current.keyboard.press("Control+a")
        await self._current.keyboard.press("Delete")
        await self._write(text)

    async def _write(self, text: str) -> None:
        keyboard = self._current.keyboard
        await (keyboard.type(text) if len(text) <= LONGEST_KEYS else keyboard.insert_text(text))

    async def _select(self, id: str, option: str) -> None:
        if not await self._call(id, _CHOOSE, option):
            raise Refused(f"[{id}] is no list with the option {option!r}")

    async def _drag(self, source: str, target: str) -> None:
        start = await self._point(source)
        await self._mouse_drag(*start, *await self._point(target))

    async def _mouse_drag(self, *ends: str | float) -> None:
        from_x, from_y, to_x, to_y = map(float, ends)
        mouse = self._current.mouse
        await mouse.move(from_x, from_y)
        await mouse.down()
        await mouse.move(to_x, to_y, steps=5)
        await mouse.up()

    async def _press(self, keys: str) -> None:
        names = [_KEYS.get(key.strip().lower(), key.strip()) for key in keys.split("+")] if keys != "+" else ["+"]
        try:
            await self._current.keyboard.press("+".join(names))
        except Error as error:
            if "Unknown key" not in str(error):
                raise
            raise Refused(f"there is no key {cut(keys, 40)!r}") from error

    async def _scroll(self, direction: str) -> None:
        step = self._settings.height * 0.8
        await self._current.mouse.wheel(0, step if direction == "down" else -step)

    async def _wait(self) -> None:
        return None

    async def _focus(self, number: str) -> None:
        pages = self._context.pages
        if int(number) >= len(pages):
            raise Refused(f"there is no tab {number}: there are 0 to {len(pages) - 1}")
        self._current = pages[int(number)]
        await self._current.bring_to_front()

    async def _close_tab(self) -> None:
        if len(self._context.pages) == 1:
            await self._context.new_page()
            await self._context.pages[0].close()
        else:
            await self._current.close()

    async def _go(self, url: str) -> None:
        url = url if "://" in url else f"http://{url}"
        try:
            parts = urlsplit(url)
            names = (parts.hostname or "", f"{parts.hostname}:{parts.port or {'http': 80}.get(parts.scheme, 443)}")
        except ValueError as error:
            raise Refused(f"{cut(url, SAID)!r} is no address: {error}") from error
        if parts.scheme not in ("http", "https") or not set(names) & set(self._settings.hosts):
            raise Refused(f"{cut(url, SAID)!r} may not be opened; open only {', '.join(self._settings.hosts)}")
        try:
            await self._current.goto(url, wait_until="commit")
        except Error as error:
            if "net::ERR_" not in str(error):
                raise  # otherwise the browser shows a page of the fault

    def _node(self, id: str) -> int:
        node = self._numbers[self._current].node(int(id))
        if node is None:
            raise Refused(f"there is no element [{id}]")
        return node

    async def _call(self, id: str, function: str, argument: str) -> Any:
        """The value of a function of the element."""
        connection, node = await self._connection(), self._node(id)
        try:
            found = await connection.send("DOM.resolveNode", {"backendNodeId": node})
        except Error as error:
            raise self._gone(id, error) from error
        request = {
            "objectId": found["object"]["objectId"],
            "functionDeclaration": function,
            "arguments": [{"value": argument}],
            "returnByValue": True,
        }
        return (await connection.send("Runtime.callFunctionOn", request))["result"].get("value")

    async def _point(self, id: str) -> tuple[float, float]:
        """The middle of the element's visible part, which is scrolled into view."""
        connection, target = await self._connection(), {"backendNodeId": self._node(id)}
        try:
            answers = await asyncio.gather(  # answered in this order
                connection.send("DOM.scrollIntoViewIfNeeded", target), connection.send("DOM.getContentQuads", target)
            )
        except Error as error:
            raise self._gone(id, error) from error
        for quad in answers[1]["quads"]:
            left, right = max(min(quad[0::2]), 0), min(max(quad[0::2]), self._settings.width)
            top, bottom = max(min(quad[1::2]), 0), min(max(quad[1::2]), self._settings.height)
            if left < right and top < bottom:
                return (left + right) / 2, (top + bottom) / 2
        raise Refused(f"[{id}] is not visible")

    def _gone(self, id: str, error: Error) -> Exception:
        """What a fault about a node means: it has left the page or is hidden, or something has ended."""
        if "Protocol error (DOM." in str(error):
            return Refused(f"[{id}] is not on the page any more, or not visible")
        return error


def _within(node: Mapping[str, Any]) -> Iterator[int]:
    yield node["backendNodeId"]
    for child in node.get("children", ()):
        yield from _within(child)


async def _close(page: Page) -> None:
    with suppress(Error):  # it has closed itself
        await page.close()
