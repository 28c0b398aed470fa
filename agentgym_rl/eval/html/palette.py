"""Colours of arms and worlds: the same in every picture and table, told apart by colour-blind people too."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_rl.eval.comparison.arms import Arm

SURFACE, GRID, INK, MUTED = "#ffffff", "#e4e4e0", "#1f1f1d", "#6b6b66"

ARMS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9")
"""After Okabe and Ito (2008); their orange and yellow are darkened to one that is read on white."""

STAGES = {"untrained": "#b4b4ae", "bc": "#7d7d77", "control": "#7d7d76"}
"""Greys for what algorithms are compared with."""

WORLDS = ("#4b3f72", "#c0504d", "#3b8183", "#8f7a3e", "#5a7fa8", "#7d4f73")

DARK = {
    GRID: "#3a3a3f", INK: "#ececf0", MUTED: "#a0a0a8",
    "#0072b2": "#4aa8e0", "#d55e00": "#ff8a3d", "#009e73": "#2fc79b", "#cc79a7": "#e6a0c6", "#b8860b": "#e0b040",
    "#56b4e9": "#8fd0f5",
    "#b4b4ae": "#6f6f78", "#7d7d77": "#9a9aa3", "#7d7d76": "#9a9aa4",
    "#4b3f72": "#a99be0", "#c0504d": "#f08b88", "#3b8183": "#6cc4c6", "#8f7a3e": "#cdb36a", "#5a7fa8": "#94b8e0",
    "#7d4f73": "#c995bd",
}  # fmt: skip
"""What each colour becomes on a dark page."""

DASHES = ("-", "--", ":", "-.")


def look(arms: Sequence[Arm], number: int) -> tuple[str, str]:
    """Colour and line style of an arm among all arms."""
    arm = arms[number]
    like = [other for other in arms[:number] if (other.stage in STAGES) == (arm.stage in STAGES)]
    if arm.stage in STAGES:
        return STAGES[arm.stage], DASHES[(2 + sum(other.stage == arm.stage for other in like)) % len(DASHES)]
    return ARMS[len(like) % len(ARMS)], DASHES[len(like) // len(ARMS) % len(DASHES)]
