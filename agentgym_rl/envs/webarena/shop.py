"""The REST interface of WebArena's shop, Magento's, which some of its scores ask.

Paths, fields and which entry is the latest are those of ``evaluation_harness/helper_functions.py`` in its repository.
"""

import json
import re
from typing import Any
from urllib.parse import quote, urlencode

from agentgym_rl.envs.core import ProtocolError
from agentgym_rl.envs.endpoint import Endpoint

ADMIN, PASSWORD = "admin", "admin1234"
"""The administrator of WebArena's shop (``browser_env/env_config.py``)."""
SECONDS = 30.0
"""Most for an answer."""

_ORDERS = "/rest/V1/orders?" + urlencode(
    {
        "searchCriteria[sortOrders][0][field]": "created_at",
        "searchCriteria[sortOrders][0][direction]": "DESC",
        "searchCriteria[pageSize]": "1",
    }
)
_TOKEN = re.compile(r"[\w.~+/=-]+", re.ASCII)
"""A token that a header can carry (RFC 6750)."""


class Shop:
    """The shop at an address, asked as its administrator. No other host is asked: redirects are refused.

    Args:
        url: address of the shop.
    """

    def __init__(self, url: str, name: str = ADMIN, password: str = PASSWORD) -> None:
        self._url, self._name, self._password = url.rstrip("/"), name, password

    async def value(self, function: str, sku: str) -> str:
        """What one of WebArena's helpers gives: an address, an author, or a rating in percent.

        It is empty where the shop has no order, or the product no review.

        Args:
            function: ``shopping_get_latest_order_url``, ``shopping_get_sku_latest_review_author`` or
                ``shopping_get_sku_latest_review_rating``.
            sku: the product whose review is asked for.

        Raises:
            EnvUnavailable, EnvTimeout: the shop cannot be reached, fails, or does not answer in time.
            ProtocolError: it refuses the administrator or the request, or its answer is malformed.
        """
        orders = function == "shopping_get_latest_order_url"
        asked = Endpoint(
            self._url + (_ORDERS if orders else f"/rest/V1/products/{quote(sku, safe='')}/reviews"),
            "/", SECONDS, token=await self._token(),
        )  # fmt: skip
        answer = await asked.get()
        try:
            parsed = json.loads(answer)
            entries = parsed["items"] if orders else parsed
            if entries == []:
                return ""
            if orders:
                return f"{self._url}/sales/order/view/order_id/{int(entries[0]['increment_id'])}/"
            review = entries[-1]
            return str(review["nickname"] if function.endswith("author") else _percent(review))
        except (ValueError, LookupError, TypeError) as error:
            raise ProtocolError(_malformed(asked, answer)) from error

    async def _token(self) -> str:
        asked = Endpoint(f"{self._url}/rest/default/V1/integration/admin/token", "/", SECONDS)
        try:
            answer = await asked.post({"username": self._name, "password": self._password})
        except ProtocolError as error:
            raise ProtocolError(
                f"the shop refuses its administrator {self._name!r} ({error}): give shop_admin and shop_password_env"
            ) from error
        try:
            token = json.loads(answer)
        except ValueError:
            token = None
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise ProtocolError(_malformed(asked, answer))
        return token


def _percent(review: Any) -> Any:
    rating = review["ratings"][0]
    if rating["rating_name"] != "Rating":
        raise ValueError(rating["rating_name"])
    return rating["percent"]


def _malformed(asked: Endpoint, answer: bytes) -> str:
    return f"{asked.url} answered {answer[:80]!r}, not as Magento's REST interface does"
