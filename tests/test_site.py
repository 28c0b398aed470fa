"""The built documentation in a real browser; `make docs` builds it and runs this."""

import functools
import http.server
import threading
from pathlib import Path

import pytest
from pages import problems

SITE = Path(__file__).parents[1] / "site"
pytestmark = pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="the site is not built: make docs")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture(scope="module")
def address():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("path", ["", "concepts/", "viewer/", "reference/data/"])
def test_pages_fit_and_can_be_read(address, browser, path):
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address + path)
    found = problems(page, ".md-header__button", within=".md-content")
    assert found == {}
    page.close()


def test_search_finds_pages(address, browser):
    page = browser.new_page()
    page.goto(address)
    page.get_by_role("button", name="Search").click()
    page.get_by_role("combobox", name="Search").fill("turn limit")
    page.get_by_role("option", name="Curriculum").first.click()
    page.wait_for_url("**/curriculum/**")
    page.close()
