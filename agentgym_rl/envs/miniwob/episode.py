"""One task of MiniWoB++ in a browser: the package's page, on a clock that its actions move."""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentgym_rl.envs.browser.assets import Asset
from agentgym_rl.envs.browser.commands import Command
from agentgym_rl.envs.browser.session import Session, View
from agentgym_rl.envs.browser.settings import Settings
from agentgym_rl.envs.extras import missing
from agentgym_rl.envs.tables import read_utf8

SITE = "http://miniwob.test"
"""Exists only within the browser: each request is answered with a file of the package."""

SECOND = 1000
"""Milliseconds by which the page's clock moves after each action. They end every animation and delay of the tasks."""

NO_LIMIT = 10**9
"""Milliseconds of a page's time limit that is not reached."""

_START = read_utf8(Path(__file__).with_name("start.js"))
_STATUS = f"""agentgymClock.advance({SECOND}).then(() => (
    {{over: WOB_DONE_GLOBAL, raw: WOB_RAW_REWARD_GLOBAL, decayed: WOB_REWARD_GLOBAL}}
))"""


@dataclass(frozen=True, slots=True)
class Status:
    """What the page says of the episode."""

    over: bool = False
    raw: float = 0.0
    """The reward without decay, -1 to 1; 0 until it is over."""
    decayed: float = 0.0
    """The same, less by the share of the time limit that has passed on the page's clock."""


@cache
def folder() -> Path:
    """The folder of the package's pages. The package is found, not imported: its Python part needs a web driver.

    Raises:
        MissingExtra: the package is not installed.
    """
    package = find_spec("miniwob")
    if package is None or not package.submodule_search_locations:
        raise missing("environment 'miniwob'", "miniwob", "miniwob")
    return Path(package.submodule_search_locations[0], "html").resolve()


@cache
def serve(url: str) -> Asset | None:
    """The file of the package at an address; None where there is none."""
    parts = urlsplit(url)
    if f"{parts.scheme}://{parts.netloc}" != SITE:
        return None
    path = (folder() / unquote(parts.path).lstrip("/")).resolve()
    if not path.is_relative_to(folder()) or not path.is_file():
        return None
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Asset(path.read_bytes(), f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)


SETTINGS = Settings(
    serve=lambda asked: serve(asked.url),
    script=Path(__file__).with_name("clock.js").read_text(encoding="utf-8"),
    settle=_STATUS,
    width=332,
    height=214,
    whole_page=True,
    figures=True,
    tabs=1,
)


class Episode:
    """A session, and the task that is open in it; used in the browser's thread."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @classmethod
    async def open(cls) -> Episode:
        """Lease a context.

        Raises:
            MissingExtra, EnvUnavailable, EnvTimeout: see :meth:`.Session.open` and :func:`folder`.
        """
        folder()
        return cls(await Session.open(SETTINGS))

    async def start(self, name: str, seed: int, mode: str, limited: bool) -> tuple[str, View]:
        """Open a task afresh: what is to be done, and the page.

        Args:
            mode: ``train`` or ``test``; a few tasks draw from other texts or objects in each.
            limited: whether the page's time limit holds.

        Raises:
            EnvUnavailable, EnvTimeout: the page or the browser has ended, or hangs.
        """
        await self.session.goto(f"{SITE}/miniwob/{name}.html")
        limit = 0 if limited else NO_LIMIT
        utterance = await self.session.evaluate(_START, [seed, mode, limit, SECOND])
        return " ".join(str(utterance).split()), await self.session.view()

    async def act(self, command: Command) -> tuple[Status, View]:
        """Carry out a command; a second passes on the page's clock.

        Raises:
            Refused: it cannot be carried out.
            EnvUnavailable, EnvTimeout: the page or the browser has ended, or hangs.
        """
        status = Status(**await self.session.perform(command))
        return status, await self.session.view()
