"""The tabs of a context: which is current, what they load, what their dialogs say, and when they are quiet."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, CDPSession, Dialog, Error, Frame, Page, Request, Route

from agentgym_rl.envs.bounds import cut
from agentgym_rl.envs.browser.assets import Asked
from agentgym_rl.envs.browser.settings import Settings
from agentgym_rl.envs.browser.tree import Numbers
from agentgym_rl.envs.core import EnvError, EnvFault, EnvUnavailable
from agentgym_rl.envs.tables import read_utf8

MAX_SHOWN_CHARACTERS = 200
"""Of a text or an address of the page, in a dialog or an error."""

_DOWN = tuple(f"net::ERR_{fault}" for fault in ("CONNECTION_", "EMPTY_RESPONSE", "TIMED_OUT", "NAME_", "ADDRESS_"))
"""How the browser begins to say that a host cannot be reached."""
_QUIET = read_utf8(Path(__file__).with_name("quiet.js"))
_WINDOWS = """(() => {
    const open = window.open
    window.open = (...given) => navigator.userActivation.isActive ? open.apply(window, given) : null
})()"""
"""Lets a page open windows only while it is acted upon, as Chromium does, but not its shell."""


class Tabs:
    """The tabs of a leased context."""

    def __init__(self, context: BrowserContext, settings: Settings) -> None:
        self._context, self._settings = context, settings
        self.current: Page
        self._connections: dict[Page, CDPSession] = {}
        self.numbers: dict[Page, Numbers] = {}
        self._loading: dict[Request, Frame | None] = {}
        """Requests of whole documents that are not shown yet, and the frames that are to show them; None is a window
        that is only opening."""
        self.asked_for = 0
        """Number of documents that were requested."""
        self.dialogs: list[str] = []
        """What the last dialogs said."""
        self.fault: EnvError | None = None
        """What ended the session."""

    @property
    def pages(self) -> list[Page]:
        """All but those that were one too many, in the order in which they opened."""
        return [page for page in self._context.pages if page in self.numbers]

    async def new(self) -> Page:
        """Open a further one."""
        return await self._context.new_page()

    async def open(self) -> None:
        """Open the first one."""
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
        self.current = await context.new_page()

    def _opened(self, page: Page) -> None:
        if len(self.numbers) >= self._settings.tabs:
            page.once("domcontentloaded", _close)
            return
        self._renumber(page)
        page.on("domcontentloaded", self._renumber)
        page.on("framenavigated", self._arrived)
        page.on("crash", self._died)
        page.on("close", self._left)
        self.current = page

    def _renumber(self, page: Page) -> None:
        self.numbers[page] = Numbers()

    def _asked(self, request: Request) -> None:
        if request.is_navigation_request():
            self.asked_for += 1
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
                fault = f"{cut(request.url, MAX_SHOWN_CHARACTERS)} cannot be reached: {request.failure}"
                self.fault = self.fault or EnvUnavailable(fault)

    def _arrived(self, frame: Frame) -> None:
        self._loading = {request: pending for request, pending in self._loading.items() if pending is not frame}

    def _died(self, page: Page) -> None:
        self.fault = self.fault or EnvUnavailable(f"the page at {cut(page.url, MAX_SHOWN_CHARACTERS)} crashed")

    def _left(self, page: Page) -> None:
        self._connections.pop(page, None)
        self.numbers.pop(page, None)
        if page is self.current and self.pages:
            self.current = self.pages[-1]

    async def _answer(self, dialog: Dialog) -> None:
        self.dialogs.append(f"{dialog.type}: {cut(dialog.message, MAX_SHOWN_CHARACTERS)}")
        del self.dialogs[:-3]
        with suppress(Error):  # its page has closed
            await (dialog.accept() if dialog.type in ("alert", "beforeunload") else dialog.dismiss())

    async def _serve(self, route: Route) -> None:
        assert self._settings.serve is not None
        request, asset = route.request, None
        try:
            asset = self._settings.serve(Asked(request.method, request.url, request.post_data_buffer or b""))
        except Exception as error:  # noqa: BLE001 - a bug, which the episode must not outlive
            self.fault = self.fault or EnvFault(f"{request.method} {cut(request.url, MAX_SHOWN_CHARACTERS)}: {error!r}")
        with suppress(Error):  # its page has closed
            if asset is None:
                await route.abort("blockedbyclient")
            else:
                await route.fulfill(
                    status=asset.status, headers={"Content-Type": asset.content_type, **asset.headers}, body=asset.body
                )

    async def settle(self) -> Any:
        """Wait until the page has loaded and is quiet, at most for a while; or run the script of the settings."""
        if self._settings.settle:
            return await self.current.evaluate(self._settings.settle)
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
            await ask(self.current)
        except Error:
            if self.fault is not None or not self._context.pages:
                raise
            return False
        return True

    async def _quiet(self) -> None:
        async def wait(page: Page) -> None:
            await page.wait_for_load_state("load")
            await page.evaluate(_QUIET, self._settings.quiet_ms)

        while True:
            page = self.current
            if await self._unless_gone(wait) and page is self.current and not self._loading:
                return
            await asyncio.sleep(0)

    async def connection(self) -> CDPSession:
        """To the current one."""
        page = self.current
        if page not in self._connections:
            self._connections[page] = await self._context.new_cdp_session(page)
        return self._connections[page]


async def _close(page: Page) -> None:
    with suppress(Error):  # it has closed itself
        await page.close()
