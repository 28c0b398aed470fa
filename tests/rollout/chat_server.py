"""An OpenAI-compatible server on loopback whose answers a test chooses."""

import asyncio
import json
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from threading import Thread

from aiohttp import web

from agentgym_rl.rollout.seeds import MOST_SEEDS, seed_of


@cache
def samples(*tasks, run=0):
    """The number of the sample, by the seeds that the requests of a run with a seed have."""
    return {
        seed_of(seed_of(run, task, sample), turn) % MOST_SEEDS: sample
        for task in tasks for sample in range(20) for turn in range(25)
    }  # fmt: skip


class ChatServer:
    """``say`` makes the answer from the messages; ``faults`` are answered first, one a request.

    A fault is a status and what the error says, or bytes, which are the whole body; None is an ordinary answer.
    """

    def __init__(self, say, *faults):
        self.say = say
        self.faults = list(faults)
        self.requests = []
        self.most = self.running = 0
        self.dies_after = None
        self.port = 0

    async def answer(self, request):
        body = await request.json()
        self.requests.append(body)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.01)
        self.running -= 1
        if self.dies_after is not None and len(self.requests) > self.dies_after:
            return web.json_response({"error": {"message": "gone"}}, status=500)
        if self.faults and (fault := self.faults.pop(0)):
            status, message = fault
            if isinstance(message, bytes):
                return web.Response(body=message, status=status)
            return web.json_response({"error": {"message": message}}, status=status, headers={"retry-after-ms": "1"})
        self.body = body  # of the request that is answered now
        message = {"role": "assistant", "content": self.say(body["messages"])}
        if body.get("stream"):
            return streamed(message)
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        return web.json_response(
            {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
        )

    async def during(self, work):
        """``work`` is given the policy's name while the server is up."""
        async with self.up() as name:
            return await work(name)

    @asynccontextmanager
    async def up(self):
        """The policy's name, the same each time."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]
        try:
            yield f"openai:some/model@http://127.0.0.1:{self.port}/v1"
        finally:
            await runner.cleanup()


@contextmanager
def serving(server):
    """The name of its model, while it runs in a thread beside the test."""
    loop = asyncio.new_event_loop()
    up = server.up()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(up.__aenter__(), loop).result(10)
    finally:
        asyncio.run_coroutine_threadsafe(up.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def streamed(message):
    """An answer as a stream of server-sent events, in one piece."""
    base = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    choice = {"index": 0, "delta": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    chunks = [{**base, "choices": [choice]}, {**base, "choices": [], "usage": usage}]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return web.Response(text="".join([*lines, "data: [DONE]\n\n"]), content_type="text/event-stream")
