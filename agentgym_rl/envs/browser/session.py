"""A context of the browser: what is done in its tabs, and what is seen."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from playwright.async_api import BrowserContext, Error

from agentgym_rl.envs.browser.actions import Actions
from agentgym_rl.envs.browser.chromium import CHROMIUM, Chromium, typed_errors
from agentgym_rl.envs.browser.commands import Command
from agentgym_rl.envs.browser.settings import Settings
from agentgym_rl.envs.browser.tabs import Tabs
from agentgym_rl.envs.browser.tree import STYLES, Element, elements, layout
from agentgym_rl.envs.core import EnvError

T = TypeVar("T")

QUALITY = 50
"""Quality of screenshots, from 0 to 100: at this one text is sharp, and a page takes some 20 kB."""
_OPTIONS = {"option", "MenuListOption"}


@dataclass(frozen=True, slots=True)
class View:
    """What a session shows."""

    tabs: tuple[str, ...]
    """Titles."""
    current: int
    url: str
    elements: tuple[Element, ...]
    dialogs: tuple[str, ...] = ()
    """What dialogs said since the last view."""

    @property
    def text(self) -> str:
        """WebArena's observation: the line of the tabs, an empty line, the tree."""
        marks = (
            f"Tab {number}{' (current)' if number == self.current else ''}: {title}"
            for number, title in enumerate(self.tabs)
        )
        lines = [" | ".join(marks), *self.dialogs, "", *map(str, self.elements)]
        return "\n".join(lines)


class Session:
    """A leased context, used in the browser's thread. One call at a time.

    Every call but :meth:`close` raises EnvUnavailable or EnvTimeout where the page or the browser has ended, or hangs.
    The session is dead then: each further call raises the error, too.
    """

    def __init__(self, browser: Chromium, context: BrowserContext, settings: Settings) -> None:
        self._browser, self._context, self._settings = browser, context, settings
        self._tabs = Tabs(context, settings)
        self._actions = Actions(self._tabs, settings)
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
            await session._guarded("opening a tab", session._tabs.open)
        except BaseException:  # also a cancelled caller
            await session.close()
            raise
        return session

    @property
    def dead(self) -> bool:
        """Whether it can only be closed."""
        return self._tabs.fault is not None or self._closed

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the viewport in pixels."""
        return self._settings.width, self._settings.height

    @property
    def url(self) -> str:
        """The address of the current tab."""
        return self._tabs.current.url

    async def close(self) -> None:
        """Close the context with all its tabs. May be called twice."""
        if not self._closed:
            self._closed = True
            await self._browser.give_back(self._context)

    async def goto(self, url: str) -> None:
        """Open an address in the current tab, which is then the only one; what fails to load shows as the browser's
        own page of the fault."""

        async def go() -> None:
            for page in self._tabs.pages:
                if page is not self._tabs.current:
                    await page.close()
            await self._tabs.current.goto(url)
            if not self._settings.settle:
                await self._tabs.settle()

        await self._guarded(url, go)

    async def perform(self, command: Command) -> Any:
        """Carry out a command, and wait until the page has settled; the value of the settings' script for that.

        Raises:
            Refused: it cannot be carried out, for a reason that the agent can mend.
        """

        async def act() -> Any:
            await self._actions.perform(command)
            return await self._tabs.settle()

        return await self._guarded(command.name, act)

    async def view(self) -> View:
        """What is seen now."""
        return await self._guarded("reading the page", self._look)

    async def evaluate(self, script: str, argument: Any = None) -> Any:
        """The JSON value of JavaScript in the current tab."""
        return await self._guarded("evaluating", lambda: self._tabs.current.evaluate(script, argument))

    async def nodes(self, expression: str) -> list[int]:
        """The ``backendNodeId`` of the node that JavaScript gives, and of all within it, in the order of the page."""

        async def ask() -> list[int]:
            connection = await self._tabs.connection()
            evaluated = await connection.send("Runtime.evaluate", {"expression": expression})
            request = {"objectId": evaluated["result"]["objectId"], "depth": -1}
            return list(_within((await connection.send("DOM.describeNode", request))["node"]))

        return await self._guarded("asking for nodes", ask)

    async def screenshot(self) -> bytes:
        """The viewport of the current tab as WebP."""

        async def shoot() -> bytes:
            request = {"format": "webp", "quality": QUALITY}
            return b64decode((await (await self._tabs.connection()).send("Page.captureScreenshot", request))["data"])

        return await self._guarded("a screenshot", shoot)

    async def _guarded(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        if self._tabs.fault is not None:
            raise self._tabs.fault
        try:
            with typed_errors(what):
                async with asyncio.timeout(self._settings.patience):
                    return await work()
        except EnvError as error:
            self._tabs.fault = self._tabs.fault or error
            raise self._tabs.fault from error

    async def _look(self) -> View:
        """What is seen now; if the page goes on to another one meanwhile, what is seen there."""
        asked_for = self._tabs.asked_for
        try:
            view = await self._read()
        except Error:
            if asked_for == self._tabs.asked_for:
                raise
        else:
            if asked_for == self._tabs.asked_for:
                return view
        await self._tabs.settle()
        return await self._read()

    async def _read(self) -> View:
        page = self._tabs.current
        connection = await self._tabs.connection()
        styles = list(STYLES) if self._settings.figures else []
        tree, snapshot, *titles = await asyncio.gather(
            connection.send("Accessibility.getFullAXTree"),
            connection.send("DOMSnapshot.captureSnapshot", {"computedStyles": styles}),
            *(tab.title() for tab in self._tabs.pages if tab is not page),
        )
        size = None if self._settings.whole_page else (self._settings.width, self._settings.height)
        listed = elements(tree["nodes"], self._tabs.numbers[page], layout(snapshot, size), self._settings.figures)
        self._actions.options = frozenset(element.node for element in listed if element.role in _OPTIONS)
        current = self._tabs.pages.index(page)
        title = snapshot["documents"][0]["title"]
        titles.insert(current, snapshot["strings"][title] if title >= 0 else "")
        dialogs, self._tabs.dialogs = tuple(self._tabs.dialogs), []
        return View(tuple(titles), current, page.url, tuple(listed), dialogs)


def _within(node: Mapping[str, Any]) -> Iterator[int]:
    yield node["backendNodeId"]
    for child in node.get("children", ()):
        yield from _within(child)
