"""WebShop: buy what an instruction asks for, on a shop's website read as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from agentgym_rl.envs.actions import Action, InvalidAction, format_react, format_tags, parse_rest, parse_tags
from agentgym_rl.envs.core import Achieved, Observation, Step, Style, Task, TaskNotFound, TextEnv, in_thread
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.knobs import Knob
from agentgym_rl.envs.picture import Picture, Transcript, complete
from agentgym_rl.envs.texts import EnvTexts, read_texts
from agentgym_rl.envs.verl_agent import PromptTexts, TurnPrompt
from agentgym_rl.envs.webshop.catalogue import SPLITS, WISHES, goal_of, goals_worded, of_wishes, sold_in

if TYPE_CHECKING:
    from agentgym_rl.envs.webshop.product import Goal
    from agentgym_rl.envs.webshop.shop import Shop, Visit


@dataclass(frozen=True, kw_only=True)
class Texts(EnvTexts):
    """With verl-agent's prompts."""

    verl_agent: PromptTexts


Goals = Literal["synthetic", "human"]
TEXTS = read_texts(__file__, Texts)
SEP = " [SEP] "
TAIL = 20
"""Characters of a response without tags that verl-agent takes for its action."""
SEARCH = "search[<your query>]"
"""How verl-agent's prompts name a search."""


def _task(first: str) -> str:
    """The instruction: the third text of the first page."""
    return first.split(SEP)[2]


def _seen(page: str) -> str:
    """The texts of a page after the instruction, each in quotes; a page without one as it is."""
    texts = page.split(SEP)
    start = next((at + 2 for at, text in enumerate(texts[:-1]) if text == "Instruction:"), None)
    return page if start is None else SEP.join(f"'{text}'" for text in texts[start:])


def _listed(possible: Sequence[str]) -> Iterator[str]:
    """With a query of one's own, and with the button of the search bar, which does nothing."""
    for action in possible:
        yield from (SEARCH, "click[search]") if action.startswith("search[") else (action,)


PROMPT = TurnPrompt(texts=TEXTS.verl_agent, task=_task, seen=_seen, listed=_listed)
"""The prompts of the style ``verl_agent``."""


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
        splits: with ``data`` and goals that are made, whose splits: ``agentgym``, or ``verl_agent`` for goals 0 to 499
            as ``test`` and all others as ``train``.
        wishes: let all splits have goals with so many attributes, options and price limits only, 4 to 7.
        rewarded: every purchase by its ``score``, or with 1 one whose score is 1, a ``success``, and no other.

    Raises:
        ValueError: an option is invalid, or there is no such folder.
        MissingExtra: with ``data``, a package is not installed.
    """

    name = "webshop"
    styles: ClassVar[tuple[Style, ...]] = ("agentgym", "compact", "verl_agent")
    knobs = (Knob("wishes", tuple(WISHES)),)

    def __init__(
        self,
        style: Style = "agentgym",
        data: str | Path | None = None,
        goals: Goals = "synthetic",
        splits: Literal["agentgym", "verl_agent"] = "agentgym",
        rewarded: Literal["score", "success"] = "score",
        wishes: int | None = None,
    ) -> None:
        super().__init__(style)
        if wishes is not None and data is not None:
            raise ValueError(f"wishes={wishes} is for the built-in shop; leave out either wishes or data")
        if goals == "human" and data is None:
            raise ValueError("goals=human are those of WebShop's files; give data=<folder>, too")
        if splits == "verl_agent" and (data is None or goals != "synthetic"):
            raise ValueError("splits=verl_agent are those of WebShop's synthetic goals; give data=<folder>, too")
        self._partly, self._splits = rewarded == "score", splits
        self._goals: Goals = goals
        self._data = None if data is None else str(Path(data).expanduser())
        self._spec = TEXTS.spec(
            self.name,
            self.shop.splits if data is not None else SPLITS if wishes is None else of_wishes(wishes),
            read=partial(parse_tags, tail=TAIL, lower=True) if style == "verl_agent" else _read,
            write=format_tags if style == "verl_agent" else format_react,
            prompt=PROMPT if style == "verl_agent" else None,
            licence=TEXTS.licence if data is None else "products of Amazon's, collected for WebShop (MIT)",
            other_ids="goals of the built-in shop here; for WebShop's give data" if data is None else "",
        )
        self._visit: Visit

    async def _reset(self, task: Task) -> Observation:
        self._visit = self.shop.visit(self._goal(task))
        return self._observation()

    async def _step(self, action: str) -> Step:
        visit = self._visit
        valid = await in_thread(visit.act, action) if visit.shop.threaded else visit.act(action)
        info = {"invalid": not valid, **visit.parts}
        score = visit.score or 0.0
        reward = score if self._partly else float(score >= 1)
        return Step(self._observation(), reward, terminated=visit.score is not None, info=info)

    def goal(self, task: Task) -> str:
        """The instruction."""
        return " ".join(self._goal(task).instruction.split())

    async def content(self, task: Task) -> str:
        return self.goal(task)

    def difficulty(self, task: Task) -> str:
        """The number of attributes, options and price limits that are asked for, such as ``wishes 4``."""
        return f"wishes {self.shop.goals(self._index(task)).wishes}"

    def oracle(self, task: Task) -> list[str]:
        """See :meth:`.shop.Shop.oracle`."""
        return self.shop.oracle(self.shop.goals(self._index(task)))

    @property
    def relabels(self) -> bool:
        """In the built-in shop only."""
        return self._data is None

    def achieved(self, task: Task, commands: Sequence[str]) -> Achieved | None:
        """An instruction for what is bought: some of its attributes, the values that were chosen, and a price limit.

        As with a split's own tasks, no other split asks for the product, or in these words.
        """
        if not self.relabels:
            return super().achieved(task, commands)
        own_goal, (split, _) = self.shop.goals(self._index(task)), SPLITS.locate(task.index)
        visit, turns = self.shop.visit(own_goal), enumerate(commands, start=1)
        bought = next((turn for turn, command in turns if visit.act(command) and visit.score is not None), None)
        if bought is None or visit.product is None or visit.product.asin not in sold_in(split):
            return None
        goal = goal_of(visit.product, visit.options, split)
        unclear = next(goals_worded(goal.instruction, split)).product.asin != goal.product.asin
        return None if unclear or goal.instruction == own_goal.instruction else Achieved(goal.instruction, bought)

    def _goal(self, task: Task) -> Goal:
        """What is to be bought, in this session."""
        original = self.shop.goals(self._index(task))
        if not self._pursued:
            return original
        split, _ = SPLITS.locate(task.index)
        if (goal := next(goals_worded(self._pursued, split), None)) is None:
            raise self._no_such_goal(task)
        return goal

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
        return open_shop(self._data, self._goals, self._splits)

    def _observation(self) -> Observation:
        page = self._visit.page
        return Observation(page.compact if self.style == "compact" else page.text, self._visit.actions)


@lru_cache(maxsize=8)
def open_shop(data: str | None = None, goals: Goals = "synthetic", splits: str = "agentgym") -> Shop:
    """The shop that the sessions of a process share, see :class:`WebShop`.

    Raises:
        MissingExtra: a package that it needs is not installed.
        ValueError: see :func:`.official.open_folder`.
    """
    with needs("WebShop in this process", "webshop"):
        from agentgym_rl.envs.webshop import official, shop

        return shop.built_in() if data is None else official.open_folder(data, goals, splits)
