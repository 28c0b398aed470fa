"""Every colour and CSS variable that a page names exists, light and dark."""

import re
from pathlib import Path

import agentgym_rl
from agentgym_rl.eval import html
from agentgym_rl.eval.html import palette

PACKAGE = Path(agentgym_rl.__file__).parent
FILES = [path for path in PACKAGE.rglob("*") if path.suffix in (".js", ".css", ".html", ".py")]
SCRIPTS = {path: path.read_text(encoding="utf-8") for path in FILES if path.suffix == ".js"}

IN_SCRIPTS = (
    r'\bcolour: "(\w+)"',
    r'\bcoloured\(.*?, "(\w+)"\)',
    r'\bprobe\("(\w+)"\)',
    r'\w+: \["(\w+)", "[^"]+"\]',  # what an ending looks like: colour and label
    r'\?\? \["(\w+)", ',
)
"""How scripts name a colour of the palette."""


def named(pattern: str) -> set[str]:
    return {name for text in SCRIPTS.values() for name in re.findall(pattern, text)}


def test_every_css_variable_is_defined():
    style = html.style()
    defined = set(re.findall(r"(--[a-z][\w-]*):", style))
    defined |= {name for text in SCRIPTS.values() for name in re.findall(r'setProperty\("(--[\w-]+)"', text)}
    used = {
        (name, path.name)
        for path in FILES
        for name in re.findall(r"var\((--[a-z][\w-]*)", path.read_text(encoding="utf-8"))
    }
    assert len(used) > 20 and {colour for colour in used if colour[0] not in defined} == set()


def test_every_colour_of_a_script_is_in_the_palette():
    names_of = {pattern: named(pattern) for pattern in IN_SCRIPTS}
    assert {"lost", "limit", "cut", "vermilion", "green", "pale"} <= set().union(*names_of.values())
    (canvas,) = named(r"\[muted, grid, \.\.\.hues\] = \[(.*?), \.\.\.data\.colours\]")
    names = set().union(*names_of.values(), re.findall(r"\w+", canvas))
    assert names <= palette.COLOURS.keys()


def test_every_environment_of_a_chart_has_a_colour():
    (count,) = named(r"const ENV_COLOURS = (\d+);")
    assert {f"env{number}" for number in range(int(count))} == set(palette.ENVS) <= palette.COLOURS.keys()
    assert {*palette.ARMS, *palette.STAGES.values(), *palette.TIMES.values()} <= palette.COLOURS.keys()


def test_colours_are_light_and_dark():
    assert all(re.fullmatch("#[0-9a-f]{6}", shade) for pair in palette.COLOURS.values() for shade in pair)
