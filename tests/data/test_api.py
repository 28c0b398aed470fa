"""Models behind an OpenAI-compatible API, with a server on loopback."""

import asyncio
import json

import pytest
from aiohttp import web

from agentgym_rl.data import agenttraj
from agentgym_rl.data.api import ChatModel, ModelRefused, api
from agentgym_rl.data.collect import collect
from agentgym_rl.data.settings import RolloutSettings
from agentgym_rl.envs.core import EnvUnavailable

pytestmark = pytest.mark.usefixtures("toys")


class Server:
    """Counts up as the counter world wants it; ``faults`` are answered first, one a request."""

    def __init__(self, *faults):
        self.faults = list(faults)
        self.requests = []
        self.most = self.running = 0
        self.dies_after = None

    async def answer(self, request):
        body = await request.json()
        self.requests.append(body)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.01)
        self.running -= 1
        if self.dies_after is not None and len(self.requests) > self.dies_after:
            return web.json_response({"error": {"message": "gone"}}, status=500)
        if self.faults:
            status, message = self.faults.pop(0)
            return web.json_response({"error": {"message": message}}, status=status, headers={"retry-after-ms": "1"})
        said = sum(message["role"] == "assistant" for message in body["messages"])
        start = 1 if body["messages"][0]["role"] == "user" else 0
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": None}}
        choice["message"]["content"] = f"Action: say {said - start + 1}"
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        return web.json_response(
            {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
        )


async def served(server, work):
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    try:
        return await work(f"openai:some/model@http://127.0.0.1:{port}/v1")
    finally:
        await runner.cleanup()


def run(server, out, retries=6, **arguments):
    async def work(name):
        model = ChatModel(name, temperature=0.5, turn_tokens=64, retries=retries)
        player = api(model, RolloutSettings(retries=1), seed=3)
        return await collect("counter", "test", out, policy=player, **arguments), model.usage

    return asyncio.run(served(server, work))


def test_a_model_plays_and_is_counted(tmp_path):
    server = Server()
    summary, usage = run(server, tmp_path / "a.json", n=6, concurrency=3)
    assert (summary.attempted, summary.succeeded, summary.kept) == (6, 6, 6)
    assert usage.calls == len(server.requests) and usage.prompt_tokens == 10 * usage.calls
    assert 1 < server.most <= 3
    asked = server.requests[0]
    assert (asked["model"], asked["temperature"], asked["max_completion_tokens"]) == ("some/model", 0.5, 64)
    assert asked["messages"][-1]["content"].startswith("Count to")
    assert len(agenttraj.read(tmp_path / "a.json")) == 6


def test_samples_are_asked_with_other_seeds_and_equal_ones_count_once(tmp_path):
    server = Server()
    summary, _ = run(server, tmp_path / "a.json", n=2, samples=3, per_task=2)
    assert {request["seed"] for request in server.requests} == {3, 4, 5}
    assert (summary.attempted, summary.kept) == (6, 2)


def test_rate_limits_and_faults_are_waited_out(tmp_path):
    server = Server((429, "slow down"), (500, "oops"), (503, "busy"))
    summary, _ = run(server, tmp_path / "a.json", n=2)
    assert summary.succeeded == 2


def test_a_server_that_stays_down_leaves_the_journal_and_is_gone_on_with(tmp_path):
    run(Server(), tmp_path / "whole.json")
    out = tmp_path / "a.json"
    server = Server()
    server.dies_after = 4

    async def work(name):
        model = ChatModel(name, temperature=1, turn_tokens=8, retries=0)
        player = api(model, RolloutSettings(retries=0), seed=3)
        with pytest.raises(
            EnvUnavailable, match=r"counter_4. could not be played: Aborted: openai:some/model.* did not answer"
        ):
            await collect("counter", "test", out, policy=player)
        assert not out.exists() and (tmp_path / "a.json.partial.jsonl").exists()
        server.dies_after = None
        await collect("counter", "test", out, policy=player)

    asyncio.run(served(server, work))
    assert out.read_bytes() == (tmp_path / "whole.json").read_bytes()


@pytest.mark.parametrize(("status", "message"), [(401, "no such key"), (404, "no such model"), (400, "bad field")])
def test_what_asking_again_would_not_mend_is_told_at_once(tmp_path, status, message):
    server = Server(*[(status, message)] * 9)
    with pytest.raises(ModelRefused, match=message):
        run(server, tmp_path / "a.json", n=1)
    assert len(server.requests) == 1


def test_a_conversation_too_long_for_the_model_ends_the_episode(tmp_path):
    server = Server((400, "maximum context length is 8192 tokens"))
    summary, _ = run(server, tmp_path / "a.json", n=1, keep="all")
    assert (summary.attempted, summary.succeeded) == (1, 0)


def test_a_policy_name_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match="'openai:gpt' is not openai:<model>@<url>"):
        ChatModel("openai:gpt", temperature=1, turn_tokens=8)


def test_collect_tells_tokens_and_cost(tmp_path):
    server = Server()

    async def work(name):
        out = tmp_path / "a.json"
        command = ["-m", "agentgym_rl.cli", "collect", "maze", "--out", str(out), "--policy", name, "--n", "1",
                   "--max-turns", "2", "--keep", "all", "--price", "1000", "10000"]  # fmt: skip
        import sys

        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
        said, _ = await process.communicate()
        return said.decode(), json.loads(out.read_text())

    said, kept = asyncio.run(served(server, work))
    assert len(kept) == 1
    assert "2 calls, 20 + 4 tokens, cost 0.06" in said
