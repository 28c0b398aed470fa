"""The page of a comparison in a real browser, opened as a file."""

import pytest
from test_compare_page import comparison

from agentgym_rl.eval.comparison.page import write_page

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; it comes with the extra dev")

EVIL = '"><img src=x onerror=window.hurt=1><script>window.hurt=1</script>'


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    return write_page(comparison(folder / "runs", EVIL), folder / "compare.html")


@pytest.fixture(scope="module")
def page(file, browser):
    """The open page; it asked for nothing but itself and raised nothing when the tests are over."""
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    opened.set_default_timeout(20_000)
    urls, errors = [], []
    opened.on("request", lambda request: urls.append(request.url))
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text))
    opened.goto(file.as_uri())
    yield opened
    assert urls == [file.as_uri()] and errors == []


def shown(page):
    return set(page.locator("[data-chart]").evaluate_all("all => all.map(one => one.dataset.axis)"))


def test_the_axis_is_switched_by_mouse_and_keys(page):
    assert shown(page) == {"episodes"}
    labels = page.locator("#curves .chart text:last-child")
    assert labels.text_content() == "training episodes"
    page.check("#x-tokens")
    assert shown(page) == {"tokens"} and labels.text_content() == "training tokens"
    page.keyboard.press("ArrowRight")
    assert shown(page) == {"minutes"}
    page.check("#x-episodes")
    assert page.locator("#curves .chart:visible polyline.line").count() == 4  # two arms and their controls


def test_points_are_told_to_mouse_and_keys(page):
    chart, tooltip = page.locator("#curves .chart:visible"), page.locator("#point")
    sync_api.expect(tooltip).to_be_hidden()
    chart.hover()
    sync_api.expect(tooltip).to_be_visible()
    page.mouse.move(0, 0)
    sync_api.expect(tooltip).to_be_hidden()
    chart.focus()
    texts = []
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown", "Escape"):
        page.keyboard.press(key)
        texts.append(tooltip.inner_text() if tooltip.is_visible() else None)
    assert "20.0%" in texts[0] and "step 0" in texts[0] and "step 1, 100 episodes, 1k tokens, 1.0 minutes" in texts[1]
    assert "step 2" in texts[2] and texts[3] == texts[1] and texts[4] != texts[3] and texts[5] is None


def test_arms_are_hidden_and_shown(page):
    lines, chip = page.locator("#curves .chart:visible .series:visible"), page.locator(".chip").first
    before = lines.count()
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false" and lines.count() == before - 2
    chip.press("Enter")
    assert chip.get_attribute("aria-pressed") == "true" and lines.count() == before


def test_seeds_and_colours_are_switched(page):
    assert not page.get_by_text("seed 1: 60.0").first.is_visible()
    page.check("#seeds")
    assert page.get_by_text("seed 1: 60.0").first.is_visible()
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.click("#theme")
    assert page.evaluate(ground) != before
    page.click("#theme")
    assert page.evaluate(ground) == before


def test_hostile_names_are_text(page):
    assert page.evaluate("window.hurt") is None
    assert page.locator("img").count() == 0 and page.get_by_text(EVIL).count() > 0


def test_narrow_screens_do_not_scroll_sideways(page):
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.set_viewport_size({"width": 1200, "height": 900})
