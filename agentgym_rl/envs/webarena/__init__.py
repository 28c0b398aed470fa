"""The facts of WebArena."""

from __future__ import annotations

from agentgym_rl.envs.actions import Action, InvalidAction
from agentgym_rl.envs.core import EnvSpec
from agentgym_rl.envs.served import ServedEnv
from agentgym_rl.envs.texts import EnvTexts, read_texts

TEXTS = read_texts(__file__, EnvTexts)


def _write(command: str, thought: str) -> str:
    return f"{thought} In summary, the next action I will perform is ```{command}```".strip()


def _read(response: str) -> Action | InvalidAction:
    """The action inside the first pair of triple backticks."""
    if response.count("```") < 2:
        return InvalidAction("No action was found. Put exactly one inside triple backticks (```).")
    thought, command = response.split("```", 2)[:2]
    return Action(command.strip(), thought.strip())


class WebArena(ServedEnv):
    """WebArena (Zhou et al. 2023, arXiv:2307.13854) on AgentGym's server."""

    name = "webarena"
    spec = EnvSpec(
        name=name,
        instructions=TEXTS.instructions,
        # The sizes are AgentGym's. Its own lists of tasks are files; such a file may be given wherever a split is.
        splits={"train": range(50, 422), "test": range(50)},
        max_turns=15,
        success_above=0.99,
        read=_read,
        write=_write,
        deterministic=False,
        replayable=False,
        licence=TEXTS.licence,
    )
