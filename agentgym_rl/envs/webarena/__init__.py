"""WebArena: tasks on websites, in a real browser."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentgym_rl.envs.actions import Action, InvalidAction
from agentgym_rl.envs.bounds import cut
from agentgym_rl.envs.browser.commands import Refused, functions, read
from agentgym_rl.envs.browser.film import Filmed
from agentgym_rl.envs.core import EnvError, Observation, OracleUnavailable, Step, Style, Task, TaskNotFound
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.texts import EnvTexts, read_texts
from agentgym_rl.envs.webarena.config import COMMANDS, NO_JUDGE
from agentgym_rl.envs.webarena.files import open_files
from agentgym_rl.envs.webarena.judge import OpenAIJudge
from agentgym_rl.envs.webarena.shop import ADMIN, PASSWORD, Shop
from agentgym_rl.envs.webarena.tasks import SPLITS, problem

if TYPE_CHECKING:
    from agentgym_rl.envs.browser.session import Session, View
    from agentgym_rl.envs.webarena.config import Config
    from agentgym_rl.envs.webarena.episode import Episode


@dataclass(frozen=True, kw_only=True)
class Texts(EnvTexts):
    """The file ``env.toml``."""

    verified: str
    """What the tasks of ``webarena-verified`` say of the form of the answer."""


TEXTS = read_texts(__file__, Texts)
MAX_PAGE_CHARACTERS = 6_000
_LINKS = {"link", "button", "option", "menuitem", "tab", "checkbox", "radio"}
_FIELDS = {"textbox", "searchbox", "combobox", "spinbutton"}


def _write(command: str, thought: str) -> str:
    return f"{thought} In summary, the next action I will perform is ```{command}```".strip()


def _read(response: str) -> Action | InvalidAction:
    """The action inside the first pair of triple backticks."""
    if response.count("```") < 2:
        return InvalidAction("No action was found. Put exactly one inside triple backticks (```).")
    thought, command = response.split("```", 2)[:2]
    return Action(command.strip(), thought.strip())


class WebArena(Filmed):
    """WebArena (Zhou et al. 2023, arXiv:2307.13854): its actions, observations and scores, on built-in sites or
    on its own.

    ``stop [answer]`` ends the task and earns 1 where it is solved. The built-in sites have their contents afresh in
    each episode; WebArena's own keep what is done to them.

    Args:
        style: wording of instruction and observations.
        tasks: WebArena's tasks instead of the built-in ones: a file with a list of them, or a folder of files; or
            ``verified``, those of the package ``webarena-verified``, which scores them.
        sites: with ``tasks``, the addresses of the sites, such as ``shopping=http://127.0.0.1:7770,reddit=http://...``,
            or a mapping. Tasks on other sites are left out.
        hosts: with ``tasks``, further hosts that pages may reach, such as those of the map's tiles and routes:
            ``host`` or ``host:port``, separated by commas.
        logins: with ``tasks``, the folder of their ``storage_state`` files; without it nobody is logged in.
        judge_url: an OpenAI-compatible model that compares answers in words (``fuzzy_match``). Without it such tasks
            are left out.
        judge_model: name of that model.
        judge_token_env: environment variable with the token for it.
        shop_admin: with ``tasks``, the administrator as whom scores ask the shop for its latest order or review.
        shop_password_env: environment variable with the administrator's password; without it WebArena's is sent.

    Raises:
        ValueError: an option is wrong, or comes without the one it needs.
    """

    name = "webarena"

    def __init__(
        self,
        style: Style = "agentgym",
        tasks: str | None = None,
        sites: str | Mapping[str, str] = "",
        hosts: str = "",
        logins: str | None = None,
        judge_url: str | None = None,
        judge_model: str | None = None,
        judge_token_env: str | None = None,
        shop_admin: str = ADMIN,
        shop_password_env: str | None = None,
    ) -> None:
        super().__init__(style)
        if (judge_url is None) != (judge_model is None):
            raise ValueError("judge_url and judge_model go together: give both or neither")
        if tasks is None and (sites or hosts or logins):
            raise ValueError("sites, hosts and logins are for WebArena's own tasks: give tasks, too, or leave them out")
        if judge_token_env is not None and (judge_url is None or judge_token_env not in os.environ):
            raise ValueError(
                f"judge_token_env={judge_token_env}: set that variable, and give judge_url and judge_model"
            )
        if tasks is None and (shop_admin != ADMIN or shop_password_env):
            raise ValueError("shop_admin and shop_password_env are for WebArena's own tasks: give tasks, too")
        if tasks == "verified" and (judge_url or shop_admin != ADMIN or shop_password_env):
            raise ValueError("tasks=verified ask neither a judge nor a shop: leave out judge_url and shop_admin")
        if shop_password_env is not None and shop_password_env not in os.environ:
            raise ValueError(f"shop_password_env={shop_password_env}: set that variable")
        token = None if judge_token_env is None else os.environ[judge_token_env]
        self._judge = None if judge_url is None else OpenAIJudge(judge_url, judge_model or "", token)
        self._files = (
            None if tasks is None else open_files(tasks, sites, logins, self._judge is not None, TEXTS.verified, hosts)
        )
        self._shop = None
        if self._files is not None and "shopping" in self._files.urls:
            password = PASSWORD if shop_password_env is None else os.environ[shop_password_env]
            self._shop = Shop(self._files.urls["shopping"], shop_admin, password)
        self._spec = TEXTS.spec(
            self.name,
            SPLITS if self._files is None else self._files.splits,
            tools=functions(COMMANDS),
            read=_read,
            write=_write,
            deterministic=self._files is None,
            replayable=self._files is None,
            licence=TEXTS.licence if self._files is None else "WebArena's tasks (Apache-2.0) on sites of the user",
            other_ids="tasks on the built-in sites here; for WebArena's give tasks and sites" if tasks is None else "",
            unavailable={"judged": f"here: {NO_JUDGE}"} if self._files is None and self._judge is None else {},
        )
        self._episode: Episode | None = None
        self._intent = ""
        self._words: tuple[str, ...] = ()
        """What the random policy may write: quoted parts of what is asked."""
        self._actions: tuple[str, ...] = ()

    async def _reset(self, task: Task) -> Observation:
        config = self._config(task)
        if config.judged and self._judge is None:
            raise TaskNotFound(f"{task} cannot be scored: {NO_JUDGE}")
        with needs("WebArena in this process", "webarena"):
            from agentgym_rl.envs.browser.chromium import CHROMIUM
        self._intent = config.intent
        self._words = tuple(dict.fromkeys(re.findall(r'"([^"]+)"', config.intent)))[:3] or ("1",)
        return self._observation(await CHROMIUM.call(self._start(task, config)), "None", first=True)

    async def _start(self, task: Task, config: Config) -> View:
        from agentgym_rl.envs.webarena.episode import Episode

        await self._end()
        if self._files is None:
            self._episode = await Episode.built_in(problem(task.index))
        else:
            self._episode = await Episode.on_sites(config, self._files)
        return await self._episode.start()

    async def _step(self, action: str) -> Step:
        from agentgym_rl.envs.browser.chromium import CHROMIUM

        assert self._episode is not None
        try:
            command = read(action, COMMANDS)
            if command.name == "stop":
                solved = await CHROMIUM.call(self._finish(command.arguments[0]))
                note = "The task is over: " + ("it is solved." if solved else "it is not solved.")
                return Step(Observation(note, ()), float(solved), terminated=True, info={"invalid": False})
            view = await CHROMIUM.call(self._episode.act(command))
        except Refused as error:
            note = f"Error: {cut(str(error), 300)}" if self.style == "agentgym" else f"invalid: {cut(str(error), 100)}"
            return Step(Observation(note, self._actions), 0.0, False, info={"invalid": True})
        except EnvError:
            self._in_episode = False  # a step is never repeated
            raise
        return Step(self._observation(view, cut(action.strip(), 200)), 0.0, False, info={"invalid": False})

    async def _finish(self, answer: str) -> bool:
        assert self._episode is not None
        solved = await self._episode.solved(answer, self._judge, self._shop)
        await self._end()
        return solved

    async def _close(self) -> None:
        if self._episode is not None:
            from agentgym_rl.envs.browser.chromium import CHROMIUM

            await CHROMIUM.call(self._end())

    async def _end(self) -> None:
        episode, self._episode = self._episode, None
        if episode is not None:
            await episode.close()

    @property
    def session(self) -> Session | None:
        """The browser session of the episode; None when it has ended."""
        return None if self._episode is None else self._episode.session

    def goal(self, task: Task) -> str:
        """What is asked."""
        return " ".join(self._config(task).intent.split())

    async def content(self, task: Task) -> str:
        """What is asked and where it begins; without the browser."""
        config = self._config(task)
        return "\n".join([config.intent, *config.start_urls])

    def difficulty(self, task: Task) -> str:
        """The sites, and of a built-in task its template, such as ``shopping: price``."""
        config = self._config(task)
        return problem(task.index).label if self._files is None else "+".join(config.sites)

    def oracle(self, task: Task) -> list[str]:
        """Found by playing: it takes the browser a second or so, once a process.

        Raises:
            OracleUnavailable: the task is not built in.
        """
        self._config(task)
        if self._files is not None:
            raise OracleUnavailable("for WebArena's own tasks no solution is known")
        with needs("WebArena in this process", "webarena"):
            from agentgym_rl.envs.webarena.episode import solve
        return list(solve(task.index))

    def _config(self, task: Task) -> Config:
        index = self._index(task)
        return problem(index).config if self._files is None else self._files.config(index)

    def _observation(self, view: View, action: str, first: bool = False) -> Observation:
        self._actions = tuple(self._possible(view))
        text = cut(view.text, MAX_PAGE_CHARACTERS)
        if self.style == "compact":
            lines = "\n".join(line.strip() for line in text.splitlines() if line)
            observation = f"Task: {self._intent}\n{lines}" if first else lines
        else:
            observation = f"OBSERVATION:\n{text}\nURL: {view.url}\nOBJECTIVE: {self._intent}\nPREVIOUS ACTION: {action}"
        return Observation(observation, self._actions)

    def _possible(self, view: View) -> Iterator[str]:
        """Some of the actions that are possible: clicks, what may be written, and an end."""
        for element in view.elements:
            if element.role in _FIELDS:
                yield from (f"type [{element.id}] [{word}] [1]" for word in self._words)
            elif element.role in _LINKS:
                yield f"click [{element.id}]"
        yield "stop [N/A]"
