"""The shop as a website: the same pages, in a real browser, and what hostile texts come to."""

import re
import threading
import time
from dataclasses import replace

import pytest

pytest.importorskip("Stemmer")
pytest.importorskip("fastapi")

import uvicorn
from starlette.testclient import TestClient
from typer.testing import CliRunner

from agentgym_rl.cli import app as cli
from agentgym_rl.envs import Task, make
from agentgym_rl.envs.bm25 import Index
from agentgym_rl.envs.protocol.server import Settings
from agentgym_rl.envs.webshop import WebShop, catalogue
from agentgym_rl.envs.webshop.html import render
from agentgym_rl.envs.webshop.shop import BM25, Shop, words
from agentgym_rl.envs.webshop.site import MAX_ACTIONS, create_site

EVIL = "<script>window.hacked=1</script>\"'><img src=x onerror=window.hacked=1>"
TASK = Task("webshop", 3)


def evil_shop() -> Shop:
    """A shop whose every text is hostile."""
    goal = catalogue.goal(3)
    product = replace(goal.product, title=EVIL, description=EVIL, bullets=(EVIL,), price_tag=EVIL, asin=EVIL.upper())
    product = replace(product, options={EVIL: (EVIL.lower(),)})
    goal = replace(goal, product=product, instruction=EVIL)
    return Shop([product], Index.over([product.contents], split=words, **BM25), lambda index: goal, {})


def site():
    return create_site(Settings(envs={"webshop": {}}))


def test_the_website_has_the_pages_of_the_environment():
    env = make("webshop")
    with TestClient(site()) as client:
        assert str(TASK.index) in client.get("/").text
        visit, actions = env.shop.visit(env.shop.goals(TASK.index)), []
        for action in env.oracle(TASK):
            visit.act(action)
            actions.append(action)
            page = client.get(f"/{TASK.index}", params={"do": [*actions, "click[nothing]"]})
            assert page.text == render(visit.page, actions)
        assert "<p>1.0</p>" in page.text and "script-src" not in page.headers["content-security-policy"]
        searched = client.get(f"/{TASK.index}", params={"search": "[red] shoes"}).text
        assert 'name="do" value="search[red shoes]"' in searched and "Page 1 (Total results:" in searched
        assert client.get("/999999").status_code == 404
        assert client.get("/3", params={"do": ["click[x]"] * (MAX_ACTIONS + 1)}).status_code == 422


def test_hostile_texts_are_escaped():
    visit = evil_shop().visit(evil_shop().goals(0))
    for action in (
        "",
        "search[script]",
        f"click[{EVIL.lower()}]",
        f"click[{EVIL.lower()}]",
        "click[features]",
        "click[< prev]",
    ):
        assert not action or visit.act(action)
        page = render(visit.page, [EVIL])
        tags = set(re.findall(r"<(\w+)", page))
        assert tags <= {
            "html",
            "head",
            "meta",
            "title",
            "style",
            "body",
            "form",
            "input",
            "button",
            "h2",
            "h3",
            "p",
            "a",
        }
        assert EVIL not in page and "&lt;script&gt;" in page
    visit.act("click[buy now]")
    assert "\\u003cscript" in visit.page.text and EVIL.lower() not in render(visit.page)


def test_only_the_shop_is_a_website():
    for arguments in (["maze", "--html"], ["webshop", "--html", "--protocol", "mcp"]):
        result = CliRunner().invoke(cli, ["serve", *arguments])
        assert result.exit_code == 2 and "--html serves webshop alone" in result.stderr


def test_a_person_shops_in_a_browser(browser, monkeypatch):
    """By what is seen: the search bar, links and buttons; then the same in a shop of hostile texts."""
    server = uvicorn.Server(uvicorn.Config(site(), port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    page = browser.new_page()
    try:
        page.goto(f"{address}/{TASK.index}")
        goal = catalogue.goal(TASK.index)
        page.get_by_role("searchbox").fill(goal.product.title)
        page.get_by_role("button", name="Search").click()
        page.get_by_role("link", name=goal.product.asin).click()
        for value in goal.options:
            page.get_by_role("button", name=value, exact=True).click()
            assert page.get_by_role("button", name=value, exact=True).get_attribute("aria-pressed") == "true"
        page.get_by_role("button", name="Features").click()
        page.get_by_role("button", name="< Prev").click()
        page.get_by_role("button", name="Buy Now").click()
        assert page.get_by_text("1.0", exact=True).is_visible()
        monkeypatch.setattr(WebShop, "shop", property(lambda self: evil_shop()))
        page.goto(f"{address}/0")
        page.get_by_role("searchbox").fill("script")
        page.get_by_role("button", name="Search").click()
        page.get_by_role("link").click()
        page.get_by_role("button", name=EVIL.lower()).click()
        page.get_by_role("button", name="Description").click()
        assert page.get_by_text(EVIL).first.is_visible() and page.evaluate("window.hacked") is None
    finally:
        page.close()
        server.should_exit = True
        thread.join()
