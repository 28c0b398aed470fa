"""Worlds that only AgentGym's servers can play: their facts, without a world behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from agentgym_rl.envs.actions import Action, InvalidAction, parse_rest
from agentgym_rl.envs.core import (
    EnvSpec,
    EnvUnavailable,
    Observation,
    Step,
    Style,
    Task,
    TaskNotFound,
    TextEnv,
)
from agentgym_rl.envs.tools import Tool

WEBSHOP = """\
You are shopping on a website. You are told what to buy, and after each of your actions you see the page as text, \
with what can be clicked on it.

There are two kinds of action:
search[keywords] looks for products, on pages that have a search bar; the keywords are yours to choose, and well \
chosen ones matter.
click[value] presses a button or follows a link; the value must be one that the page offers.

An action that the page does not allow changes nothing. Reply in this form, with one action:

Thought:
what you think

Action:
click[something]"""

WEBSHOP_COMPACT = "Shop. search[keywords] or click[value on the page]. Buy what is asked for."

WEBARENA = """\
You carry out tasks on websites, through a browser. After each action you are shown the page as an accessibility tree, \
in which every element has a number, together with its address, the open tabs, what you are to do and what you did last.

Actions on the page:
click [number] clicks on an element
type [number] [text] [0 or 1] writes into a field, and presses Enter afterwards unless the last argument is 0
hover [number] points at an element
press [keys] presses a combination of keys, such as Ctrl+v
scroll [down] or scroll [up] moves the page

Tabs: new_tab opens one, tab_focus [index] changes to one, close_tab closes the present one.
Addresses: goto [url] opens one, go_back and go_forward move through the history.
stop [answer] ends the task; give the answer where one is asked for, and N/A where the task cannot be done.

Every argument stands in square brackets. The page http://homepage.com lists the sites you may visit. Think first, \
then give exactly one action inside triple backticks, like this: In summary, the next action I will perform is \
```click [12]```. Say nothing after stop."""

WEBARENA_COMPACT = (
    "Use a browser. Think, then one action in triple backticks, such as ```click [12]``` or ```stop [N/A]```."
)


def _read_shop(reply: str) -> Action | InvalidAction:
    """As AgentGym's client: what follows the last ``Action:``, or a whole reply that holds an action without it."""
    if "Action:" not in reply and ("search[" in reply or "click[" in reply):
        return Action(reply.strip())
    return parse_rest(reply)


def _write_fenced(command: str, thought: str) -> str:
    return f"{thought} In summary, the next action I will perform is ```{command}```".strip()


def _read_fenced(reply: str) -> Action | InvalidAction:
    """The action inside the first pair of triple backticks."""
    if reply.count("```") < 2:
        return InvalidAction("No action was found. Put exactly one inside triple backticks (```).")
    thought, command = reply.split("```", 2)[:2]
    return Action(command.strip(), thought.strip())


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


SPECS: Mapping[str, EnvSpec] = {
    spec.name: spec
    for spec in (
        EnvSpec(
            name="webshop",
            instructions={"agentgym": WEBSHOP, "compact": WEBSHOP_COMPACT},
            splits={"train": range(200, 4130), "test": range(200)},
            max_turns=10,
            success_above=0.99,
            tools=(
                Tool("search", "Look for products.", {"keywords": _text("what for")}, commands=("search[{keywords}]",)),
                Tool("click", "Press a button.", {"item": _text("one on the page")}, commands=("click[{item}]",)),
            ),
            read=_read_shop,
            deterministic=False,
            replayable=False,
            licence="served by AgentGym's WebShop (MIT); products of the user's server",
        ),
        EnvSpec(
            name="webarena",
            instructions={"agentgym": WEBARENA, "compact": WEBARENA_COMPACT},
            splits={"train": range(50, 422), "test": range(50)},
            max_turns=15,
            success_above=0.99,
            read=_read_fenced,
            write=_write_fenced,
            deterministic=False,
            replayable=False,
            licence="served by AgentGym's WebArena (MIT); sites of the user's server",
        ),
    )
}
"""What is fixed about these worlds. Splits have the sizes of AgentGym's; its own lists of tasks are files, and a file
of item ids may be given wherever a split is."""


class Described(TextEnv):
    """The facts of a world that is played on a server only."""

    name: ClassVar[str]

    def __init__(self, style: Style = "agentgym") -> None:
        super().__init__(style)

    @property
    def spec(self) -> EnvSpec:
        return SPECS[self.name]

    async def _reset(self, task: Task) -> Observation:
        raise EnvUnavailable(f"{self.name} runs on AgentGym's server only; give its address (see docs/hosts.md)")

    async def _step(self, action: str) -> Step:
        raise AssertionError("reset always raises")

    def goal(self, task: Task) -> str:
        """The item id: only the server knows more."""
        return str(self._known(task))

    def difficulty(self, task: Task) -> str:
        return self._known(task).env

    def _known(self, task: Task) -> Task:
        if task.env != self.name:
            raise TaskNotFound(f"{task} is not a task of {self.name}")
        return task


class WebShop(Described):
    """WebShop (Yao et al. 2022, arXiv:2207.01206) on AgentGym's server."""

    name = "webshop"


class WebArena(Described):
    """WebArena (Zhou et al. 2023, arXiv:2307.13854) on AgentGym's server."""

    name = "webarena"
