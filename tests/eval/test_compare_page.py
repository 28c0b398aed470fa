"""The page and the pictures of a comparison."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import write_run
from test_learning import metrics

pytest.importorskip("matplotlib")

from agentgym_rl.eval.compare import compare
from agentgym_rl.eval.compare_curves import learning_curves, svg, write_png
from agentgym_rl.eval.compare_page import page
from agentgym_rl.eval.html import Markup, join, tag
from agentgym_rl.eval.palette import look
from agentgym_rl.eval.runs import read

VOID = {"meta"}


class Page(HTMLParser):
    """Checks that elements close in order; keeps what a reader and a browser would see."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.tags = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, name, attributes):
        self.tags.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.tags.append((name, dict(attributes)))

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


def comparison(tmp_path, evil="easy"):
    stages = {"bc": 0.2, "grpo": 0.6, "control": 0.3}
    runs = [
        read(
            write_run(
                tmp_path / f"{kind}{seed}", seed=seed, stages=stages, episodes=300, seconds=180.0,
                metrics=metrics([0.3, 0.4, 0.5], share=[0.5, 0.6, 0.7]),
                config={"worlds": {"toy": {"difficulty": kind if kind == "plain" else evil}}},
            )
        )
        for kind in ("plain", "other")
        for seed in (0, 1)
    ]  # fmt: skip
    return compare(runs)


def test_the_page_is_whole_and_needs_nothing_else(tmp_path):
    html = page(comparison(tmp_path))
    seen = Page(html)
    assert not any(name in ("script", "link", "img", "iframe", "object", "image") for name, _ in seen.tags)
    assert not any(
        key in ("src", "href") and not value.startswith("#") for _, own in seen.tags for key, value in own.items()
    )
    assert not re.search(r"url\((?!#)|@import", html)
    ids = [own["id"] for _, own in seen.tags if "id" in own]
    assert len(ids) == len(set(ids))
    text = " ".join(seen.text)
    for part in ("Success, %", "60.0", "Difference on the same seeds", "+40.0", "Learning curves",
                 "Shares of the worlds", "Points gained", "Configurations differ in", "worlds.toy.difficulty",
                 "Runs"):  # fmt: skip
        assert part in text
    assert "prefers-color-scheme:dark" in html


def test_colours_of_the_drawings_follow_the_page(tmp_path):
    html = page(comparison(tmp_path))
    drawings = "".join(re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL))
    assert "var(--c0072b2)" in drawings and "DejaVu" not in drawings
    assert not re.search(r"#[0-9a-f]{6}\b", drawings), "a fixed colour is unreadable on dark or light"
    texts = [own for name, own in Page(html).tags if name == "text"]
    assert texts and all("fill: var(" in own["style"] for own in texts)


EVIL = st.text(st.sampled_from("<>&\"'/=$_[]{}script on¡雪 "), min_size=1, max_size=20)


@given(EVIL)
def test_elements_escape_whatever_they_hold(evil):
    seen = Page(tag("p", evil, [evil, tag("b", evil)], None, title=evil))
    assert "".join(seen.text) == evil * 3
    assert seen.tags == [("p", {"title": evil}), ("b", {})]
    assert join(Markup("<i>"), evil).startswith("<i>")


@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "$\\frac{1}{2}$ & _x"])
def test_configurations_cannot_break_the_page(tmp_path, evil):
    seen = Page(page(comparison(tmp_path, evil)))
    assert evil in "".join(seen.text)
    assert not any(name in ("script", "img") for name, _ in seen.tags)


def test_the_drawing_holds_its_text(tmp_path):
    drawn = ET.fromstring(svg(learning_curves(comparison(tmp_path, "a<b$c$"))))
    text = " ".join(drawn.itertext())
    for part in (
        "difficulty=plain",
        "difficulty=a<b$c$",
        "toy: new, sampled",
        "training episodes",
        "minutes",
        "hollow: control",
    ):
        assert part in text


def test_pictures_are_written(tmp_path):
    written = write_png(comparison(tmp_path), tmp_path / "out" / "a.png")
    assert [path.name for path in written] == ["a.png", "a-shares.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000 for path in written)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a-shares.png", "a.png"]


def test_a_picture_of_nothing_is_refused(tmp_path):
    found = compare([read(write_run(tmp_path / "a", algorithm="bc", stages={"bc": 0.4}))])
    with pytest.raises(ValueError, match="no curves to draw"):
        write_png(found, tmp_path / "a.png")
    assert "Learning curves" not in page(found)


def test_arms_look_different(tmp_path):
    stages = {"bc": 0.2, "grpo": 0.5, "control": 0.3}
    runs = [
        read(write_run(tmp_path / f"{lr}", stages=stages, config={"algorithm": {"name": "grpo", "lr": lr}}))
        for lr in range(10)
    ]
    found = compare(runs)
    online = [look(found.arms, number) for number, arm in enumerate(found.arms) if arm.stage == "grpo"]
    assert len(set(online)) == 10
