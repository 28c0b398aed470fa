"""What every page must be: nothing cut off, nothing on top of each other, readable, and usable by keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

WIDTHS = (1440, 390)
COLOURS = ("light", "dark")
RULES = ["wcag2a", "wcag2aa", "wcag21aa"]

OUTSIDE = """() => {
  const cut = (node) => { // what scrolls sideways, or hides what is too long for it, may be wider than the window
    for (let one = node; one && one !== document.body; one = one.parentElement) {
      const { overflowX, position } = getComputedStyle(one);
      if (overflowX !== "visible" || (position === "absolute" && one.matches(".hidden, h1"))) return true;
    }
    return false;
  };
  return [...document.body.querySelectorAll("*")].filter((node) => {
    const { left, right, width, height } = node.getBoundingClientRect();
    const beyond = width && height && (right > innerWidth + 1 || left < -1);
    return beyond && !node.closest(".skip, .md-sidebar") && !cut(node.closest("svg") ?? node.parentElement);
  }).map((node) => node.outerHTML.slice(0, 120));
}"""

OVERLAPPING = """(selector) => {
  const all = [...document.querySelectorAll(selector)].filter((node) => node.checkVisibility());
  const boxes = new Map(all.map((node) => [node, node.getBoundingClientRect()]));
  const before = (a, b) => a.right <= b.left + 1 || a.bottom <= b.top + 1;
  const apart = (a, b) => before(a, b) || before(b, a);
  const over = (one, other) => !one.contains(other) && !apart(boxes.get(one), boxes.get(other));
  return all.flatMap((one, place) => all.slice(place + 1).filter((other) => over(one, other))
    .map((other) => one.textContent + " | " + other.textContent));
}"""

CUT_TEXT = """(selector) => [...document.querySelectorAll(selector)].filter((node) => {
  const long = node.checkVisibility() && node.scrollWidth > node.clientWidth + 1;
  return long && getComputedStyle(node).textOverflow !== "ellipsis";
}).map((node) => node.textContent)"""


def problems(page: Any, controls: str, within: str = "body") -> dict[str, dict[str, list[Any]]]:
    """What is wrong with an open page at both widths, light and dark; empty if nothing is.

    Args:
        controls: selects what is pressed, which must neither overlap nor be cut.
        within: selects the part that axe looks at.
    """
    axe = pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python, of the extra dev")
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for colour in COLOURS:
            page.emulate_media(color_scheme=colour)
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            found[f"{width}, {colour}"] = _problems(page, controls, within)
    return {name: value for name, value in found.items() if value}


def _problems(page: Any, controls: str, within: str) -> dict[str, list[Any]]:
    found = page.evaluate("([part, tags]) => axe.run(part, {runOnly: tags})", [within, RULES])
    broken = [
        (violation["id"], [node["html"][:160] for node in violation["nodes"][:3]]) for violation in found["violations"]
    ]
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    named = {
        "scrolls sideways": [wide] if wide > 0 else [],
        "outside the window": page.evaluate(OUTSIDE),
        "overlapping": page.evaluate(OVERLAPPING, controls),
        "cut": page.evaluate(CUT_TEXT, controls),
        "not accessible": broken,
    }
    return {name: value for name, value in named.items() if value}


def tabbed(page: Any, times: int) -> list[str]:
    """What the tab key comes to, by id, text or tag; each can be seen and shows that it has the focus."""
    seen = []
    for _ in range(times):
        page.keyboard.press("Tab")
        name, shown = page.evaluate("""() => {
          const node = document.activeElement, style = getComputedStyle(node);
          const told = style.outlineStyle !== "none" || node.matches(".switch input, .skip");
          return [node.id || node.textContent.trim().slice(0, 20) || node.tagName, node.checkVisibility() && told];
        }""")
        assert shown, f"{name} has the focus and does not show it"
        seen.append(name)
    return seen
