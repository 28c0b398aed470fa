"""The browser of a process: one Chromium, whose contexts are leased.

It lives in a thread with an event loop of its own, so sessions of any event loop, and blocking callers, share it. It
starts with the first lease and is closed when none has been held for a while. A browser that has died or no longer
answers is given up, and the next lease starts another one.
"""

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from playwright.async_api import Browser, BrowserContext, Error, Playwright, ProxySettings, async_playwright

from agentgym_rl.envs.core import EnvTimeout, EnvUnavailable, MissingExtra

T = TypeVar("T")

PROGRAMS = (
    *("chromium-headless-shell", "chromium", "chromium-browser"),
    *("google-chrome", "google-chrome-stable", "chrome"),
)
"""Names under which distributions install it, the lightest first: the shell without a window takes less than half of
the time and of the memory."""

FLAGS = (
    "--disable-gpu",
    # Playwright's features, and a document that replaces another one of its site is shown in the same frame.
    "--enable-features=CDPScreenshotNewSurface,RenderDocument:level/crashed-frame",
    "--disable-smooth-scrolling",  # a page that still scrolls looks settled
    "--force-webrtc-ip-handling-policy",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",  # WebRTC would go round the proxy that refuses hosts
)
WITHOUT = ("--disable-popup-blocking",)
"""Flags of Playwright that are left out: a page opens windows only when it is acted upon."""

NOWHERE = "http://127.0.0.1:9"
"""The proxy of all hosts that are not allowed. Nothing listens there; unlike a filter of requests, it also stops
redirects and web sockets."""

CLOSE_S = 30.0
"""Most seconds until a context, or the browser, has closed; a page may take as long for an answer. A browser that does
not close a context is given up with all others."""


class BrowserMissing(MissingExtra):
    """There is no Chromium; the message says how to install it."""


class Chromium:
    """The browser.

    Args:
        contexts: most leases; further ones wait.
        patience: most seconds that a lease waits.
        linger: seconds without a lease until the browser is closed.
    """

    def __init__(self, contexts: int = 64, patience: float = 60.0, linger: float = 60.0) -> None:
        self._contexts, self._patience, self._linger = contexts, patience, linger
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Start anew: after a fork the browser and the thread belong to the parent."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._leases = 0
        self._starting = asyncio.Lock()
        self._free = asyncio.Semaphore(self._contexts)
        self._end: asyncio.TimerHandle | None = None

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine returns that runs in the browser's thread."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running_loop()))

    def call_blocking(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for callers that may block."""
        return asyncio.run_coroutine_threadsafe(work, self._running_loop()).result()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="browser", daemon=True).start()
            return self._loop

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        """Around the opening of a context: one of the leases, kept unless opening fails."""
        try:
            async with asyncio.timeout(self._patience):
                await self._free.acquire()
        except TimeoutError as error:
            raise EnvUnavailable(
                f"all {self._contexts} contexts of this process's browser are in use; close sessions, or use more "
                "processes"
            ) from error
        self._leases += 1
        if self._end is not None:
            self._end.cancel()
        try:
            yield
        except BaseException:  # also a cancelled caller
            self._released()
            raise

    async def lease(self, hosts: tuple[str, ...] = (), **options: Any) -> BrowserContext:
        """A new context, isolated from all others, until :meth:`give_back`; called in the browser's thread.

        Args:
            hosts: ``host`` or ``host:port`` that its pages may reach; all others are refused.
            options: Playwright's, see ``Browser.new_context``.

        Raises:
            BrowserMissing: there is no Chromium.
            EnvUnavailable: it does not start, or all contexts are in use.
        """
        proxy = ProxySettings(server=NOWHERE, bypass=",".join(hosts))
        async with self._counted():
            for last in (False, True):
                try:
                    async with self._starting, asyncio.timeout(self._patience):
                        browser = await self._running()
                        return await browser.new_context(
                            proxy=proxy, accept_downloads=False, service_workers="block", **options
                        )
                except (Error, TimeoutError) as error:  # it died since, or hangs
                    await self.give_up()
                    if last:
                        raise EnvUnavailable(f"Chromium opens no context: {_first_line(error)}") from error
        raise AssertionError("unreachable")

    async def give_back(self, context: BrowserContext) -> None:
        """End a lease: close the context with all that it holds."""
        try:
            if not await _within(CLOSE_S, context.close()):
                await self.give_up()
        finally:
            self._released()

    async def give_up(self) -> None:
        """Close the browser with all contexts; the next lease starts another one."""
        browser, playwright = self._browser, self._playwright
        self._browser = self._playwright = None
        if browser is not None:
            await _within(CLOSE_S, browser.close())
        if playwright is not None:
            await _within(CLOSE_S, playwright.stop())  # the browser's processes end with the driver's

    def _released(self) -> None:
        self._leases -= 1
        self._free.release()
        if not self._leases:
            loop = asyncio.get_running_loop()
            self._end = loop.call_later(self._linger, lambda: loop.create_task(self._close_idle()))

    async def _close_idle(self) -> None:
        if not self._leases:
            await self.give_up()

    async def _running(self) -> Browser:
        if self._browser is None or not self._browser.is_connected():
            await self.give_up()
            self._playwright = await _driver()
            self._browser = await _launch(self._playwright)
        return self._browser


async def _within(seconds: float, closing: Awaitable[None]) -> bool:
    """Whether something has closed in time; it has, too, if it had died before."""
    try:
        async with asyncio.timeout(seconds):
            await closing
    except TimeoutError:
        return False
    except Error:
        pass
    return True


def program() -> str | None:
    """Path of the first of :data:`PROGRAMS` that is on the PATH; none is Playwright's own."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


async def _driver() -> Playwright:
    """Playwright's process, started. Where nobody waits for it any more, it is stopped when it has started."""
    starting = asyncio.ensure_future(async_playwright().start())
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(lambda late: late.exception() or asyncio.ensure_future(late.result().stop()))
        raise


async def _launch(playwright: Playwright) -> Browser:
    path = program()
    try:
        return await playwright.chromium.launch(
            executable_path=path,
            args=list(FLAGS),
            ignore_default_args=list(WITHOUT),
            chromium_sandbox=not _is_root(),  # it refuses to start with its sandbox as root
        )
    except Error as error:
        if path is None and "Executable doesn't exist" in str(error):
            raise BrowserMissing(
                f"there is no Chromium: none of {', '.join(PROGRAMS)} is on the PATH; install it with: apt-get install "
                "chromium-headless-shell (or chromium), or: playwright install chromium"
            ) from error
        raise EnvUnavailable(f"{path or 'Chromium'} does not start: {_first_line(error)}") from error


@contextmanager
def typed_errors(what: str) -> Iterator[None]:
    """Around calls of Playwright: a browser or page that has ended or hangs is a failure of the infrastructure.

    Raises:
        EnvUnavailable: it has ended.
        EnvTimeout: it does not answer in time.
    """
    try:
        yield
    except TimeoutError as error:
        raise EnvTimeout(f"{what}: the page does not answer") from error
    except Error as error:
        raise EnvUnavailable(f"{what}: {_first_line(error)}") from error


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0  # Windows has no such number


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


CHROMIUM = Chromium()
"""That of this process."""
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=CHROMIUM.forget)
