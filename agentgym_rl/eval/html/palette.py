"""Colours by name, light and dark; people who are colour-blind can tell them apart."""

from pathlib import Path

from agentgym_rl.envs.tables import load

COLOURS = load(Path(__file__).with_suffix(".toml"), dict[str, tuple[str, ...]])

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
    return ":root{" + "".join(f"--{name}:light-dark({day},{night});" for name, (day, night) in COLOURS.items()) + "}"
