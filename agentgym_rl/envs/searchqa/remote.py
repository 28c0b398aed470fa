"""A search engine behind Search-R1's API (Jin et al. 2025, arXiv:2503.09516).

``POST {"queries": [query], "topk": k, "return_scores": true}`` is answered by
``{"result": [[{"document": {"contents": ...}, "score": ...}, ...]]}``.
"""

import json

from agentgym_rl.envs.core import ProtocolError
from agentgym_rl.envs.endpoint import Endpoint
from agentgym_rl.envs.searchqa.bm25 import Passage


class Remote:
    """A search engine at an address.

    Args:
        url: the endpoint; one without a path gets Search-R1's, ``/retrieve``.
        timeout: seconds without an answer until a search fails.

    Raises:
        ValueError: the address is not an HTTP address, or the timeout is not positive.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._endpoint = Endpoint(url, "/retrieve", timeout)

    async def search(self, query: str, topk: int) -> list[Passage]:
        """At most ``topk`` passages, best first.

        Raises:
            EnvUnavailable, EnvTimeout: see :meth:`.Endpoint.post`.
            ProtocolError: its answer is malformed.
        """
        answer = await self._endpoint.post({"queries": [query], "topk": topk, "return_scores": True})
        try:
            contents = [hit["document"]["contents"] for hit in json.loads(answer)["result"][0]]
            return [Passage.of(content) for content in contents[:topk]]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise ProtocolError(
                f"{self._endpoint.url} answered {answer[:80]!r}, not as Search-R1's API does"
            ) from error
