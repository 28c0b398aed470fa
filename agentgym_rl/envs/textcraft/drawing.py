"""The inventory after each turn, from the actions and observations."""

import re
from collections import Counter
from collections.abc import Mapping

from agentgym_rl.envs.picture import Picture, Shape, Transcript, shape
from agentgym_rl.envs.textcraft.commands import Craft, Get, parse_command
from agentgym_rl.envs.textcraft.icons import ICON, icon

SLOT, GAP, CAPTION, COLUMNS = 46, 18, 24, 4
_GOAL = re.compile(r"Goal: craft (?:(\d+) )?(.+?)\.?\s*$", re.MULTILINE)
_CRAFTED = re.compile(r"Crafted (\d+) (?:minecraft:)?(.+)")


def draw(transcript: Transcript) -> list[Picture]:
    """See :meth:`.TextCraft.pictures`."""
    goals = _GOAL.findall(transcript.first)
    goal = (goals[-1][1], int(goals[-1][0] or 1)) if goals else None
    held: Counter[str] = Counter()
    pictures = [_picture(held, Counter(), goal)]
    for action, observation in transcript.turns:
        before = held.copy()
        _follow(action or "", observation, held)
        pictures.append(_picture(held, before, goal))
    return pictures


def _follow(action: str, observation: str, held: Counter[str]) -> None:
    """Change the inventory as a turn did."""
    command = parse_command(" ".join(action.split()))
    if isinstance(command, Get) and observation.startswith("Got "):
        held[command.stack.name] += command.stack.amount
    elif isinstance(command, Craft) and (made := _CRAFTED.match(observation)):
        for stack in command.inputs:
            held[stack.name] -= stack.amount
        held[made[2].replace("_", " ").strip()] += int(made[1])


def _picture(held: Mapping[str, int], before: Mapping[str, int], goal: tuple[str, int] | None) -> Picture:
    names = [name for name in {**before, **held} if held.get(name, 0) > 0 or before.get(name, 0) > 0]
    pitch = SLOT + GAP
    margin = pitch + 18 if goal else 0
    rows = max(1, -(-len(names) // COLUMNS))
    shapes: list[Shape] = []
    if goal:
        shapes += _slot(GAP / 2, 0, goal[0], goal[1], "slot goal", "goal")
        shapes.append(shape("line", x1=pitch + 9, y1=2, x2=pitch + 9, y2=rows * (SLOT + CAPTION) - 4, class_="divider"))
    for place in range(max(len(names), 3)):
        x, y = margin + GAP / 2 + place % COLUMNS * pitch, place // COLUMNS * (SLOT + CAPTION + 4)
        if place >= len(names):
            shapes.append(shape("rect", x=x, y=y, width=SLOT, height=SLOT, rx=7, class_="slot empty"))
            continue
        name = names[place]
        amount, change = held.get(name, 0), held.get(name, 0) - before.get(name, 0)
        kind = "slot more" if change > 0 else "slot less" if change < 0 else "slot"
        shapes += _slot(x, y, name, amount, kind, f"{change:+d}" if change else "")
    words = ", ".join(f"{held[name]} {name}" for name in names if held.get(name, 0) > 0) or "nothing"
    label = f"Inventory: {words}" + (f". Goal: {goal[1]} {goal[0]}" if goal else "")
    columns = min(COLUMNS, max(len(names), 3))
    return Picture(label, margin + columns * pitch, rows * (SLOT + CAPTION + 4), tuple(shapes))


def _slot(x: float, y: float, name: str, amount: int, kind: str, change: str) -> list[Shape]:
    margin = (SLOT - ICON) / 2
    shapes = [shape("rect", x=x, y=y, width=SLOT, height=SLOT, rx=7, class_=kind)]
    if amount > 0:
        shapes += icon(name, x + margin, y + margin)
        shapes.append(_text(x + SLOT - 4, y + SLOT - 5, str(amount), "amount", "end"))
    if change:
        shapes.append(_text(x + 4, y + 11, change.replace("-", "\N{MINUS SIGN}"), "change", "start"))
    for number, line in enumerate(_wrapped(name)):
        shapes.append(_text(x + SLOT / 2, y + SLOT + 10 + 9 * number, line, "caption", "middle"))
    return shapes


def _text(x: float, y: float, text: str, kind: str, anchor: str) -> Shape:
    return shape("text", x=x, y=y, class_=kind, text_anchor=anchor, text=text)


def _wrapped(name: str, width: int = 12) -> list[str]:
    """A name on at most two lines."""
    first, rest = "", name.split(" ")
    while rest and len(first) + len(rest[0]) < width:
        first = f"{first} {rest.pop(0)}".strip()
    if not first:
        return [name if len(name) <= width else name[: width - 1] + "…"]
    second = " ".join(rest)
    return [first, *([second if len(second) <= width else second[: width - 1] + "…"] if second else [])]
