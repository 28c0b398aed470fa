"""A search engine behind Search-R1's API (Jin et al. 2025, arXiv:2503.09516).

``POST {"queries": [query], "topk": k, "return_scores": true}`` is answered by
``{"result": [[{"document": {"contents": ...}, "score": ...}, ...]]}``.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from agentgym_rl.envs.core import EnvTimeout, EnvUnavailable, ProtocolError
from agentgym_rl.envs.searchqa.bm25 import Passage

THREADS = 64
"""Number of requests of a process to one engine at the same time."""


class Remote:
    """A search engine at an address. Ignores the proxies of the process environment.

    Args:
        url: the endpoint; one without a path gets Search-R1's, ``/retrieve``.
        timeout: seconds without an answer until a search fails.

    Raises:
        ValueError: the address is not an HTTP address, or the timeout is not positive.
    """

    def __init__(self, url: str, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"url {url!r} is not an address; give one such as http://127.0.0.1:8000/retrieve")
        if timeout <= 0:
            raise ValueError(f"timeout is {timeout:g}; give a positive number of seconds")
        self._url = url if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/retrieve"
        self._timeout = timeout
        self._opener = build_opener(ProxyHandler({}))
        self._threads = ThreadPoolExecutor(THREADS, "searchqa")

    async def search(self, query: str, topk: int) -> list[Passage]:
        """At most ``topk`` passages, best first.

        Raises:
            EnvUnavailable: the engine cannot be reached.
            EnvTimeout: it did not answer in time.
            ProtocolError: its answer is malformed.
        """
        answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, query, topk)
        try:
            contents = [hit["document"]["contents"] for hit in json.loads(answer)["result"][0]]
            return [Passage.of(each) for each in contents[:topk]]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise ProtocolError(f"{self._url} answered {answer[:80]!r}, not as Search-R1's API does") from error

    def _ask(self, query: str, topk: int) -> bytes:
        body: dict[str, Any] = {"queries": [query], "topk": topk, "return_scores": True}
        request = Request(self._url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                answer: bytes = response.read()
                return answer
        except HTTPError as error:
            with error:
                may_pass = error.code >= 500 or error.code == 429
                raise (EnvUnavailable if may_pass else ProtocolError)(f"{self._url} answered {error.code}") from error
        except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, TimeoutError):
                raise EnvTimeout(f"{self._url} did not answer within {self._timeout:g} s") from error
            raise EnvUnavailable(f"{self._url} cannot be reached: {reason}") from error
