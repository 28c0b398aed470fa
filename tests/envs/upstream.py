"""Small servers that talk as AgentGym's do, oddities included, and remember what they were asked."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class Story:
    """One environment's replies: to /create (given the session's number), to /reset, and to the steps one after the
    other."""

    create: Any
    reset: Any
    steps: list[Any]
    key: str = "id"
    path: str = ""
    reset_fields: tuple[str, ...] = ("data_idx",)
    needs_body: Any = None
    observation: Any = None
    closes: bool = True
    words: tuple[str, ...] = ()
    hello: str = "ok"
    """The page at ``/``."""


STORIES = {
    "textcraft": Story(
        hello="This is environment TextCraft.",
        create=lambda n: {"id": n, "observation": "Goal: craft z.", "done": False, "reward": 0},
        reset={"id": 0, "observation": "Goal: craft x.", "done": False, "reward": 0},
        steps=[
            {"observation": "Got 1 y", "reward": 0, "done": False},
            {"observation": "Crafted 1 minecraft:x", "reward": 1, "done": True},
        ],
        needs_body={},
    ),
    "babyai": Story(
        hello="This is environment BabyAI.",
        create=lambda n: {"id": n},
        reset={
            "observation": "Your goal: go to the ball", "reward": 0, "score": 0, "deleted": False, "done": False
        },
        steps=[
            {"observation": "You see a ball", "reward": 0, "score": 0, "done": False},
            {"observation": "The task is completed.", "reward": 0.7, "score": 0.7, "done": True},
        ],
    ),
    "sciworld": Story(
        hello="This is environment ScienceWorld.",
        create=lambda n: {"id": n},
        reset={
            "task_name": "boil", "var_num": 3, "task_description": "Boil water.", "observation": "A kitchen.",
            "reward": 0, "score": 0, "deleted": False, "done": False,
        },
        steps=[
            {"observation": "You focus on the pot.", "reward": 8, "score": 8, "done": False},
            {"observation": "Nothing.", "reward": 0, "score": 8, "done": False},
            {"observation": "It boils.", "reward": 92, "score": 100, "done": True},
        ],
    ),
    "alfworld": Story(
        hello="This is environment AlfWorld.",
        create=lambda n: {"id": n},
        reset={"id": 0, "observation": "A room.", "available_actions": ["look", "go to desk 1"], "task_type": "a/b"},
        steps=[
            {"observation": "A desk.", "reward": 0.0, "available_actions": ["look"], "done": False},
            {"observation": "Done.", "reward": 1.0, "available_actions": [], "done": True},
        ],
        reset_fields=("game", "world_type"),
        closes=False,
    ),
    "maze": Story(
        hello="This is environment LMRL-Gym.",
        create=lambda n: {"id": n},
        reset={"observation": "The goal is at position 8, 6."},
        steps=[
            {"observation": "A wall.", "reward": -1, "done": False},
            {"observation": "Success", "reward": 1, "done": True},
        ],
        path="/maze",
        reset_fields=("game",),
        closes=False,
    ),
    "wordle": Story(
        hello="This is environment LMRL-Gym.",
        create=lambda n: {"id": n},
        reset={"id": 0, "observation": "Let's start Wordle!"},
        words=("shire", "panic"),
        steps=[
            {"observation": "b b y b b", "reward": 0, "done": False},
            {"observation": "g g g g g", "reward": 1, "done": True},
        ],
        path="/wordle",
        reset_fields=("seed",),
        closes=False,
    ),
    "webshop": Story(
        create=lambda n: n,
        reset=["WebShop", None],
        steps=[
            {"state": "Results", "reward": 0.0, "done": False, "info": None},
            {"state": "Thank you", "reward": 0.5, "done": True, "info": None},
        ],
        key="env_idx",
        reset_fields=("session_id",),
        observation="WebShop [SEP] Instruction: [SEP] Find me shorts",
        closes=False,
    ),
    "sqlgym": Story(
        create=lambda n: n,
        reset=["How many are there?", None],
        steps=[{"state": "[(3,)]", "reward": 1.0, "done": True, "info": {"x": 1}}],
        key="env_idx",
        reset_fields=("item_id",),
        closes=False,
    ),
    "searchqa": Story(
        create=lambda n: n,
        reset="Question: who?",
        steps=[
            {"observation": "<information>...</information>", "reward": 0, "done": False, "info": None},
            {"observation": "", "reward": 1, "done": True, "info": None},
        ],
        key="env_idx",
        reset_fields=("id",),
        needs_body={"id": 0},
    ),
    "movie": Story(
        create=lambda n: n,
        reset="Now new trial starts.\nYou should perform actions to accomplish the goal: find it\nGive me one action.",
        steps=[
            {"observation": "Observation: 3\nGive me one action.", "reward": 0.5, "done": False},
            {"observation": "Observation: 3\nGive me one action.", "reward": 0.5, "done": False},
            {"observation": "Observation: 4\nGive me one action.", "reward": 1.0, "done": True},
        ],
        key="env_idx",
        reset_fields=("id",),
        needs_body={"id": 0},
        closes=False,
    ),
    "webarena": Story(
        create=lambda n: {"env_idx": n},
        reset={"observation": "[1] RootWebArea", "sites": ["shopping"], "object": "buy it"},
        steps=[
            {"observation": "page 2", "reward": 0.0, "terminated": False, "truncated": False, "info": {}},
            {"observation": "the end", "reward": 1.0, "terminated": True, "truncated": False, "info": None},
        ],
        key="env_idx",
        reset_fields=("idx", "seed"),
        observation="OBJECTIVE: buy it",
    ),
}  # fmt: skip


@dataclass
class Upstream:
    """A server with one environment. Errors of environments with ``id`` come under status 200, others as status 500."""

    story: Story
    port: int = 0
    asked: list[tuple[str, Any]] = field(default_factory=list)
    """Path and body of every request but those that ask what the server is."""
    headers: list[dict[str, str]] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    """Steps taken in each open session."""
    made: int = 0
    before: Any = None
    """Awaited with every request, if set; may reply in the server's place."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.story.path}"

    def count(self, path: str) -> int:
        return sum(place == path for place, _ in self.asked)

    def restart(self) -> None:
        """Forget all sessions, and count them from 1 again."""
        self.open.clear()
        self.made = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path.removeprefix(self.story.path) if self.story.path else request.path
        if request.path == "/":
            return web.json_response(self.story.hello)
        if self.story.path and not request.path.startswith(self.story.path):
            raise web.HTTPNotFound
        if request.path.endswith("/numbering"):
            raise web.HTTPNotFound
        body = await request.json() if request.can_read_body else None
        self.asked.append((path, body))
        self.headers.append(dict(request.headers))
        if self.before is not None and (reply := await self.before(path, body)) is not None:
            return reply
        if path == "/create":
            if self.story.needs_body is not None and body != self.story.needs_body:
                return web.json_response({"detail": "Field required"}, status=422)
            self.made += 1
            self.open[self.made] = 0
            return web.json_response(self.story.create(self.made))
        if path == "/observation":
            session = int(request.query[self.story.key])
            return self._known(session) or web.json_response(self.story.observation)
        if path == "/filtered_vocab" and self.story.words:
            return self._known(int(request.query[self.story.key])) or web.json_response(self.story.words)
        if path == "/close" and not self.story.closes:
            raise web.HTTPNotFound
        if path not in ("/close", "/reset", "/step"):
            raise web.HTTPNotFound
        session = body[self.story.key]
        if refused := self._known(session):
            return refused
        if path == "/close":
            del self.open[session]
            return web.json_response(True)
        if path == "/reset":
            if set(body) != {self.story.key, *self.story.reset_fields}:
                return web.json_response({"detail": f"unexpected fields {sorted(body)}"}, status=422)
            self.open[session] = 0
            return web.json_response(copy.deepcopy(self.story.reset))
        turn = self.open[session]
        self.open[session] += 1
        return web.json_response(self.story.steps[min(turn, len(self.story.steps) - 1)])

    def _known(self, session: int) -> web.Response | None:
        if session in self.open:
            return None
        if self.story.key == "id":
            return web.json_response({"error": f"The id {session} is not valid."})
        return web.Response(status=500, text="Internal Server Error")

    @asynccontextmanager
    async def running(self):
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            await runner.cleanup()
            await asyncio.sleep(0)


def upstream(world: str = "textcraft", **changes: Any) -> Upstream:
    """A server of an environment, its story changed here and there."""
    story = copy.copy(STORIES[world])
    for key, value in changes.items():
        setattr(story, key, value)
    return Upstream(story)


@contextmanager
def running(server):
    """The server in an event loop of its own, as a script has it in another process."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    context = server.running()
    wait(context.__aenter__())
    try:
        yield server
    finally:
        wait(context.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def ours(**envs):
    """The address of our own server, in a thread, with the options of each environment."""
    import uvicorn

    from agentgym_rl.envs.protocol.server import Settings, create_app

    server = uvicorn.Server(uvicorn.Config(create_app(Settings(envs=envs)), port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
