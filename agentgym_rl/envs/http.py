"""Requests over HTTP: one client for all services. Needs the extra ``remote``."""

from collections.abc import Mapping
from typing import Any

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientSession,
    ClientTimeout,
    InvalidURL,
    ServerTimeoutError,
    TCPConnector,
)

from agentgym_rl.envs.core import EnvTimeout, EnvUnavailable, ProtocolError

CONNECT_S = 10.0
"""Most seconds to connect."""
IDLE_S = 4.0
"""Seconds that an unused connection is kept: fewer than on servers (uvicorn 5), so that a server does not close one at
the moment a step is sent."""
MAX_ANSWER_BYTES = 16 << 20


class Absent(EnvUnavailable):
    """There is no server at the address, or it is full."""


class Unconnected(Absent):
    """There is no connection to the address, so that nothing was sent."""


def session(token: str | None = None, proxies: bool = False) -> ClientSession:
    """Connections, kept until it is closed.

    Args:
        token: sent as ``Authorization: Bearer``.
        proxies: whether those of the process environment are used.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else None
    connector = TCPConnector(limit=0, keepalive_timeout=IDLE_S)
    return ClientSession(connector=connector, headers=headers, trust_env=proxies)


async def request(
    http: ClientSession, method: str, url: str, seconds: float, body: Any = None, query: Mapping[str, int] | None = None
) -> tuple[int, bytes]:
    """Status and content of an answer. A redirect is one, and is not followed: the token stays with its host.

    Args:
        seconds: most until the answer is complete.
        body: sent as JSON, unless it is None.

    Raises:
        Unconnected: there is no connection.
        Absent: it broke before the answer was complete.
        EnvTimeout: there is no answer in time.
        ProtocolError: the URL is none, or the answer is longer than :data:`MAX_ANSWER_BYTES`.
    """
    what = f"{method} {url}"
    limits = ClientTimeout(total=seconds, sock_connect=(connect_s := min(seconds, CONNECT_S)))
    content = bytearray()
    try:
        async with http.request(
            method, url, json=body, params=query, timeout=limits, allow_redirects=False
        ) as response:
            async for chunk in response.content.iter_any():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise ProtocolError(f"{what}: the answer has more than {MAX_ANSWER_BYTES} bytes")
            return response.status, bytes(content)
    except ServerTimeoutError as error:
        raise Unconnected(f"{what}: no connection within {connect_s:g} s") from error
    except TimeoutError as error:
        raise EnvTimeout(f"{what}: no answer within {seconds:g} s") from error
    except InvalidURL as error:
        raise ProtocolError(f"{what}: {url!r} is no URL") from error
    except (ClientError, OSError) as error:
        kind = Unconnected if isinstance(error, ClientConnectorError) else Absent
        raise kind(f"{what}: {str(error) or type(error).__name__}") from error
