"""One task of WebArena in a browser."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from agentgym_rl.envs.browser.chromium import CHROMIUM
from agentgym_rl.envs.browser.commands import Command, Refused, read
from agentgym_rl.envs.browser.session import Session, View
from agentgym_rl.envs.browser.settings import Settings
from agentgym_rl.envs.core import OracleUnavailable, in_thread
from agentgym_rl.envs.webarena.config import COMMANDS, Config
from agentgym_rl.envs.webarena.evaluate import Judge, solved
from agentgym_rl.envs.webarena.files import Files
from agentgym_rl.envs.webarena.shop import Shop
from agentgym_rl.envs.webarena.sites.visit import HOSTS, Visit
from agentgym_rl.envs.webarena.tasks import Problem, problem
from agentgym_rl.envs.webarena.verified import Verified

QUIET_MS = 10
"""Of the built-in pages, which have no scripts: they stay as they are when they have loaded."""
MOVES = 100
"""Most times that a page which is told to go on is waited for."""


@dataclass(frozen=True)
class _Recorded:
    """The evaluators of an episode whose requests are recorded, and the folder of the record."""

    evaluators: Verified
    folder: TemporaryDirectory[str]

    @property
    def trace(self) -> Path:
        return Path(self.folder.name, "network.har")


class Episode:
    """A session in which a task is open; used in the browser's thread.

    Args:
        visit: the built-in sites, where the task is on them.
    """

    def __init__(
        self, session: Session, config: Config, visit: Visit | None = None, verified: _Recorded | None = None
    ) -> None:
        self.session, self._config, self._visit, self._verified = session, config, visit, verified

    @classmethod
    async def built_in(cls, problem: Problem) -> Episode:
        """A task on the built-in sites, each of which has its contents afresh.

        Raises:
            BrowserMissing, EnvUnavailable, EnvTimeout: see :meth:`.Session.open`.
        """
        visit = Visit(problem.users)
        settings = Settings(hosts=HOSTS, serve=visit.serve, whole_page=True, quiet_ms=QUIET_MS, settle_s=20)
        session = await Session.open(settings)
        return cls(session, problem.config, visit)

    @classmethod
    async def on_sites(cls, config: Config, files: Files) -> Episode:
        """A task of files, on the user's sites; raises as :meth:`built_in`."""
        recorded = None if files.verified is None else _Recorded(files.verified, TemporaryDirectory("webarena"))
        trace = None if recorded is None else recorded.trace
        session = await Session.open(Settings(hosts=files.hosts, storage=files.storage(config), trace=trace))
        return cls(session, config, verified=recorded)

    async def start(self) -> View:
        """Open the addresses at which the task starts, each in a tab.

        Raises:
            EnvUnavailable, EnvTimeout: a page or the browser has ended, or hangs.
        """
        first, *others = self._config.start_urls
        await self.session.goto(first)
        for url in others:
            await self.session.perform(Command("new_tab", ()))
            await self.session.perform(Command("goto", (url,)))
        if others:
            await self.session.perform(Command("tab_focus", ("0",)))
        return await self.session.view()

    async def act(self, command: Command) -> View:
        """Carry out a command; what is seen then.

        Raises:
            Refused: it cannot be carried out.
            EnvUnavailable, EnvTimeout: the page or the browser has ended, or hangs.
        """
        await self.session.perform(command)
        for _ in range(MOVES):
            if self._visit is None or not self._visit.moving:
                break
            await self.session.perform(Command("wait", ()))
        return await self.session.view()

    async def solved(self, answer: str, judge: Judge | None, shop: Shop | None) -> bool:
        """Whether the task is solved; see :func:`.evaluate.solved` and :meth:`.Verified.solved`. Only :meth:`close` may
        follow."""
        if self._verified is None:
            return await solved(self._config, answer, self.session, judge, shop)
        await self.session.close()  # writes the trace
        return await in_thread(self._verified.evaluators.solved, self._config.number, answer, self._verified.trace)

    async def close(self) -> None:
        """Close the session. May be called twice."""
        await self.session.close()
        if self._verified is not None:
            self._verified.folder.cleanup()


@lru_cache(maxsize=4096)
def solve(index: int) -> tuple[str, ...]:
    """The commands that a built-in task's plan stands for, found by playing; blocks for up to seconds.

    Raises:
        OracleUnavailable: the pages lack an element of the plan.
        BrowserMissing, EnvUnavailable, EnvTimeout: see :class:`Episode`.
    """
    return CHROMIUM.call_blocking(_solve(problem(index)))


async def _solve(task: Problem) -> tuple[str, ...]:
    episode = await Episode.built_in(task)
    try:
        view, commands = await episode.start(), list[str]()
        for name, *words in task.plan:
            if name in ("click", "type"):
                role, label, *words = words
                words.insert(0, _named(view, role, label))
            commands.append(" ".join([name, *(f"[{word}]" for word in words)]))
            if name != "stop":
                view = await episode.act(read(commands[-1], COMMANDS))
        return tuple(commands)
    except Refused as error:
        raise OracleUnavailable(f"task {task.config.number}: {commands[-1]}: {error}") from error
    finally:
        await episode.close()


def _named(view: View, role: str, name: str) -> str:
    """The id of the first element with a role and a name. Raises OracleUnavailable: the page has none."""
    for element in view.elements:
        if element.role == role and element.name == name:
            return str(element.id)
    raise OracleUnavailable(f"there is no {role} {name!r} on {view.url}")
