"""A service that takes JSON and gives JSON over HTTP."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from agentgym_rl.envs.core import EnvUnavailable, ProtocolError
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.hosts.host import PerLoop

MAX_REQUESTS = 64
"""Requests to one service at the same time."""


class Endpoint:
    """The service at an address. Ignores the proxies of the process environment; refuses redirects.

    Args:
        key: name of the option that gives the address; for the messages.
        path: that of an address without one.
        timeout: seconds without an answer until a request fails.
        token: sent with each request, if there is one.

    Raises:
        ValueError: the address is not an HTTP address, or the timeout is not positive.
        MissingExtra: aiohttp is not installed.
    """

    def __init__(self, url: str, path: str, timeout: float, key: str = "url", token: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"{key} {url!r} is not an address; give one such as http://127.0.0.1:8000{path}")
        if timeout <= 0:
            raise ValueError(f"timeout is {timeout:g}; give a positive number of seconds")
        with needs(f"{key}={url}", "remote"):
            from agentgym_rl.envs import http
        self._http = http
        self.url = url if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}{path}"
        self._timeout, self._token = timeout, token
        self._places = PerLoop(lambda: asyncio.Semaphore(MAX_REQUESTS))

    async def post(self, body: Any) -> bytes:
        """The answer to a request.

        Raises:
            EnvUnavailable: the service cannot be reached, or is busy or broken.
            EnvTimeout: it did not answer in time.
            ProtocolError: it refuses the request.
        """
        return await self._answer("POST", body)

    async def get(self) -> bytes:
        """The answer to a request without a body; raises as :meth:`post`."""
        return await self._answer("GET")

    async def _answer(self, method: str, body: Any = None) -> bytes:
        async with self._places.get(), self._http.session(self._token) as session:
            status, answer = await self._http.request(session, method, self.url, self._timeout, body)
        if status >= 300:
            may_pass = status >= 500 or status == 429
            raise (EnvUnavailable if may_pass else ProtocolError)(f"{self.url} answered {status}")
        return answer
