"""Models behind an OpenAI-compatible API, with a server on loopback."""

import asyncio
import json

import pytest
from chat_server import ChatServer

from agentgym_rl.data import agenttraj
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.rollout.collect import collect
from agentgym_rl.rollout.policies.api import ChatModel, ModelRefused
from agentgym_rl.rollout.settings import RolloutSettings

pytestmark = pytest.mark.usefixtures("toys")


def count(messages):
    """Counts up as the counter environment wants it."""
    said = sum(message["role"] == "assistant" for message in messages)
    return f"Action: say {said + (messages[0]['role'] != 'user')}"


def run(server, out, retries=6, **arguments):
    async def work(name):
        model = ChatModel(name, temperature=0.5, seed=3, retries=retries)
        settings = RolloutSettings(max_new_tokens=64, retries=1)
        return await collect("counter", "test", out, model, settings, **arguments), model.usage

    return asyncio.run(server.during(work))


def test_a_model_plays_and_is_counted(tmp_path):
    server = ChatServer(count)
    summary, usage = run(server, tmp_path / "a.json", n=6, concurrency=3)
    assert (summary.attempted, summary.succeeded, summary.kept) == (6, 6, 6)
    assert usage.calls == len(server.requests) and usage.prompt_tokens == 10 * usage.calls
    assert 1 < server.most <= 3
    asked = server.requests[0]
    assert (asked["model"], asked["temperature"], asked["max_completion_tokens"]) == ("some/model", 0.5, 64)
    assert asked["messages"][-1]["content"].startswith("Count to")
    assert len(agenttraj.read(tmp_path / "a.json")) == 6


def test_samples_are_asked_with_other_seeds_and_equal_ones_count_once(tmp_path):
    server = ChatServer(count)
    summary, _ = run(server, tmp_path / "a.json", n=2, samples=3, per_task=2)
    assert {request["seed"] for request in server.requests} == {3, 4, 5}
    assert (summary.attempted, summary.kept) == (6, 2)


def test_rate_limits_and_faults_are_waited_out(tmp_path):
    server = ChatServer(count, (429, "slow down"), (500, "oops"), (503, "busy"))
    summary, _ = run(server, tmp_path / "a.json", n=2)
    assert summary.succeeded == 2


def test_a_server_that_stays_down_leaves_the_journal_and_is_gone_on_with(tmp_path):
    run(ChatServer(count), tmp_path / "whole.json")
    out = tmp_path / "a.json"
    server = ChatServer(count)
    server.dies_after = 4

    async def work(name):
        model = ChatModel(name, temperature=1, seed=3, retries=0)
        settings = RolloutSettings(max_new_tokens=8, retries=0)
        with pytest.raises(
            EnvUnavailable, match=r"counter_4. could not run: Aborted: openai:some/model.* did not answer"
        ):
            await collect("counter", "test", out, model, settings)
        assert not out.exists() and (tmp_path / "a.json.partial.jsonl").exists()
        server.dies_after = None
        await collect("counter", "test", out, model, settings)

    asyncio.run(server.during(work))
    assert out.read_bytes() == (tmp_path / "whole.json").read_bytes()


@pytest.mark.parametrize(("status", "message"), [(401, "no such key"), (404, "no such model"), (400, "bad field")])
def test_what_asking_again_would_not_mend_is_told_at_once(tmp_path, status, message):
    server = ChatServer(count, *[(status, message)] * 9)
    with pytest.raises(ModelRefused, match=message):
        run(server, tmp_path / "a.json", n=1)
    assert len(server.requests) == 1


def test_a_conversation_too_long_for_the_model_ends_the_episode(tmp_path):
    server = ChatServer(count, (400, "maximum context length is 8192 tokens"))
    summary, _ = run(server, tmp_path / "a.json", n=1, keep="all")
    assert (summary.attempted, summary.succeeded) == (1, 0)


def test_a_policy_name_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match="'openai:gpt' is not openai:<model>@<url>"):
        ChatModel("openai:gpt", temperature=1)


def test_collect_tells_tokens_and_cost(tmp_path):
    server = ChatServer(count)

    async def work(name):
        out = tmp_path / "a.json"
        command = ["-m", "agentgym_rl.cli", "collect", "maze", "--out", str(out), "--policy", name, "--n", "1",
                   "--max-turns", "2", "--keep", "all", "--price", "1000", "10000"]  # fmt: skip
        import sys

        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
        said, _ = await process.communicate()
        return said.decode(), json.loads(out.read_text())

    said, kept = asyncio.run(server.during(work))
    assert len(kept) == 1
    assert "2 calls, 20 + 4 tokens, cost 0.06" in said
