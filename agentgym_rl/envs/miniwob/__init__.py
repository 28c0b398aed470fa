"""MiniWoB++: a hundred and twenty-five small tasks on web pages, in a real browser, offline."""

import re
from collections.abc import Iterator

from agentgym_rl.envs.actions import parse_rest
from agentgym_rl.envs.bounds import cut
from agentgym_rl.envs.browser.chromium import CHROMIUM
from agentgym_rl.envs.browser.commands import Refused, functions, read
from agentgym_rl.envs.browser.film import Filmed
from agentgym_rl.envs.browser.session import Session, View
from agentgym_rl.envs.core import EnvError, Observation, Step, Style, Task
from agentgym_rl.envs.miniwob import tasks
from agentgym_rl.envs.miniwob.episode import Episode, Status
from agentgym_rl.envs.miniwob.oracle import solve
from agentgym_rl.envs.miniwob.tasks import TEXTS

MAX_PAGE_CHARACTERS = 4_000

_FIELDS = {"textbox", "searchbox", "spinbutton"}


class MiniWoB(Filmed):
    """MiniWoB++ (Shi et al. 2017; Liu et al. 2018, arXiv:1802.08802), with the pages of the package ``miniwob``.

    A page scores itself when its task ends, from -1 to 1; a positive score is the reward, and any other earns nothing.
    As in BrowserGym a positive score is a success, and time costs nothing. ``info`` holds ``invalid`` and
    ``raw_reward``, the score as it is.

    A page's clock moves by one second with each action and stands still in between; the published limit, ten seconds
    for most pages, is lifted unless ``decay`` is set. The browser starts with the first reset or oracle; goals, labels
    and splits need none.

    Args:
        style: wording of instruction and observations.
        pages: names of pages, or patterns such as ``click-*``, separated by commas; all when empty.
        decay: the published reward: less by the share of the page's time limit that has passed, after which the task
            is lost. Each action takes a second of it.

    Raises:
        ValueError: a pattern matches no page.
    """

    name = "miniwob"

    def __init__(self, style: Style = "agentgym", pages: str = "", decay: bool = False) -> None:
        super().__init__(style)
        self._decay = decay
        self._spec = TEXTS.spec(
            self.name, tasks.only(pages), tools=functions(TEXTS.commands), read=parse_rest, raw_reward_range=(-1.0, 1.0)
        )
        self._episode: Episode | None = None
        self._words: tuple[str, ...] = ()
        """What the random policy may write: quoted parts of what is asked."""
        self._actions: tuple[str, ...] = ()

    async def _reset(self, task: Task) -> Observation:
        problem = self._find(task)
        asked, view = await CHROMIUM.call(self._start(problem))
        self._words = tuple(dict.fromkeys(re.findall(r'"([^"]+)"', asked)))[:3] or ("1",)
        return self._observation(f"Task: {asked}", view)

    async def _start(self, problem: tasks.Problem) -> tuple[str, View]:
        if self._episode is None or self._episode.session.dead:
            await self._end()
            self._episode = await Episode.open()
        return await self._episode.start(problem.page, problem.seed, problem.mode, limited=self._decay)

    async def _step(self, action: str) -> Step:
        assert self._episode is not None
        try:
            command = read(action, TEXTS.commands)
            status, view = await CHROMIUM.call(self._episode.act(command))
        except Refused as error:
            note = f"Error: {cut(str(error), 300)}" if self.style == "agentgym" else f"invalid: {cut(str(error), 100)}"
            return Step(Observation(note, self._actions), 0.0, False, info={"invalid": True, "raw_reward": 0.0})
        except EnvError:
            self._in_episode = False  # a step is never repeated
            raise
        info = {"invalid": False, "raw_reward": status.raw}
        if not status.over:
            return Step(self._observation("", view), 0.0, False, info=info)
        return Step(Observation(self._verdict(status), ()), self._reward(status), terminated=True, info=info)

    def _reward(self, status: Status) -> float:
        return min(max(status.decayed if self._decay else status.raw, 0.0), 1.0)

    def _verdict(self, status: Status) -> str:
        if self.style == "compact":
            return "done" if status.raw > 0 else "failed"
        return "The task is over: " + ("it succeeded." if status.raw > 0 else "it failed.")

    async def _close(self) -> None:
        if self._episode is not None:
            await CHROMIUM.call(self._end())

    async def _end(self) -> None:
        episode, self._episode = self._episode, None
        if episode is not None:
            await episode.session.close()

    @property
    def session(self) -> Session | None:
        """The browser session, which is kept when an episode ends."""
        return None if self._episode is None else self._episode.session

    def goal(self, task: Task) -> str:
        """Page and seed, such as ``click-button, seed 3``; what is asked in words takes the browser."""
        return str(self._find(task))

    def difficulty(self, task: Task) -> str:
        """The page's name, such as ``click-button``."""
        return self._find(task).page

    def oracle(self, task: Task) -> list[str]:
        """Found by playing: it takes the browser a second or so, once a process.

        Raises:
            OracleUnavailable: for this page none is known, or it fails on this task.
        """
        problem = self._find(task)
        return list(solve(problem.page, problem.seed, problem.mode))

    def _find(self, task: Task) -> tasks.Problem:
        return tasks.problem(self._index(task))

    def _observation(self, before: str, view: View) -> Observation:
        shown = [str(element) for element in view.elements if element.role != "RootWebArea"]
        if self.style == "compact":
            shown = [line.strip().replace(" required: False", "") for line in shown]
        self._actions = tuple(self._possible(view))
        text = "\n".join([*view.dialogs, *(line.removeprefix("\t") for line in shown)]) or "(nothing)"
        return Observation("\n\n".join(filter(None, [before, cut(text, MAX_PAGE_CHARACTERS)])), self._actions)

    def _possible(self, view: View) -> Iterator[str]:
        """Some of the actions that are possible: all clicks, and what may be written."""
        for element in view.elements:
            if element.role in _FIELDS:
                yield from (f"type [{element.id}] [{word}] [0]" for word in self._words)
            elif element.role != "RootWebArea":
                yield f"click [{element.id}]"
