"""Everything the agent reads, in each style. The simulator's own texts are AgentGym's."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_rl.envs.bounds import cut
from agentgym_rl.envs.core import Style
from agentgym_rl.envs.texts import EnvTexts, read_texts


@dataclass(frozen=True, kw_only=True)
class Texts(EnvTexts):
    """With the texts of the simplification ``teleportAction``, and those of the ``compact`` style."""

    teleport: dict[str, str]
    shorter: tuple[tuple[str, ...], ...]


TEXTS = read_texts(__file__, Texts)


def instructions(teleport: bool) -> Mapping[str, str]:
    """The instruction in each style; ``teleport`` says whether there is that action."""
    return {
        style: text.replace("{teleport}", TEXTS.teleport[style] if teleport else "")
        for style, text in TEXTS.instructions.items()
    }


MAX_OBSERVATION_CHARACTERS: Mapping[Style, int] = {"agentgym": 4_000, "compact": 1_200}

_SHORTER = tuple((re.compile(pattern, re.MULTILINE), shorter) for pattern, shorter in TEXTS.shorter)


def observe(text: str, style: Style, goal: str = "") -> str:
    """A text of the simulator as the agent reads it; ``goal`` is what is to be done, on a line before the first."""
    if style == "compact":
        text, goal = _condense(text), " ".join(goal.split())
    return cut(f"{goal}\n{text}" if goal else text, MAX_OBSERVATION_CHARACTERS[style], " ... (cut)")


def _condense(text: str) -> str:
    """The text in one line: lists with commas, and nothing about what is not there."""
    for pattern, shorter in _SHORTER:
        text = pattern.sub(shorter, text)
    lines = [" ".join(line.split()).rstrip(". ") for line in text.splitlines()]
    return ", ".join(line for line in lines if line).replace(":, ", ": ").replace(", doors: ", "; doors: ")
