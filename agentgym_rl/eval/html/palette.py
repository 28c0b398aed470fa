"""Colours by name, light and dark; people who are colour-blind can tell them apart."""

COLOURS: dict[str, tuple[str, str]] = {
    "surface": ("#ffffff", "#17171a"), "card": ("#fafaf8", "#1b1b1f"), "raised": ("#ffffff", "#1e1e22"),
    "quiet": ("#f4f4f1", "#232328"), "grid": ("#e4e4e0", "#3a3a3f"), "muted": ("#6b6b66", "#a0a0a8"),
    "ink": ("#1f1f1d", "#ececf0"), "pale": ("#b4b4ae", "#6f6f78"), "grey": ("#7d7d77", "#9a9aa3"),
    "blue": ("#0072b2", "#4aa8e0"), "vermilion": ("#d55e00", "#ff8a3d"), "green": ("#009e73", "#2fc79b"),
    "pink": ("#cc79a7", "#e6a0c6"), "gold": ("#b8860b", "#e0b040"), "sky": ("#56b4e9", "#8fd0f5"),
    "env0": ("#4b3f72", "#a99be0"), "env1": ("#2a8083", "#6cc4c6"), "env2": ("#8f7a3e", "#cdb36a"),
    "env3": ("#5a7fa8", "#94b8e0"), "env4": ("#8a4f80", "#d79ccb"), "env5": ("#6f6a5e", "#b5b0a2"),
    "generate": ("#8fb4d9", "#5f8fbf"), "step": ("#b39b3d", "#b5a04a"), "reset": ("#d9cc94", "#857a45"),
    "parse": ("#7a68a6", "#9a8bcb"), "unlikely": ("#cc79a7", "#8f4d74"),
    "lost": ("#8c2d04", "#c4501a"), "limit": ("#f0a35e", "#ffc08a"), "cut": ("#f7d3ae", "#ffe6d2"),
}  # fmt: skip

TIMES = {"generate": "generate", "parse": "parse", "step": "step", "wait": "pale", "reset": "reset"}
"""Of what an episode's time is spent on."""
ARMS = ("blue", "vermilion", "green", "pink", "gold", "sky")
"""After Okabe and Ito (2008); their orange and yellow are darkened so that they can be read on white."""
STAGES = {"untrained": "pale", "bc": "grey", "control": "grey"}
"""Of what algorithms are compared with."""
ENVS = ("env0", "env1", "env2", "env3", "env4", "env5")
"""Of environments, in the order of their names."""
DASHES = ("-", "--", ":", "-.")
"""Line styles, in the order in which they are used."""


def light(name: str) -> str:
    """The ``#rrggbb`` of a colour on a light ground."""
    return COLOURS[name][0]


def css() -> str:
    """The palette as CSS variables."""
    return ":root{" + "".join(f"--{name}:light-dark({one},{other});" for name, (one, other) in COLOURS.items()) + "}"
