"""Tasks of the package ``webarena-verified``, which has an environment of its own: `make webarena-check`."""

from __future__ import annotations

import asyncio
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from threading import Thread

import pytest

from agentgym_rl.envs import Task
from agentgym_rl.envs.core import MissingExtra
from agentgym_rl.envs.probe import follow, walk
from agentgym_rl.envs.webarena import WebArena
from agentgym_rl.envs.webarena.verified import PACKAGE

needs_package = pytest.mark.skipif(find_spec(PACKAGE) is None, reason="needs webarena-verified: make webarena-check")

ANSWER = {"task_type": "NAVIGATE", "status": "SUCCESS", "retrieved_data": None, "error_details": None}


class Todos(BaseHTTPRequestHandler):
    """A site with two pages."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>Lab</title><a href=/dashboard/todos>To-Do List</a>")

    def log_message(self, *words: object) -> None:
        return None


@pytest.mark.skipif(find_spec(PACKAGE) is not None, reason="it is installed")
def test_without_the_package_it_is_named() -> None:
    with pytest.raises(MissingExtra, match=r"tasks=verified needs .* pip install 'agentgym-rl\[verified\]'"):
        WebArena(tasks="verified", sites="gitlab=http://127.0.0.1:1")


@needs_package
def test_its_tasks_are_those_with_a_site() -> None:
    env = WebArena(tasks="verified", sites="gitlab=http://127.0.0.1:1")
    assert env.goal(Task("webarena", 44)).startswith("Open my todos page The argument of stop is JSON")
    assert set(env.spec.splits) == {"test", "train", "rest"} and not env.spec.deterministic
    everywhere = ",".join(f"{site}=http://127.0.0.1:1" for site in
                          ("shopping", "shopping_admin", "reddit", "gitlab", "map", "wikipedia"))  # fmt: skip
    assert sum(map(len, WebArena(tasks="verified", sites=everywhere).spec.splits.values())) == 812


@needs_package
@pytest.mark.parametrize(
    ("actions", "reward"),
    [
        (["click [2]", f"stop [{json.dumps(ANSWER)}]"], 1),
        ([f"stop [{json.dumps(ANSWER)}]"], 0),
        (["click [2]", f"stop [{json.dumps(ANSWER | {'status': 'NOT_FOUND_ERROR'})}]"], 0),
        (["click [2]", "stop [done]"], 0),
    ],
)
def test_its_evaluators_see_answer_and_requests(actions: list[str], reward: float) -> None:
    async def play(url: str) -> float:
        env = WebArena(tasks="verified", sites={"gitlab": url})
        trail = await walk(env, Task("webarena", 44), follow(actions))
        await env.close()
        assert trail.done and not any(step.info["invalid"] for step in trail.steps)
        return trail.reward

    with ThreadingHTTPServer(("127.0.0.1", 0), Todos) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        assert asyncio.run(play(f"http://127.0.0.1:{server.server_port}")) == reward
        server.shutdown()
