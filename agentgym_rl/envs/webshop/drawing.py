"""The shop's pages for the viewer, as :mod:`.html` shows them: from top to bottom, buttons and options in rows."""

from collections.abc import Iterator
from textwrap import wrap

from agentgym_rl.envs.bounds import cut
from agentgym_rl.envs.picture import Picture, Shape, Transcript, shape
from agentgym_rl.envs.webshop.page import Page
from agentgym_rl.envs.webshop.shop import Visit

WIDTH, LINE, GAP = 340, 18, 6
CHARACTER = 6.7
"""Width of a character; the viewer's style gives such texts a font whose characters are equally wide."""


def draw(visit: Visit, transcript: Transcript) -> Iterator[Picture]:
    """The pages of an episode, up to the first one that differs from its observations."""
    if visit.goal.instruction in transcript.first:  # whatever the wording
        yield picture(visit.page)
    else:
        return
    for action, observation in transcript.turns:
        if action:
            visit.act(action)
        if action is not None and observation not in (visit.page.text, visit.page.compact):
            return
        yield picture(visit.page)


def picture(page: Page) -> Picture:
    """A page."""
    shapes: list[Shape] = []
    x, y = 0.0, 0.0
    for element in page.elements:
        text = " ".join(element.text.split())
        if element.kind == "hidden" or not text:
            continue
        if element.kind in ("button", "option"):
            text = cut(text, int(WIDTH / CHARACTER) - 3)
            width = len(text) * CHARACTER + 2 * GAP
            if x + width > WIDTH:
                x, y = 0, y + LINE + GAP
            kind = "pressed" if element.chosen else "press"
            shapes += [
                shape("rect", x=x, y=y, width=width, height=LINE, rx=4, class_=f"shop {kind}"),
                shape("text", x=x + GAP, y=y + 13, class_="shop", text=text),
            ]
            x += width + GAP
            continue
        if x:
            x, y = 0, y + LINE + GAP
        for line in wrap(cut(text, 500), int(WIDTH / CHARACTER)):
            shapes.append(shape("text", x=0, y=y + 13, class_=f"shop {element.kind}", text=line))
            y += LINE
    return Picture(f"Page of the shop: {cut(' '.join(page.compact.split()), 300)}", WIDTH, y + LINE, tuple(shapes))
