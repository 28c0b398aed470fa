"""The facts of WebShop."""

from __future__ import annotations

from agentgym_rl.envs.actions import Action, InvalidAction, parse_rest
from agentgym_rl.envs.core import EnvSpec
from agentgym_rl.envs.served import ServedEnv
from agentgym_rl.envs.texts import EnvTexts, read_texts

TEXTS = read_texts(__file__, EnvTexts)


def _read(response: str) -> Action | InvalidAction:
    """As AgentGym's client: what follows the last ``Action:``, or a whole response that holds an action without it."""
    if "Action:" not in response and ("search[" in response or "click[" in response):
        return Action(response.strip())
    return parse_rest(response)


class WebShop(ServedEnv):
    """WebShop (Yao et al. 2022, arXiv:2207.01206) on AgentGym's server."""

    name = "webshop"
    spec = EnvSpec(
        name=name,
        instructions=TEXTS.instructions,
        # The sizes are AgentGym's. Its own lists of tasks are files; such a file may be given wherever a split is.
        splits={"train": range(200, 4130), "test": range(200)},
        max_turns=10,
        success_above=0.99,
        tools=TEXTS.tools,
        read=_read,
        deterministic=False,
        replayable=False,
        licence=TEXTS.licence,
    )
