"""WebShop: buy what an instruction asks for, on a shop's website read as text."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentgym_rl.envs.actions import Action, InvalidAction, parse_rest
from agentgym_rl.envs.core import EnvSpec, Observation, Step, Style, Task, TaskNotFound, TextEnv, in_thread
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.picture import Picture, Transcript, complete
from agentgym_rl.envs.texts import EnvTexts, read_texts
from agentgym_rl.envs.webshop.catalogue import SPLITS

if TYPE_CHECKING:
    from agentgym_rl.envs.webshop.shop import Shop, Visit

TEXTS = read_texts(__file__, EnvTexts)


def _read(response: str) -> Action | InvalidAction:
    """As AgentGym's client: what follows the last ``Action:``, or a whole response that holds an action without it."""
    if "Action:" not in response and ("search[" in response or "click[" in response):
        return Action(response.strip())
    return parse_rest(response)


class WebShop(TextEnv):
    """WebShop (Yao et al. 2022, arXiv:2207.01206) with its pages, actions and reward, and invented products or its own.

    A purchase ends the episode and earns the reward of :func:`.reward.reward`; nothing else does. An action that the
    page does not allow is ``invalid`` and changes nothing. ``info`` of the purchase also has the parts of the reward.

    Args:
        style: wording of instruction and observations.
        data: a folder of WebShop's own products, see :func:`.official.build`.
        goals: with ``data``, the goals that are made of attributes and options, or those that people wrote.

    Raises:
        ValueError: an option is invalid, or there is no such folder.
        MissingExtra: with ``data``, a package is not installed.
    """

    name = "webshop"

    def __init__(
        self,
        style: Style = "agentgym",
        data: str | Path | None = None,
        goals: Literal["synthetic", "human"] = "synthetic",
    ) -> None:
        super().__init__(style)
        if goals not in ("synthetic", "human"):
            raise ValueError(f"goals {goals!r} are unknown; choose synthetic or human")
        if goals == "human" and data is None:
            raise ValueError("goals=human are those of WebShop's files; give data=<folder>, too")
        self._goals: Literal["synthetic", "human"] = goals
        self._data = None if data is None else str(Path(data).expanduser())
        self._spec = EnvSpec(
            name=self.name,
            instructions=TEXTS.instructions,
            splits=SPLITS if data is None else self.shop.splits,
            max_turns=10,
            success_above=0.99,
            tools=TEXTS.tools,
            read=_read,
            extra="webshop",
            licence=TEXTS.licence if data is None else "products of Amazon's, collected for WebShop (MIT)",
            other_ids="goals of the built-in shop here; for WebShop's give data" if data is None else "",
        )
        self._visit: Visit

    async def _reset(self, task: Task) -> Observation:
        self._visit = self.shop.visit(self.shop.goals(self._index(task)))
        return self._observation()

    async def _step(self, action: str) -> Step:
        visit = self._visit
        valid = await in_thread(visit.act, action) if visit.shop.threaded else visit.act(action)
        info = {"invalid": not valid, **visit.parts}
        return Step(self._observation(), visit.score or 0.0, terminated=visit.score is not None, info=info)

    def goal(self, task: Task) -> str:
        """The instruction."""
        return " ".join(self.shop.goals(self._index(task)).instruction.split())

    async def content(self, task: Task) -> str:
        return self.goal(task)

    def difficulty(self, task: Task) -> str:
        """The number of attributes, options and price limits that are asked for, such as ``wishes 4``."""
        return f"wishes {self.shop.goals(self._index(task)).wishes}"

    def oracle(self, task: Task) -> list[str]:
        """See :meth:`.shop.Shop.oracle`."""
        return self.shop.oracle(self.shop.goals(self._index(task)))

    @classmethod
    def pictures(cls, transcript: Transcript) -> list[Picture | None]:
        """Pages of the built-in shop, by taking the actions again. There are none from where they differ from the
        episode's."""
        shop = open_shop()
        from agentgym_rl.envs.webshop.drawing import draw  # after the shop, which says what is not installed

        try:
            visit = shop.visit(shop.goals(Task.parse(transcript.item_id).index))
        except TaskNotFound:
            return complete((), transcript)
        return complete(draw(visit, transcript), transcript)

    @property
    def shop(self) -> Shop:
        """The shop that the sessions with these options share."""
        return open_shop(self._data, self._goals)

    def _observation(self) -> Observation:
        page = self._visit.page
        return Observation(page.text if self.style == "agentgym" else page.compact, self._visit.actions)


@lru_cache(maxsize=8)
def open_shop(data: str | None = None, goals: Literal["synthetic", "human"] = "synthetic") -> Shop:
    """The shop that the sessions of a process share, see :class:`WebShop`.

    Raises:
        MissingExtra: a package that it needs is not installed.
        ValueError: see :func:`.official.open_folder`.
    """
    with needs("WebShop in this process", "webshop"):
        from agentgym_rl.envs.webshop import official, shop

        return shop.built_in() if data is None else official.open_folder(data, goals)
