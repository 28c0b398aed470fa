"""A service that takes JSON and gives JSON over HTTP."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from agentgym_rl.envs.core import EnvTimeout, EnvUnavailable, ProtocolError

THREADS = 64
"""Number of requests to one service at the same time."""


class _Unredirected(HTTPRedirectHandler):
    """Takes a redirect for a refusal, so that the token stays with the host it is for."""

    def redirect_request(self, *given: Any) -> None:
        return None


class Endpoint:
    """The service at an address. Ignores the proxies of the process environment; refuses redirects.

    Args:
        key: name of the option that gives the address; for the messages.
        path: that of an address without one.
        timeout: seconds without an answer until a request fails.
        token: sent with each request, if there is one.

    Raises:
        ValueError: the address is not an HTTP address, or the timeout is not positive.
    """

    def __init__(self, url: str, path: str, timeout: float, key: str = "url", token: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"{key} {url!r} is not an address; give one such as http://127.0.0.1:8000{path}")
        if timeout <= 0:
            raise ValueError(f"timeout is {timeout:g}; give a positive number of seconds")
        self.url = url if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}{path}"
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._opener = build_opener(ProxyHandler({}), _Unredirected())
        self._threads = ThreadPoolExecutor(THREADS, "endpoint")

    async def post(self, body: Any) -> bytes:
        """The answer to a request.

        Raises:
            EnvUnavailable: the service cannot be reached, or is busy or broken.
            EnvTimeout: it did not answer in time.
            ProtocolError: it refuses the request.
        """
        return await self._answer(json.dumps(body).encode())

    async def get(self) -> bytes:
        """The answer to a request without a body; raises as :meth:`post`."""
        return await self._answer(None)

    async def _answer(self, body: bytes | None) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, body)

    def _ask(self, body: bytes | None) -> bytes:
        request = Request(self.url, body, self._headers)
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                answer: bytes = response.read()
                return answer
        except HTTPError as error:
            with error:
                may_pass = error.code >= 500 or error.code == 429
                raise (EnvUnavailable if may_pass else ProtocolError)(f"{self.url} answered {error.code}") from error
        except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, TimeoutError):
                raise EnvTimeout(f"{self.url} did not answer within {self._timeout:g} s") from error
            raise EnvUnavailable(f"{self.url} cannot be reached: {reason}") from error
