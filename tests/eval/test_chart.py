"""The chart library of the pages, in a real browser, and charts as pictures."""

from dataclasses import asdict
from itertools import pairwise

import pytest

from agentgym_rl.eval import html
from agentgym_rl.eval.html.chart import Chart, Line


@pytest.fixture(scope="module")
def page(browser):
    """A page on which the functions of the chart library are global."""
    opened = browser.new_page()
    opened.set_content('<p id="point" hidden></p>')
    files = [(html.HERE / name).read_text(encoding="utf-8") for name in ("html/dom.js", "html/chart.js")]
    opened.add_script_tag(content="\n".join(files))
    yield opened
    opened.close()


HIGHEST = [0.001, 0.0499, 0.3, 0.999, 1, 2.5, 7.3, 10, 67, 99.9, 100, 149, 3e5, 1e9]


@pytest.mark.parametrize("highest", HIGHEST)
@pytest.mark.parametrize("count", [3, 5, 8])
@pytest.mark.parametrize("whole_only", [False, True])
def test_ticks_are_few_and_stay_on_the_axis(page, highest, count, whole_only):
    places = page.evaluate(f"ticks(0, {highest}, roundStep({highest}, {count}, {str(whole_only).lower()}))")
    assert places[0] == 0 and places[-1] <= highest * 1.001 and len(places) <= count + 1
    assert not whole_only or all(tick == int(tick) for tick in places)


def test_ticks_are_round_numbers(page):
    assert page.evaluate("ticks(0, 67, roundStep(67, 5))") == [0, 20, 40, 60]
    assert page.evaluate("ticks(0, 7.3, roundStep(7.3, 5))") == [0, 2, 4, 6]
    assert page.evaluate("ticks(11, 39, roundStep(28, 5))") == [20, 30]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.25, "0.25"), (0.1 + 0.2, "0.3"), (150, "150"), (1500, "1.5k"), (2e6, "2M"), (1.25e9, "1.25G")],
)
def test_short_numbers(page, value, shown):
    assert page.evaluate(f"short({value!r})") == shown


@pytest.mark.parametrize("count", [1, 2, 149, 150, 151, 300, 4999])
def test_thinned_lines_keep_their_ends(page, count):
    places = page.evaluate(f"thinned({count})")
    assert places[0] == 0 and places[-1] == count - 1 and len(places) == min(count, 150) == len(set(places))


def chart(**fields):
    line = {"label": "a", "colour": "blue", "x": {"minutes": [0, 5, 10]}, "y": [0, 50, 100], "says": ["p", "q", "r"]}
    return Chart("n", {"minutes": "minutes"}, [Line(**line | fields)], 100.0, width=500, height=300)


def drawn(page, axis="minutes", **fields):
    """Points of the line and of the band, and the dots."""
    return page.evaluate(
        """([data, axis]) => {
          const drawn = chart(data, axis);
          if (!drawn) return null;
          const points = (name) => drawn.querySelector(name)?.getAttribute("points").split(" ")
            .map((pair) => pair.split(",").map(Number));
          const dots = [...drawn.querySelectorAll("circle")]
            .map((dot) => [dot.dataset.says, dot.cx.baseVal.value, dot.cy.baseVal.value]);
          return {line: points("polyline"), band: points("polygon"), dots, elements: drawn.querySelectorAll("*").length,
            label: drawn.querySelector(".series").dataset.label};
        }""",
        [asdict(chart(**fields)), axis],
    )


def test_points_lie_on_the_scales(page):
    plot = drawn(page, band=([0, 40, 90], [10, 60, 100]))
    (x0, y0), (x1, y1), (x2, y2) = plot["line"]
    assert x0 < x1 < x2 and x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 > y1 > y2 and y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert len(plot["band"]) == 6
    assert [says for says, *_ in plot["dots"]] == ["p", "q", "r"]
    for (_, *dot), place in zip(plot["dots"], plot["line"], strict=True):
        assert dot == pytest.approx(place, abs=0.01)


def test_stepped_lines_hold_each_value(page):
    line = drawn(page, stepped=True)["line"]
    assert len(line) == 5
    assert all(first[0] == second[0] or first[1] == second[1] for first, second in pairwise(line))


def test_areas_have_no_line(page):
    plot = drawn(page, band=([0, 0, 0], [0, 50, 100]), filled=True)
    assert plot["line"] is None and plot["dots"] == [] and len(plot["band"]) == 6


def test_a_line_is_left_out_on_an_axis_that_it_does_not_have(page):
    assert drawn(page, axis="tokens") is None


def test_loose_points_have_whiskers_and_no_line(page):
    plot = drawn(page, band=([0, 40, 90], [10, 60, 100]), loose=True, whiskers=True)
    assert plot["line"] is None and plot["band"] is None and len(plot["dots"]) == 3
    script = "data => [...chart(data, 'minutes').querySelectorAll('.whisker')].map(one => one.y1.baseVal.value)"
    ends = page.evaluate(script, asdict(chart(band=([0, 40, 90], [10, 60, 100]), loose=True, whiskers=True)))
    assert ends == sorted(ends, reverse=True) and len(ends) == 3


def test_references_lie_at_their_height_and_names_below_their_place(page):
    data = asdict(chart()) | {"references": {"oracle": 100.0, "random": 25.0}, "y_label": "success, %"}
    heights = "data => [...chart(data, 'minutes').querySelectorAll('.reference line')].map(one => one.y1.baseVal.value)"
    oracle, random = page.evaluate(heights, data)
    _, (_, _, half), (_, _, full) = drawn(page)["dots"]
    assert oracle == full and random - oracle == pytest.approx(1.5 * (half - full), abs=0.2)
    texts = "data => [...chart(data, 'minutes').querySelectorAll('text')].map(one => one.textContent)"
    assert {"success, %", "oracle", "random"} <= set(page.evaluate(texts, data))
    assert "b c" in "".join(page.evaluate(texts, data | {"names": ["a", "b c"]})).replace("bc", "b c")


def test_bars_lie_on_each_other_and_are_pressed(page):
    parts = [{"key": key, "label": key, "colour": "blue", "share": share, "says": f"{key} {share}"} for key, share in
             (("solved", 25), ("lost", 75))]  # fmt: skip
    data = {"name": "n", "x_label": "step", "y_label": "%", "width": 500, "height": 300,
            "columns": [{"label": "1", "parts": parts}, {"label": "2", "parts": parts[1:]}]}  # fmt: skip
    result = page.evaluate(
        """data => {
          const pressed = [];
          const drawn = bars({...data, press: (column, part) => pressed.push(column.label + part.key)});
          document.body.append(drawn);
          const marks = [...drawn.querySelectorAll('.mark')];
          marks.forEach(one => one.dispatchEvent(new MouseEvent('click', {bubbles: true})));
          drawn.remove();
          return [pressed, marks.map(one => [one.y.baseVal.value, one.height.baseVal.value])];
        }""",
        data,
    )
    pressed, ((solved, low), (lost, high), _) = result
    assert pressed == ["1solved", "1lost", "2lost"]
    assert lost + high == pytest.approx(solved, abs=0.2) and high == pytest.approx(3 * low, abs=0.3)


@pytest.mark.parametrize("names", [[f"{step}-{step + 24}" for step in range(1000, 2000, 25)],
                                   [f"agentevol round{number}" for number in range(20)]])  # fmt: skip
def test_names_do_not_lie_on_each_other(page, names):
    columns = [{"label": name, "parts": []} for name in names]
    data = {"name": "n", "x_label": "", "y_label": "%", "width": 420, "height": 300, "columns": columns}
    boxes = page.evaluate(
        """data => {
          const drawn = bars(data);
          document.body.append(drawn);
          drawn.style.width = data.width + "px";
          drawn.style.font = "10.5px system-ui, sans-serif"; // as the style sheet has it
          const boxes = [...drawn.querySelectorAll("[aria-hidden] text.small")].map(one => one.getBoundingClientRect());
          drawn.remove();
          return boxes.map(({left, right}) => [left, right]);
        }""",
        data,
    )
    assert len(boxes) > 3 and all(before[1] <= after[0] for before, after in pairwise(boxes))


@pytest.mark.parametrize("text", ["<script>window.hurt=1</script>", '"><img src=x onerror=window.hurt=1>', "&lt;"])
def test_texts_cannot_leave_their_place(page, text):
    plain, hostile = drawn(page), drawn(page, label=text, says=[text] * 3)
    assert hostile["label"] == text and {says for says, *_ in hostile["dots"]} == {text}
    assert hostile["elements"] == plain["elements"] and page.evaluate("window.hurt") is None


@pytest.mark.slow
def test_every_kind_of_line_can_be_a_picture(tmp_path):
    png = pytest.importorskip("agentgym_rl.eval.png", reason="needs matplotlib")
    band = ([0, 40, 90], [10, 60, 100])
    kinds = (
        {"hollow": True},
        {"loose": True, "faint": True},
        {"band": band},
        {"band": band, "whiskers": True},
        {"stepped": True},
        {"thin": True},
    )
    panels = [(chart(**fields), "minutes") for fields in kinds]
    file = png.write(tmp_path / "out" / "a.png", [panels], "a $caption_")
    assert file.read_bytes().startswith(b"\x89PNG") and [path.name for path in file.parent.iterdir()] == ["a.png"]
