"""The viewer in a real headless browser: served and exported, by mouse and by keyboard."""

import json
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'agentgym-rl[dev]'")
sys.path.insert(0, str(Path(__file__).parent / "eval"))

from viewer_episodes import HOSTILE, made, played, run_folder  # noqa: E402

from agentgym_rl.data import episode_store  # noqa: E402
from agentgym_rl.data.episode_store import EpisodeStore  # noqa: E402
from agentgym_rl.envs.picture import Picture, shape  # noqa: E402
from agentgym_rl.envs.webshop.drawing import picture  # noqa: E402
from agentgym_rl.envs.webshop.page import search_page  # noqa: E402
from agentgym_rl.eval.viewer import detail  # noqa: E402
from agentgym_rl.eval.viewer.export import export  # noqa: E402
from agentgym_rl.eval.viewer.server import Viewer  # noqa: E402

expect = sync_api.expect
served = pytest.mark.parametrize("page", ["served"], indirect=True)
"""For what does not depend on where the page comes from."""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The same run served and exported."""
    folder = run_folder(tmp_path_factory.mktemp("runs") / "demo")
    store = EpisodeStore(folder)
    viewer = Viewer(store)
    threading.Thread(target=viewer.serve_forever, daemon=True).start()
    exported = export(EpisodeStore(folder), tmp_path_factory.mktemp("exported")).as_uri()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_RL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield {"served": viewer.url, "exported": exported, "folder": folder}
    viewer.shutdown()
    viewer.server_close()


@pytest.fixture(params=["served", "exported"])
def page(request, places, browser):
    """An open page that ends as a failure when the browser asked for anything outside, or a script failed."""
    start = places[request.param]
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(20_000)
    asked, faults = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.goto(start)
    expect(page.locator("#count")).to_have_text("18 episodes")
    yield page
    inside = start.removesuffix("index.html")
    assert asked and [url for url in asked if not url.startswith(inside)] == []
    assert faults == []
    assert page.evaluate("window.hacked") is None
    page.close()


def rows(page):
    return page.locator(".row .name").all_inner_texts()


@served
def test_filters_narrow_the_list(page):
    page.select_option("#f-result", "failed")
    expect(page.locator("#count")).to_have_text("6 of 18 episodes")
    page.fill("#f-step", "0-10")
    expect(page.locator("#count")).to_have_text("5 of 18 episodes")
    assert set(rows(page)) == {"counter_1", "counter_2", "counter_3"}
    page.fill("#f-step", "ten")
    assert page.get_attribute("#f-step", "aria-invalid") == "true"
    page.click("#clear")
    expect(page.locator("#count")).to_have_text("18 episodes")
    page.select_option("#f-ending", "env_error")
    expect(page.locator("#count")).to_have_text("3 of 18 episodes")
    page.select_option("#f-ending", "")
    page.select_option("#f-panel", "unseen")
    page.select_option("#f-env", "babyai")
    expect(page.locator(".row .sub").first).to_contain_text("test · unseen · greedy")
    page.click("#clear")
    page.fill("#f-task", "SERVER IS GONE")
    expect(page.locator("#count")).to_have_text("3 of 18 episodes")


@served
def test_the_overview_counts_what_is_selected(page):
    cells = page.locator(".envs tbody tr", has_text="counter").locator("td")
    assert cells.nth(0).inner_text() == "15" and cells.nth(1).inner_text() == "50%", "the infrastructure's do not count"
    titles = page.locator(".overview .half h3").all_inner_texts()
    starts = ["Training", "Evaluations", "How training episodes end", "How evaluations end"]
    assert all(title.startswith(start) for title, start in zip(titles, starts, strict=True))
    page.select_option("#f-env", "textcraft")
    expect(page.locator(".envs tbody tr")).to_have_count(1)


@served
def test_training_and_evaluations_are_never_one_line(page):
    training, panels = page.locator(".overview .half:nth-child(1)"), page.locator(".overview .half:nth-child(2)")
    expect(training.locator("polyline.line")).to_have_count(1)
    assert training.locator(".mark").count() == 3, "steps 0, 10 and 20"
    assert panels.locator("polyline").count() == 0 and panels.locator(".mark").count() == 3
    said = training.locator(".mark").nth(1).get_attribute("data-says")
    assert said.startswith("counter, step 10: success 50%, 95% interval 15% to 85%\nn = 4 episodes of 4 tasks")
    page.click(".either >> text=reward")
    expect(training.locator("h3")).to_contain_text("reward over steps")
    assert training.locator(".mark").nth(1).get_attribute("data-says").startswith("counter, step 10: reward 0.50, 95%")


@served
def test_a_part_of_the_endings_filters_the_list_when_pressed(page):
    chart = page.locator(".overview .failing").first.locator(".chart")
    failed = chart.locator("rect.mark[data-says^='step 10: lost']")
    failed.click()
    expect(page.locator("#count")).to_have_text("2 of 18 episodes")
    assert rows(page) == ["counter_2", "counter_3"] and page.locator("rect.chosen").count() == 1
    failed.click()
    expect(page.locator("#count")).to_have_text("18 episodes")
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#point")).to_contain_text("step 0: solved")
    page.keyboard.press("Enter")
    expect(page.locator("#count")).to_have_text("1 of 18 episodes")
    assert rows(page) == ["counter_0"]


@served
def test_a_point_lists_the_episodes_of_its_line_when_pressed(page):
    training, panels = page.locator(".overview .half:nth-child(1)"), page.locator(".overview .half:nth-child(2)")
    training.locator(".mark[data-says^='counter, step 10']").click()
    expect(page.locator("#count")).to_have_text("5 of 18 episodes of counter")
    point = panels.locator(".mark[data-says*='textcraft: unseen']")
    point.click()
    expect(page.locator("#count")).to_contain_text("1 of 18 episodes of test")
    assert panels.locator(".mark").count() == 3, "the charts stay"
    expect(page.locator(".row .name")).to_have_text("craft beetroot soup")
    page.reload()
    expect(page.locator(".row .name")).to_have_text("craft beetroot soup")
    page.select_option("#f-env", "babyai")
    expect(page.locator("#count")).to_contain_text("1 of 18 episodes of test")
    expect(page.locator(".row .name")).not_to_have_text("craft beetroot soup")
    page.select_option("#f-env", "")
    page.click("#clear")
    expect(page.locator("#count")).to_have_text("18 episodes")


@served
def test_orders(page):
    page.select_option("#f-env", "counter")
    page.select_option("#f-order", "failures")
    names = page.locator(".row .name")
    expect(names.nth(0)).to_have_text("counter_3")  # of the newest step, then of the one before
    expect(names.nth(1)).to_have_text("counter_2")
    page.select_option("#f-order", "newest")
    expect(page.locator(".row .numbers").first).to_have_text(re.compile("^step 20"))
    page.select_option("#f-order", "varied")
    expect(names.nth(0)).to_have_text("counter_1")
    assert rows(page)[:3] == ["counter_1"] * 3


def test_an_episode_is_copied_and_saved(page, browser):
    page.fill("#f-task", "counter_3")
    page.click(".row")
    with page.expect_download() as saved:
        page.click("#save")
    found = json.loads(Path(saved.value.path()).read_text())
    assert saved.value.suggested_filename == "counter_3-step0.json"
    assert found["item_id"] == "counter_3" and found["turns"][0]["response"].startswith("Thought:\nbecause one")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied")
    text = page.evaluate("navigator.clipboard.readText()")
    assert text.startswith("counter_3, step 0: terminated, reward 0.000, 4 turns") and text.count("### assistant") == 4


def test_notes_are_kept_beside_the_run(places, browser):
    page = browser.new_page()
    page.goto(places["served"] + "#/episode/step000010/3")
    page.locator(".turn").first.wait_for()
    page.keyboard.press("e")
    page.keyboard.type("loops <b>here</b>")
    page.fill("#tags", "loop, odd,loop")
    page.click("#keep")
    expect(page.locator(".note-form [role=status]")).to_have_text("Kept beside the run")
    file = places["folder"].with_name("demo.notes.json")
    try:
        assert json.loads(file.read_text()) == {"step000010/3": {"note": "loops <b>here</b>", "tags": ["loop", "odd"]}}
        page.reload()
        page.select_option("#f-tag", "odd")
        expect(page.locator("#count")).to_have_text("1 of 18 episodes")
        expect(page.locator(".row .noted")).to_have_text("✎ loop, odd")
        assert page.input_value("#note") == "loops <b>here</b>"
        page.fill("#note", "")
        page.fill("#tags", "")
        page.click("#keep")
        expect(page.locator(".note-form [role=status]")).to_have_text("Kept beside the run")
        assert json.loads(file.read_text()) == {}
    finally:
        file.unlink()
        page.close()


def test_samples_of_a_task_are_one_row(browser, tmp_path):
    episodes = [made(number // 4, success=number % 4 == 1) for number in range(12)]
    episode_store.write(tmp_path / "a.parquet", episodes)
    viewer = Viewer(EpisodeStore(tmp_path))
    threading.Thread(target=viewer.serve_forever, daemon=True).start()
    page = browser.new_page()
    page.goto(viewer.url)
    expect(page.locator("#count")).to_have_text("12 episodes, 3 groups")
    assert "1 of 4" in page.locator(".row").first.inner_text() and page.locator(".row").count() == 3
    page.keyboard.press("g")
    expect(page.locator(".row")).to_have_count(12)
    page.close()
    viewer.shutdown()
    viewer.server_close()


def test_an_episode_is_a_conversation(page):
    page.select_option("#f-order", "turns")
    page.fill("#f-task", "counter_3")
    page.fill("#f-step", "20")
    page.click(".row")
    expect(page.locator(".episode h2")).to_have_text("counter_3")
    expect(page.locator(".turn")).to_have_count(4)
    first = page.locator(".turn").first
    assert first.locator(".part.thought").inner_text().strip() == "because one"
    assert first.locator(".part.action").inner_text().strip() == "say 0"
    assert first.locator(".command.bad").inner_text().split("\n")[0].startswith("not possible")
    assert first.locator(".observation pre").inner_text() == "one"
    assert "6 tokens" in first.inner_text() and "log p \N{MINUS SIGN}2.50" in first.inner_text()
    shades = [
        re.findall(r"p\d", name)[0]
        for name in first.locator(".response .token").evaluate_all("all => all.map(n => n.className)")
    ]
    assert shades == ["p0", "p1", "p2", "p3", "p4", "p5"]
    assert "log p \N{MINUS SIGN}4.000" in first.locator(".token.p5").get_attribute("title")
    facts = page.locator(".facts").inner_text()
    assert "30 prompt, 66 response" in facts and "step000020, row 3" in facts
    times = page.locator(".latency .parts").get_attribute("aria-label")
    assert times.startswith("Time: reset 0.20 s, wait ") and "generate 1.20 s" in times and "step 0.40 s" in times
    assert "not shown to the model" in page.locator(".turn").last.inner_text()
    grey = page.evaluate("getComputedStyle(document.querySelector('.observation pre')).color")
    assert grey == page.evaluate("getComputedStyle(document.querySelector('.legend')).color")
    said = page.evaluate("getComputedStyle(document.querySelector('.part.thought')).color")
    assert said != grey, "what is learnt looks otherwise than what is masked"


def background(page):
    return page.evaluate("getComputedStyle(document.querySelector('.response .p5')).backgroundColor")


@served
def test_the_keyboard_does_everything(page):
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    expect(page.locator(".row[aria-selected=true] .name")).to_have_text("counter_1")
    assert page.get_attribute("#list", "aria-activedescendant") == "row-1"
    page.keyboard.press("Enter")
    expect(page.locator(".episode h2")).to_have_text("counter_1")
    page.keyboard.press("n")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".turn.current")).to_have_attribute("aria-label", "Turn 2 of 2")
    page.keyboard.press("p")
    expect(page.locator(".turn.current")).to_have_attribute("aria-label", "Turn 1 of 2")
    assert page.evaluate("document.scrollingElement.scrollTop") == 0, "only the episode scrolls"
    shaded = background(page)
    page.keyboard.press("l")
    assert background(page) != shaded and page.get_attribute("#shade", "aria-pressed") == "false"
    surface = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("d")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != surface
    page.keyboard.press("]")
    expect(page.locator(".episode h2")).to_have_text("counter_2")
    page.keyboard.press("s")
    expect(page.locator(".task h2")).to_have_text("counter_2")
    page.keyboard.press("Escape")
    expect(page.locator(".overview")).to_have_count(1)
    page.keyboard.press("/")
    page.keyboard.type("counter_3")
    expect(page.locator("#count")).to_have_text("3 of 18 episodes")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.locator(".episode h2")).to_have_text("counter_3")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert page.locator(".episode h2").inner_text() == "counter_3"


def test_an_address_brings_back_what_was_open(page):
    page.fill("#f-task", "counter_2")
    page.locator(".row").nth(1).click()
    expect(page.locator(".episode h2")).to_have_text("counter_2")
    page.reload()
    expect(page.locator(".facts")).to_contain_text("step000010, row 2")
    expect(page.locator("#count")).to_have_text("3 of 18 episodes")
    page.go_back()
    expect(page.locator(".overview")).to_have_count(1)
    page.goto(page.url.split("#")[0] + "#/episode/step000000/99")
    expect(page.get_by_role("alert")).to_have_text("There is no such episode here.")


def test_an_address_with_words_of_a_goal_finds_its_task(page):
    """The list has goals of the rows in sight only, and with such an address it is empty."""
    page.goto(page.url.split("#")[0] + "#/?task=beetroot")
    page.reload()
    expect(page.locator("#count")).to_contain_text("1 of 18 episodes")
    expect(page.locator(".row .name")).to_have_text("craft beetroot soup")


@served
def test_the_view_follows_the_address(page):
    count = page.locator("#count")
    page.select_option("#f-result", "failed")
    page.click(".row")
    expect(page.locator(".episode")).to_have_count(1)
    page.select_option("#f-result", "solved")
    page.go_back()
    expect(page.locator("#f-result")).to_have_value("failed")
    failed = count.inner_text()
    page.goto(page.url.split("#")[0] + "#/list?result=uncounted")
    expect(count).to_have_text("3 of 18 episodes")
    page.go_back()
    expect(count).to_have_text(failed)
    page.select_option("#f-result", "uncounted")
    assert page.locator("#places a").first.get_attribute("href") == "#/?result=uncounted"


def until(page, expression):
    """Wait for what is true on the page; its policy lets no script look again and again."""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"{expression} did not come true")


DRAWINGS = """() => {
  window.drawings = 0;
  const drawn = (all) => all.flatMap((one) => [...one.addedNodes]).filter((node) => node.className === "overview");
  const count = (all) => { drawings += drawn(all).length; };
  new MutationObserver(count).observe(document.getElementById("main"), {childList: true});
}"""


@served
def test_the_first_page_is_drawn_once_for_an_address(page):
    page.evaluate(DRAWINGS)
    page.evaluate("location.hash = '#/?env=counter'")
    expect(page.locator("#count")).to_have_text("15 of 18 episodes")
    assert page.evaluate("drawings") == 1
    page.keyboard.press("r")
    until(page, "drawings > 1")
    page.select_option("#f-env", "")
    expect(page.locator(".envs tbody tr")).to_have_count(4)
    assert page.evaluate("drawings") == 3


@served
def test_arrows_scroll_a_table_that_is_wider_than_the_window(page):
    page.set_viewport_size({"width": 390, "height": 800})
    table = page.locator(".overview .scroll")
    table.focus()
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('.overview .scroll').scrollLeft > 0")


@served
def test_what_a_chart_says_does_not_stay_on_the_next_page(page):
    page.locator(".overview rect.mark").first.hover()
    expect(page.locator("#point")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator(".episode")).to_have_count(1)
    expect(page.locator("#point")).to_be_hidden()


@served
def test_goals_that_cannot_be_read_hide_no_episode(page):
    asked = []
    page.route("**/api/goals*", lambda route: (asked.append(route), route.fulfill(body="no JSON")))
    page.reload()
    expect(page.locator("#count")).to_contain_text("Goals cannot be read")
    expect(page.locator(".overview .chart").first).to_be_visible()
    page.locator(".row").first.click()
    expect(page.locator(".turn").first).to_be_visible()
    page.keyboard.press("s")
    expect(page.locator(".beside")).to_have_count(1)
    assert len(asked) == 1


@served
def test_a_filter_that_changes_while_a_task_is_loaded_does_not_stop_it(page):
    held = []
    page.route("**/api/episode*", lambda route: held.append(route))
    page.evaluate("location.hash = '#/task/counter_1'")
    expect(page.locator("body")).to_have_attribute("data-shows", "task")
    page.select_option("#f-result", "failed")
    page.wait_for_timeout(200)
    for route in held:
        route.continue_()
    expect(page.locator(".beside")).to_have_count(1)


@served
def test_links_of_the_same_task_keep_the_filters(page):
    page.fill("#f-task", "counter_1")
    page.click(".row")
    page.click("#same")
    page.locator(".beside thead a").last.click()
    expect(page.locator(".episode")).to_have_count(1)
    expect(page.locator("#f-task")).to_have_value("counter_1")


@served
def test_a_search_that_fails_leaves_no_filter(page):
    page.fill("#f-said", "nothing says this")
    page.press("#f-said", "Enter")
    expect(page.locator("#count")).to_contain_text("0 of 18")
    page.route("**/api/search*", lambda route: route.fulfill(body="no JSON"))
    page.fill("#f-said", "again")
    page.press("#f-said", "Enter")
    expect(page.get_by_role("alert")).to_contain_text("cannot be searched for")
    expect(page.locator("#count")).to_have_text("18 episodes")
    page.fill("#f-said", "")
    page.press("#f-said", "Enter")
    expect(page.locator("#count")).to_have_text("18 episodes")


@served
def test_the_focus_stays_where_keys_were_pressed(page):
    has = "document.activeElement.matches"
    chart = page.locator(".overview .half:nth-child(1) .chart")
    chart.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#point")).to_contain_text("counter, step 0")
    page.keyboard.press("Enter")
    expect(page.locator("#count")).to_contain_text("5 of 18 episodes")
    page.wait_for_function(f"{has}('.half:nth-child(1) .chart')")
    page.locator(".either button").last.press("Enter")
    assert page.evaluate(f"{has}('.either [aria-pressed=true]')")
    assert page.locator("#places [aria-current=page]").inner_text() == "Overview"
    page.click("#clear")
    page.fill("#f-task", "counter_1")
    page.click(".row")
    page.click("#same")
    assert page.locator("#places [aria-current]").count() == 0
    page.locator(".square").nth(1).press("Enter")
    expect(page.locator(".beside thead a")).to_have_count(2)
    page.wait_for_function(f"{has}('.square:nth-child(2)')")


@served
def test_a_picture_is_enlarged_by_a_key(page):
    page.select_option("#f-env", "babyai")
    page.click(".row")
    figure = page.locator("figure").first
    figure.press("Enter")
    assert "full" in figure.get_attribute("class") and page.locator(".episode").count() == 1
    figure.press(" ")
    assert "full" not in figure.get_attribute("class").split()


@served
def test_the_same_task_across_steps(page):
    page.fill("#f-task", "counter_1")
    page.click(".row")
    page.click("#same")
    heads = page.locator(".beside thead a")
    expect(heads).to_have_count(3)
    assert heads.all_inner_texts() == ["step 0", "step 10", "step 20"]
    assert page.locator(".beside thead .badge").all_inner_texts() == ["✕ failed", "✓ solved", "✓ solved"]
    assert page.locator(".beside tbody tr").count() == 2
    page.locator(".square").nth(1).click()
    expect(heads).to_have_count(2)
    heads.last.click()
    expect(page.locator(".facts")).to_contain_text("step000020, row 1")


def test_worlds_are_drawn(page):
    page.fill("#f-task", "textcraft_3")
    page.click(".row")
    pictures = page.locator(".turn .picture")
    expect(pictures.first).to_be_visible()
    assert pictures.count() == page.locator(".turn").count()
    assert pictures.last.get_attribute("aria-label").startswith("Inventory: ")
    page.fill("#f-task", "babyai_1")
    page.click(".row")
    expect(page.locator(".prompt .picture")).to_have_attribute("aria-label", re.compile("^Grid of "))
    assert page.locator(".prompt .picture .agent").count() == 1


@pytest.fixture
def watched(browser):
    """A page that ends as a failure when the browser asked for anything outside of this machine, or a script ran."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    yield page
    assert [url for url in asked if not url.startswith(("http://127.0.0.1:", "file:", "data:image/"))] == []
    assert page.evaluate("window.hacked") is None
    page.close()


@contextmanager
def serving(folder):
    viewer = Viewer(EpisodeStore(folder))
    threading.Thread(target=viewer.serve_forever, daemon=True).start()
    yield viewer.url
    viewer.shutdown()
    viewer.server_close()


WEB = ("webshop", "miniwob", "webarena")


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    """A run with an episode of each environment on the web."""
    folder = tmp_path_factory.mktemp("web")
    with ThreadPoolExecutor(1) as aside:  # this thread may run playwright's loop
        episodes = list(aside.map(lambda env: played(env, 16), WEB))
    episode_store.write(folder / "episodes" / "step000000.parquet", episodes)
    return folder


@pytest.mark.parametrize("way", ["served", "exported"])
def test_pages_and_screenshots_are_drawn(way, web, watched, tmp_path):
    with serving(web) as url, ThreadPoolExecutor(1) as aside:
        store = EpisodeStore(web)
        watched.goto(url if way == "served" else aside.submit(export, store, tmp_path / "out").result().as_uri())
        watched.set_default_timeout(60_000)
        for env in WEB:
            watched.goto(watched.url.partition("#")[0] + "#/list")
            watched.fill("#f-task", f"{env}_16")
            watched.click(".row")
            expect(watched.locator(".episode h2")).to_have_text(f"{env}_16")
            first = watched.locator(".prompt .picture")
            expect(first).to_be_visible()
            if env == "webshop":
                assert "I am looking for" in " ".join(first.locator("text").all_text_contents())
                assert watched.locator(".turn .picture .pressed").count() > 0
            else:
                expect(first).to_have_attribute("aria-label", re.compile("^Screenshot of http://"))
                source = first.locator("image").get_attribute("href")
                width = watched.evaluate(SIZE, source)
                assert width == {"miniwob": 332, "webarena": 1280}[env]
                narrow = first.bounding_box()["width"]
                first.click()
                assert first.bounding_box()["width"] > 1.5 * narrow


SIZE = """source => new Promise((done, fail) => {
    const picture = new Image()
    picture.onload = () => done(picture.naturalWidth)
    picture.onerror = fail
    picture.src = source
})"""


def test_hostile_pictures_do_nothing(watched, tmp_path, monkeypatch):
    drawing = '<svg xmlns="http://www.w3.org/2000/svg" onload="window.hacked=1"><script>window.hacked=1</script></svg>'
    shapes = [
        shape("script", text="window.hacked = 1"),
        shape("foreignObject", text="<img src=x onerror='window.hacked = 1'>"),
        shape("rect", onload="window.hacked = 1", onclick="window.hacked = 1", width=9, height=9),
        shape("text", text=HOSTILE, y=9),
        *(shape("image", width=9, height=9, href=source) for source in (
            "javascript:window.hacked=1", "http://example.com/x.png", f"data:image/svg+xml,{quote(drawing)}",
        )),
    ]  # fmt: skip
    hostile = Picture(HOSTILE, 100, 100, tuple(shapes))
    monkeypatch.setattr(detail, "draw", lambda episode: [hostile, picture(search_page(HOSTILE)), None])
    episode_store.write(tmp_path / "episodes" / "step000000.parquet", [made()])
    with serving(tmp_path) as url:
        watched.goto(url)
        watched.goto(url + "#/list")
        watched.click(".row")
        expect(watched.locator(".turn .picture text.wish").first).to_contain_text("<script>window.hacked = 1</script>")
        watched.locator(".prompt .picture rect").dispatch_event("click")
        watched.wait_for_timeout(200)
        drawn = watched.locator(".prompt .picture")
        assert drawn.locator("script, foreignObject, [onload], [onclick]").count() == 0
        assert [image.get_attribute("href") for image in drawn.locator("image").all()][:2] == [None, None]


def test_hostile_text_is_text(page):
    page.select_option("#f-env", "hostile")
    page.click(".row")
    expect(page.locator(".episode h2")).to_have_text("hostile_7")
    page.locator(".prompt summary").click()
    page.wait_for_timeout(100)
    for part in (page.locator(".turn .observation pre").first, page.locator(".part.thought").first):
        shown = part.evaluate("node => node.textContent")
        assert '<script>window.hacked = 1</script></script><img src=x onerror="window.hacked=1"> \' " &' in shown
        assert "U+202Egnp.exeU+202C ␛[31mred␛[0m nul␀ U+2028 {{x}} \ufffd" in shown.replace("\ud800", "\ufffd")
    assert page.locator("main script, main img, main iframe, main a[href^=javascript]").count() == 0
    assert page.locator("main .control").first.get_attribute("title") == "U+202E"
    assert page.locator("main .control[title='U+E0041'] + .control[title='U+3164']").count() > 0
    assert page.locator(".facts dd", has_text="<script>").count() == 1


@served
def test_what_was_said_is_searched_for(page):
    page.keyboard.press("f")
    page.keyboard.type("start: o")
    page.keyboard.press("Enter")
    expect(page.locator("#count")).to_contain_text("15 of 18 episodes")
    page.fill("#f-said", "say 3")
    page.press("#f-said", "Enter")
    expect(page.locator("#count")).to_contain_text("3 of 18 episodes")
    page.locator(".row").first.click()
    expect(page.locator(".episode .hit")).to_have_count(1)
    expect(page.locator(".turn.current.hit")).to_have_attribute("id", "turn-3")
    assert page.locator(".turn.current .worth").inner_text().split("\n") == [
        "reward 0.000",
        "advantage \N{MINUS SIGN}2.500",
    ]
    page.reload()
    expect(page.locator("#count")).to_contain_text("3 of 18 episodes")
    expect(page.locator(".turn.current.hit")).to_have_attribute("id", "turn-3")
    page.fill("#f-said", "say 2")
    page.press("#f-said", "Enter")
    expect(page.locator(".episode .hit")).to_have_attribute("id", "turn-2")
    page.click("#clear")
    expect(page.locator("#count")).to_have_text("18 episodes")
    expect(page.locator("#f-said")).to_have_value("")
    expect(page.locator(".episode .hit")).to_have_count(0)


@pytest.mark.parametrize("page", ["exported"], indirect=True)
def test_an_exported_page_has_no_search(page):
    assert page.locator("#f-said").count() == 0 and page.locator("#f-task").count() == 1


@served
def test_a_screenshot(page, tmp_path):
    page.click(".row")
    page.locator(".turn").first.wait_for()
    assert len(page.screenshot(path=tmp_path / "viewer.png")) > 20_000


@served
def test_a_narrow_window_shows_one_thing_at_a_time(page):
    side, main = page.locator("#side"), page.locator("#main")
    page.set_viewport_size({"width": 420, "height": 800})
    expect(main).to_be_visible()
    expect(side).to_be_hidden()
    page.click("#places >> text=Episodes")
    expect(side).to_be_visible()
    expect(main).to_be_hidden()
    page.click(".row")
    page.locator(".turn").first.wait_for()
    expect(main).to_be_visible()
    expect(side).to_be_hidden()
    page.keyboard.press("Escape")
    expect(side).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".overview")).to_be_visible()


def test_a_running_run_is_followed(places, browser):
    page = browser.new_page()
    page.goto(places["served"])
    expect(page.locator("#count")).to_have_text("18 episodes")
    new = places["folder"] / "episodes" / "step000030.parquet"
    try:
        episode_store.write(new, [made(5, step=30)])
        page.keyboard.press("r")
        expect(page.locator("#count")).to_have_text("19 episodes")
    finally:
        new.unlink()
        page.close()


def test_a_long_list_keeps_few_elements(browser, tmp_path):
    episodes = [made(number % 2, step=number // 2, turns=1) for number in range(5000)]
    episode_store.write(tmp_path / "a.parquet", episodes)
    viewer = Viewer(EpisodeStore(tmp_path))
    threading.Thread(target=viewer.serve_forever, daemon=True).start()
    page = browser.new_page()
    page.goto(viewer.url)
    expect(page.locator("#count")).to_have_text("5,000 episodes")
    page.keyboard.press("End")
    expect(page.locator(".row[aria-selected=true]")).to_have_attribute("aria-posinset", "5000")
    assert page.locator(".row").count() < 60
    page.keyboard.press("Enter")
    page.click("#same")
    expect(page.locator(".task > .muted")).to_contain_text("Squares of 2,000 of the episodes")
    assert page.locator(".square").count() == 2000 and page.locator(".square[aria-pressed=true]").count() == 6
    page.close()
    viewer.shutdown()
    viewer.server_close()


def test_hostile_strings_are_all_tried():
    for wanted in ("</script>", "javascript:", "\u202e", "\x1b", "\x00", "'", '"', "http://"):
        assert wanted in HOSTILE
