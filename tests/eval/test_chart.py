"""Line charts as SVG."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.eval.html.chart import MOST, Axis, Line, chart, short, thinned

NUMBERS = st.floats(0.001, 1e9)


@given(NUMBERS, st.integers(3, 8), st.booleans())
def test_an_axis_holds_what_it_is_made_for(highest, count, whole):
    axis = Axis.to(highest, count, whole)
    assert axis.end >= highest and axis.ticks[0] == 0 and axis.ticks[-1] <= axis.end
    assert len(axis.ticks) <= count + 1
    assert not whole or all(tick == int(tick) for tick in axis.ticks)


def test_ticks_are_round_numbers():
    assert Axis.to(67).ticks == (0, 20, 40, 60)
    assert Axis.to(7.3).ticks == (0, 2, 4, 6)
    assert Axis.to(0).ticks[-1] == 1


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (0.25, "0.25"), (150, "150"), (1500, "1.5k"), (2e6, "2M"), (1.25e9, "1.25G")]
)
def test_short_numbers(value, shown):
    assert short(value) == shown


@given(st.integers(1, 5000))
def test_thinned_lines_keep_their_ends(count):
    places = thinned(count)
    assert places[0] == 0 and places[-1] == count - 1 and len(places) == min(count, MOST) == len(set(places))


def drawn(**fields):
    line = {"label": "a", "hue": "red", "x": [0, 5, 10], "y": [0, 50, 100], "says": ["p", "q", "r"]} | fields
    made = chart(
        [Line(**line)], name="n", x_label="minutes", x=Axis.to(10), y=Axis.to(100), size=(500, 300)
    )  # fmt: skip
    return ET.fromstring(made)


def places(element):
    return [tuple(map(float, pair.split(","))) for pair in element.get("points").split()]


def test_points_lie_on_the_scales():
    svg = drawn(band=([0, 40, 90], [10, 60, 100]))
    (x0, y0), (x1, y1), (x2, y2) = places(svg.find(".//polyline"))
    assert x0 < x1 < x2 and x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 > y1 > y2 and y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert len(places(svg.find(".//polygon"))) == 6
    dots = svg.findall(".//circle")
    assert [dot.get("data-says") for dot in dots] == ["p", "q", "r"]
    assert [(float(dot.get("cx")), float(dot.get("cy"))) for dot in dots] == [(x0, y0), (x1, y1), (x2, y2)]


def test_stepped_lines_hold_each_value():
    line = places(drawn(stepped=True).find(".//polyline"))
    assert len(line) == 5
    assert all(first[0] == second[0] or first[1] == second[1] for first, second in pairwise(line))


@given(st.text(min_size=1).filter(lambda text: not re.search(r"[^\x20-\ud7ff\ue000-\ufffd]", text)))
def test_texts_cannot_leave_their_place(text):
    svg = drawn(label=text, says=[text] * 3)
    assert svg.find("g[@data-label]").get("data-label") == text
    assert {dot.get("data-says") for dot in svg.findall(".//circle")} == {text}
