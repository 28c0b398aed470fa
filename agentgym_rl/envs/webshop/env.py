"""The facts of WebShop."""

from __future__ import annotations

from typing import Any

from agentgym_rl.envs.actions import Action, InvalidAction, parse_rest
from agentgym_rl.envs.core import EnvSpec
from agentgym_rl.envs.served import ServedEnv
from agentgym_rl.envs.tools import Tool

INSTRUCTION = """\
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

COMPACT = "Shop. search[keywords] or click[value on the page]. Buy what is asked for."


def _read(response: str) -> Action | InvalidAction:
    """As AgentGym's client: what follows the last ``Action:``, or a whole response that holds an action without it."""
    if "Action:" not in response and ("search[" in response or "click[" in response):
        return Action(response.strip())
    return parse_rest(response)


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


SPEC = EnvSpec(
    name="webshop",
    instructions={"agentgym": INSTRUCTION, "compact": COMPACT},
    # The sizes are AgentGym's. Its own lists of tasks are files; such a file may be given wherever a split is.
    splits={"train": range(200, 4130), "test": range(200)},
    max_turns=10,
    success_above=0.99,
    tools=(
        Tool("search", "Look for products.", {"keywords": _text("what for")}, commands=("search[{keywords}]",)),
        Tool("click", "Press a button.", {"item": _text("one on the page")}, commands=("click[{item}]",)),
    ),
    read=_read,
    deterministic=False,
    replayable=False,
    licence="served by AgentGym's WebShop (MIT); products of the user's server",
)


class WebShop(ServedEnv):
    """WebShop (Yao et al. 2022, arXiv:2207.01206) on AgentGym's server."""

    name = "webshop"
    spec = SPEC
