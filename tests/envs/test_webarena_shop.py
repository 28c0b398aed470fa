"""WebArena's scores that ask the shop's REST interface, on a server that speaks it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from agentgym_rl.envs import Task
from agentgym_rl.envs.core import EnvTimeout, EnvUnavailable, ProtocolError, TaskNotFound
from agentgym_rl.envs.webarena import WebArena
from agentgym_rl.envs.webarena.config import read
from agentgym_rl.envs.webarena.evaluate import solved
from agentgym_rl.envs.webarena.shop import Shop

TOKEN = "eyJraWQiOiIxIn0.eyJ1aWQiOjF9.x-_Y"
ORDERS = "/rest/V1/orders"
REVIEWS = "/rest/V1/products/B0/1 2/reviews"
TOKENS = "/rest/default/V1/integration/admin/token"
HANG = object()
LATEST = "shopping_get_latest_order_url"
AUTHOR, RATING = "shopping_get_sku_latest_review_author", "shopping_get_sku_latest_review_rating"
SKU = "B0/1 2"


def review(name: str, percent: int, rating: str = "Rating") -> dict[str, Any]:
    return {"nickname": name, "ratings": [{"rating_name": rating, "percent": percent, "value": percent // 20}]}


@dataclass
class Magento:
    """What the shop holds, and what it was asked."""

    orders: list[tuple[str, str]] = field(default_factory=list)
    """When each was made, and its number."""
    reviews: list[dict[str, Any]] = field(default_factory=list)
    password: str = "admin1234"
    instead: dict[str, Any] = field(default_factory=dict)
    """By path: the bytes of another answer, a status, or ``HANG``."""
    asked: list[str] = field(default_factory=list)
    url: str = ""
    ended: Event = field(default_factory=Event)

    def answer(self, path: str, query: dict[str, list[str]], body: bytes, token: str | None) -> Any:
        if path == TOKENS:
            credentials = json.loads(body)
            return TOKEN if credentials == {"username": "admin", "password": self.password} else 401
        if path.startswith("/sales/order/view/order_id/"):
            return f"<div class='order-details-items ordered'>SKU of {path}</div>".encode()
        if not path.startswith("/rest/"):
            return b"<h1>Shop</h1>"
        if token != f"Bearer {TOKEN}":
            return 401
        if path == REVIEWS:
            return self.reviews
        assert path == ORDERS
        made = sorted(self.orders, reverse=query["searchCriteria[sortOrders][0][direction]"] == ["DESC"])
        assert query["searchCriteria[sortOrders][0][field]"] == ["created_at"]
        size = int(query["searchCriteria[pageSize]"][0])
        items = [{"created_at": at, "increment_id": number} for at, number in made[:size]]
        return {"items": items, "total_count": len(made)}


@contextmanager
def magento(**held: Any) -> Iterator[Magento]:
    shop = Magento(**held)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            path = unquote(parts.path)
            shop.asked.append(path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = shop.instead.get(path)
            if answer is HANG:
                shop.ended.wait(20)
                return
            if answer is None:
                answer = shop.answer(path, parse_qs(parts.query), body, self.headers.get("Authorization"))
            self.send_response(answer if isinstance(answer, int) else 200)
            if answer == 302:
                self.send_header("Location", f"{shop.url}/elsewhere")
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

        do_POST = do_GET

        def log_message(self, *words: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        shop.url = f"http://127.0.0.1:{server.server_port}"
        yield shop
        shop.ended.set()
        server.shutdown()


def value(shop: Magento, function: str, sku: str = "", **options: Any) -> str:
    return asyncio.run(Shop(shop.url + "/", **options).value(function, sku))


def test_the_latest_order_and_review() -> None:
    orders = [("2023-05-02 10:00:00", "000000190"), ("2023-06-01 09:00:00", "000000191"), ("2022-01-01", "000000003")]
    with magento(orders=orders, reviews=[review("Mia", 20), review("Emma Lopez", 100)]) as shop:
        assert value(shop, LATEST) == f"{shop.url}/sales/order/view/order_id/191/"
        assert (value(shop, AUTHOR, SKU), value(shop, RATING, SKU)) == ("Emma Lopez", "100")
        assert shop.asked == [TOKENS, ORDERS, TOKENS, REVIEWS, TOKENS, REVIEWS]


def test_nothing_was_ordered_or_reviewed() -> None:
    with magento() as shop:
        assert [value(shop, LATEST), value(shop, AUTHOR, SKU), value(shop, RATING, SKU)] == ["", "", ""]


def test_the_administrators_name_and_password_are_sent() -> None:
    with magento(password="other") as shop:
        message = r"the shop refuses its administrator 'admin' \(.*/token answered 401\): give shop_admin"
        with pytest.raises(ProtocolError, match=message):
            value(shop, LATEST)
        with pytest.raises(ProtocolError, match="its administrator 'root'"):
            value(shop, LATEST, name="root", password="other")
        assert value(shop, LATEST, password="other") == "" and ORDERS in shop.asked


@pytest.mark.parametrize(
    ("path", "answer", "error"),
    [
        (TOKENS, b"", ProtocolError),
        (TOKENS, b"<html>", ProtocolError),
        (TOKENS, b'{"token": "a"}', ProtocolError),
        (TOKENS, b'"a\\r\\nX-Injected: b"', ProtocolError),
        (TOKENS, 500, EnvUnavailable),
        (TOKENS, 302, ProtocolError),
        (TOKENS, HANG, EnvTimeout),
        (REVIEWS, b'[{"nickname": "Mia"', ProtocolError),
        (REVIEWS, b"\xff", ProtocolError),
        (REVIEWS, b"{}", ProtocolError),
        (REVIEWS, b"null", ProtocolError),
        (REVIEWS, b'[{"nickname": "Mia", "ratings": []}]', ProtocolError),
        (REVIEWS, json.dumps([review("Mia", 20, "Colour")]).encode(), ProtocolError),
        (REVIEWS, 401, ProtocolError),
        (REVIEWS, 404, ProtocolError),
        (REVIEWS, 302, ProtocolError),
        (REVIEWS, 503, EnvUnavailable),
        (REVIEWS, HANG, EnvTimeout),
        (ORDERS, b'{"items": [{"increment_id": "last"}]}', ProtocolError),
        (ORDERS, b'{"total_count": 0}', ProtocolError),
        (ORDERS, HANG, EnvTimeout),
    ],
)
def test_a_shop_that_fails_gives_no_score(
    path: str, answer: Any, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    if answer is HANG:
        monkeypatch.setattr("agentgym_rl.envs.webarena.shop.SECONDS", 0.5)
    function = LATEST if path == ORDERS else RATING
    with magento(instead={path: answer}, reviews=[review("Mia", 20)], orders=[("2023", "1")]) as shop:
        with pytest.raises(error, match=re.escape(shop.url)):
            value(shop, function, SKU)
        assert "/elsewhere" not in shop.asked, "a redirect might lead to another host"
    with pytest.raises(EnvUnavailable, match="Cannot connect"):
        value(shop, function, SKU)


# ------------------------------------------------------------------------------------------------------------ scores


class Left:
    """A page that was left behind; it says where it is."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def goto(self, url: str) -> None:
        self.url = url

    async def evaluate(self, script: str, argument: Any = None) -> Any:
        return f"SKU of {self.url}"


def entry(*targets: tuple[str, str, str], number: int = 436) -> dict[str, Any]:
    """An entry of WebArena's files; of each target address, locator and what is included."""
    html = [{"url": url, "locator": find, "required_contents": {"must_include": [text]}} for url, find, text in targets]
    rules = {"eval_types": ["program_html"], "reference_answers": None, "reference_url": "", "program_html": html}
    task = {"task_id": number, "sites": ["shopping"], "intent": "Order it.", "start_url": "__SHOPPING__"}
    return {**task, "storage_state": None, "eval": rules}


ORDERED = (f"func:{LATEST}()", "document.querySelector('.order-details-items.ordered').outerText")
"""As in the tasks 436 to 440 and 506 to 510."""


def test_scores_by_hand() -> None:
    def score(*targets: tuple[str, str, str]) -> bool:
        config = read(entry(*targets), {"shopping": shop.url}, "here")
        return asyncio.run(solved(config, "", Left(f"{shop.url}/cart"), None, Shop(shop.url)))

    with magento(orders=[("2023-01-01", "7")], reviews=[review("Mia", 60), review("O&apos;Neil", 80)]) as shop:
        assert score((*ORDERED, "order_id/7/")) and not score((*ORDERED, "order_id/8/"))
        rating, author = (("last", f"func:{name}('{SKU}')") for name in (RATING, AUTHOR))
        assert score((*rating, "80"), (*author, "o'neil")), "as in the tasks 585 to 589"
        assert not score((*rating, "60"), (*author, "o'neil")) and not score((*rating, "80"), (*author, "Mia"))
    with magento() as shop:
        assert not score((*ORDERED, "SKU")), "nobody has ordered"
        assert not score((*author, "Mia"))


def test_they_need_the_address_of_the_shop(tmp_path: Path) -> None:
    away = {**entry((*ORDERED, "7")), "start_url": "__REDDIT__"}
    path = tmp_path / "test.json"
    path.write_text(json.dumps([away, {**entry(("last", "", "x"), number=1), "start_url": "__REDDIT__"}]))
    env = WebArena(tasks=str(path), sites={"reddit": "http://127.0.0.1:1"})
    with pytest.raises(TaskNotFound, match="webarena_436: its site shopping has no address"):
        env.goal(Task("webarena", 436))
    env = WebArena(tasks=str(path), sites={"reddit": "http://127.0.0.1:1", "shopping": "http://127.0.0.1:2"})
    assert env.goal(Task("webarena", 436)) == "Order it."


@pytest.mark.usefixtures("chromium")
@pytest.mark.timeout(300)
def test_a_task_in_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The options reach the shop, and the order's page is opened; a shop that hangs is no score."""
    path, order = tmp_path / "test.json", Task("webarena", 436)
    path.write_text(json.dumps([entry((*ORDERED, "SKU of /sales/order/view/order_id/191/"))]))
    monkeypatch.setenv("SHOP_PASSWORD", "secret")

    async def end(**options: str) -> float:
        env = WebArena(tasks=str(path), sites=f"shopping={shop.url}", **options)
        try:
            assert "Shop" in (await env.reset(order)).text
            return (await env.step("stop []")).reward
        finally:
            await env.close()

    right = {"shop_admin": "admin", "shop_password_env": "SHOP_PASSWORD"}
    with magento(orders=[("2023-06-01", "000000191")], password="secret") as shop:
        assert asyncio.run(end(**right)) == 1
        for wrong in ({}, {**right, "shop_admin": "root"}):
            with pytest.raises(ProtocolError, match="the shop refuses its administrator"):
                asyncio.run(end(**wrong))
        shop.orders.append(("2023-06-02", "000000192"))
        assert asyncio.run(end(**right)) == 0, "the latest order is another one"
        shop.instead[ORDERS] = HANG
        monkeypatch.setattr("agentgym_rl.envs.webarena.shop.SECONDS", 0.5)
        with pytest.raises(EnvTimeout, match="no answer within"):
            asyncio.run(end(**right))
