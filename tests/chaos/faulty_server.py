"""A server of ours that fails when it is told to: ``python faulty_server.py PORT ORDERS ENV...``.

ORDERS is a JSON file, read at every request: ``{"do": "hang,refuse", "share": 0.1, "at": ["/step"]}``. At a share of
the requests whose path ends with one of ``at`` the server does one of these: ``crash`` (the process ends), ``hang`` (no
answer), ``slow`` (an answer after 1 s), ``garbage`` (status 200, no JSON), ``refuse`` (503), ``serve`` (no fault).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import uvicorn

from agentgym_rl.envs.protocol.server.app import create_app
from agentgym_rl.envs.protocol.server.settings import Settings

SLOW_S = 1.0


class Faulty:
    """An ASGI application in front of another one."""

    def __init__(self, app: Any, orders: Path, seed: int = 0) -> None:
        self.app, self.orders, self.random = app, orders, random.Random(seed)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        fault = self.fault(scope["path"]) if scope["type"] == "http" else "serve"
        if fault == "crash":
            os._exit(1)
        if fault == "hang":
            await asyncio.sleep(3600)
        if fault == "slow":
            await asyncio.sleep(SLOW_S)
        if fault in ("garbage", "refuse"):
            status, body = (200, b"<html>Welcome!</html>") if fault == "garbage" else (503, b"busy")
            await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/html")]})
            await send({"type": "http.response.body", "body": body})
            return
        await self.app(scope, receive, send)

    def fault(self, path: str) -> str:
        order = json.loads(self.orders.read_text())
        if not path.endswith(tuple(order["at"])) or self.random.random() >= order["share"]:
            return "serve"
        return self.random.choice(order["do"].split(","))


def main() -> None:
    port, orders, *envs = sys.argv[1:]
    app = create_app(Settings(envs={env: {"style": "compact"} for env in envs}))
    uvicorn.run(Faulty(app, Path(orders), int(port)), host="127.0.0.1", port=int(port), log_level="error")


if __name__ == "__main__":
    main()
