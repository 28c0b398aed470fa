"""Models behind an OpenAI-compatible API, with a server on loopback."""

import asyncio
import json
import socket
import time
from itertools import pairwise

import pytest
from chat_server import ChatServer
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept
from toy import Counter

from agentgym_rl.data import agenttraj, episode_store
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs import Task
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.rollout.collect import collect
from agentgym_rl.rollout.gateway.request import Request
from agentgym_rl.rollout.gateway.texts import chat_of
from agentgym_rl.rollout.policies.api import UNREAD, ApiConversation, BudgetSpent, ChatModel, ModelRefused
from agentgym_rl.rollout.policies.chat_client import pause
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.texts import Written

pytestmark = pytest.mark.usefixtures("toys")


def count(messages):
    """Counts up as the counter environment wants it."""
    replies = sum(message["role"] == "assistant" for message in messages)
    return f"Action: say {replies + (messages[0]['role'] != 'user')}"


def run(server, out, retries=6, policy_seed=3, **arguments):
    async def work(name):
        model = ChatModel(name, temperature=0.5, seed=policy_seed, retries=retries)
        settings = RolloutSettings(max_new_tokens=64, retries=1)
        return await collect("counter", "test", out, model, settings, **arguments), model.usage

    return asyncio.run(server.during(work))


def test_a_model_plays_and_is_counted(tmp_path):
    server = ChatServer(count)
    summary, usage = run(server, tmp_path / "a.json", n=6, concurrency=3)
    assert (summary.attempted, summary.succeeded, summary.kept) == (6, 6, 6)
    assert usage.calls == len(server.requests) and usage.prompt_tokens == 10 * usage.calls
    assert 1 < server.most <= 3
    request = server.requests[0]
    assert (request["model"], request["temperature"], request["max_completion_tokens"]) == ("some/model", 0.5, 64)
    assert request["messages"][-1]["content"].startswith("Count to")
    assert len(agenttraj.read(tmp_path / "a.json")) == 6


def test_equal_trajectories_of_a_task_count_once(tmp_path):
    summary, _ = run(ChatServer(count), tmp_path / "a.json", n=2, samples=3, per_task=2)
    assert (summary.attempted, summary.kept) == (6, 2)


def test_no_two_requests_of_runs_tasks_samples_or_turns_share_a_seed(tmp_path):
    asked = [ChatServer(count) for _ in range(3)]
    for server, seed in zip(asked, (0, 1, 0), strict=True):
        run(server, tmp_path / "a.json", n=2, samples=3, policy_seed=seed)
    first, other, again = ([request["seed"] for request in server.requests] for server in asked)
    assert again == first
    assert len({*first, *other}) == len(first) + len(other)
    assert all(0 <= seed < 2**31 for seed in first)


def test_a_harness_that_asks_the_same_twice_is_answered_with_another_seed():
    server = ChatServer(count)

    async def work(name):
        chat = chat_of(ChatModel(name, temperature=1), seed=2**40)
        for _ in range(2):
            await chat.sample(Request(messages=[{"role": "user", "content": "go"}]), 8)

    asyncio.run(server.during(work))
    first, second = (request["seed"] for request in server.requests)
    assert first != second and max(first, second) < 2**31


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
            EnvUnavailable, match=r"episodes of .*.min_counted=1.; .* Aborted: openai:some/model.* did not answer"
        ):
            await collect("counter", "test", out, model, settings)
        assert not out.exists() and (tmp_path / "a.json.partial.jsonl").exists()
        server.dies_after = None
        await collect("counter", "test", out, model, settings)

    asyncio.run(server.during(work))
    assert out.read_bytes() == (tmp_path / "whole.json").read_bytes()


@pytest.mark.parametrize(("status", "message"), [(401, "no such key"), (404, "no such model"), (400, "bad field")])
def test_what_the_first_request_is_refused_is_told_at_once(tmp_path, status, message):
    server = ChatServer(count, *[(status, message)] * 9)
    with pytest.raises(ModelRefused, match=message):
        run(server, tmp_path / "a.json", n=1)
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "requests"), [(401, 1), (403, UNREAD), (400, UNREAD)])
def test_a_call_that_goes_on_tells_a_refusal_of_all_requests(tmp_path, status, requests):
    server = ChatServer(count, *[(status, "denied")] * 99)

    async def work(name):
        model = ChatModel(name, temperature=0)
        model.usage.add(10, 2)  # as an evaluation that goes on takes it over
        await collect("counter", "train", tmp_path / "a.json", model, RolloutSettings())

    with pytest.raises(ModelRefused, match="denied"):
        asyncio.run(server.during(work))
    assert len(server.requests) == requests


def test_a_server_that_is_not_there_is_told_within_seconds(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    model, begun = ChatModel(f"openai:m@{address}", temperature=0), time.monotonic()
    with pytest.raises(ModelRefused, match="cannot be reached: Connection error; check the address"):
        asyncio.run(collect("counter", "test", tmp_path / "a.json", model, RolloutSettings()))
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(("key", "says"), [("sk-1", "OPENAI_API_KEY$"), ("", "OPENAI_API_KEY, which is not set$")])
def test_a_key_that_is_refused_is_named(tmp_path, monkeypatch, key, says):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ModelRefused, match=f"no such key; the key is that of {says}"):
        run(ChatServer(count, (401, "no such key")), tmp_path / "a.json", n=1)


@pytest.mark.parametrize("concurrency", [1, 5])
def test_one_request_is_the_first(tmp_path, concurrency):
    with pytest.raises(ModelRefused, match="bad field"):
        run(ChatServer(count, (400, "bad field")), tmp_path / "a.json", concurrency=concurrency)
    episodes = play(ChatServer(count, None, (400, "bad field")), tmp_path / "b.json", n=5, concurrency=concurrency)
    assert sorted(endings(episodes)) == ["refused", *["terminated"] * 4]


# one answer decides nothing but itself

FILTER = {"message": "blocked", "code": "content_filter"}


def play(server, out, n=3, **arguments):
    run(server, out, n=n, keep="all", episodes=out.with_suffix(".parquet"), **arguments)
    return episode_store.read(out.with_suffix(".parquet"))


def endings(episodes):
    return [episode.ending.value for episode in episodes]


def body(data):
    return json.dumps(data).encode()


@pytest.mark.parametrize(("fault", "ending"), [
    ((400, "no such role"), "refused"), ((403, "denied"), "refused"), ((422, "odd"), "refused"),
    ((400, body({"error": FILTER})), "refused"), ((200, body({"error": FILTER})), "refused"),
    ((200, body({"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]})), "refused"),
    ((200, b"<html>Welcome</html>"), "malformed"), ((200, b""), "malformed"), ((200, body({})), "malformed"),
    ((200, body({"choices": None})), "malformed"), ((200, body({"choices": []})), "malformed"),
    ((413, b"<html>413</html>"), "context_limit"), ((422, "inputs must have less than 10 tokens"), "context_limit"),
    ((500, "Context size has been exceeded."), "context_limit"), ((400, "prompt is too long"), "context_limit"),
])  # fmt: skip
def test_an_answer_ends_its_own_episode_alone(tmp_path, fault, ending):
    server = ChatServer(count, None, fault)
    episodes = play(server, tmp_path / "a.json")
    assert sorted(endings(episodes)) == sorted([ending, "terminated", "terminated"])
    (error,) = (episode.error for episode in episodes if episode.error)
    assert error.startswith("openai:some/model@") and " answered " in error
    assert len(server.requests) == sum(len(episode.turns) for episode in episodes) + 1  # none was asked again


@pytest.mark.parametrize("fault", [(200, body({"error": FILTER})), (400, "prompt is too long"), (200, b"<html>")])
def test_such_an_answer_may_be_the_first(tmp_path, fault):
    assert endings(play(ChatServer(count, fault), tmp_path / "a.json"))[1:] == ["terminated", "terminated"]


def test_what_is_no_api_is_told_in_the_end(tmp_path):
    server = ChatServer(count, *[(200, b"<html>Welcome</html>")] * 30)
    with pytest.raises(ModelRefused, match=r"<html>Welcome</html>, as the last of 20 .* check the address"):
        run(server, tmp_path / "a.json", samples=9)
    assert len(server.requests) == 20


@pytest.mark.parametrize("fault", [(402, "pay"), (429, body({"error": {"code": "insufficient_quota"}}))])
def test_without_credit_the_work_stops_at_once_and_goes_on_later(tmp_path, fault):
    server = ChatServer(count, None, None, fault)
    with pytest.raises(ModelRefused, match=r"answered 4.*; there is no credit left"):
        play(server, tmp_path / "a.json")
    assert len(server.requests) == 3
    assert endings(play(server, tmp_path / "a.json")) == ["terminated"] * 3


def test_an_episode_that_an_answer_ended_is_not_paid_again(tmp_path):
    uninterrupted = ChatServer(count, None, (400, "odd"))
    episodes = play(uninterrupted, tmp_path / "whole.json", n=5)
    server = ChatServer(count, None, (400, "odd"))
    server.faults += [None] * (len(uninterrupted.requests) - 3) + [(402, "pay")]  # before the last answer
    with pytest.raises(ModelRefused, match="no credit"):
        play(server, tmp_path / "a.json", n=5)
    again = play(server, tmp_path / "a.json", n=5)
    assert endings(again) == endings(episodes)
    assert len(server.requests) == len(uninterrupted.requests) + len(episodes[-1].turns)


def test_a_key_that_is_refused_later_is_a_fault_of_the_server(tmp_path):
    assert endings(play(ChatServer(count, None, (401, "no such key")), tmp_path / "a.json")) == ["terminated"] * 3
    with pytest.raises(EnvUnavailable, match="no such key"):
        play(ChatServer(count, None, *[(401, "no such key")] * 9), tmp_path / "b.json")


def test_an_empty_reply_costs_a_turn_and_is_not_sent_back(tmp_path):
    replies = iter([None, " "])
    server = ChatServer(lambda _: next(replies, "Action: say 1"))
    (episode,) = play(server, tmp_path / "a.json", n=1)
    assert [turn.response for turn in episode.turns[:3]] == ["", " ", "Action: say 1"]
    assert [turn.invalid for turn in episode.turns[:3]] == [True, True, False]
    for request in server.requests:
        assert all(message["content"].strip() for message in request["messages"])
        roles = [message["role"] for message in request["messages"]]
        assert all(role != other for role, other in pairwise(roles))
    first, second, third = (request["messages"][-1]["content"] for request in server.requests[:3])
    assert second.startswith(f"{first}\n\n") and third.startswith(f"{second}\n\n")


def test_an_empty_observation_is_said_to_be_empty():
    conversation = ApiConversation(None, 0, 8)
    conversation.messages = [{"role": "assistant", "content": "x"}]
    asyncio.run(conversation.observe(" \n"))
    assert conversation.messages[-1] == {"role": "user", "content": "(empty)"}
    given = [
        {"role": "user", "content": "rules"},
        {"role": "assistant", "content": "OK"},
        {"role": "user", "content": ""},
    ]
    for begin in (conversation.start(given, None), conversation.restart(given)):
        asyncio.run(begin)
        assert [message["content"] for message in conversation.messages] == ["rules", "OK", "(empty)"]


def test_a_request_that_waited_for_its_minute_asks_nothing_when_the_cost_is_reached(monkeypatch):
    """The second request reaches it while the others wait for their turn."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    server = ChatServer(count)  # counts 10 tokens of a prompt

    async def work(name):
        model = ChatModel(name, temperature=0, price=(100_000, 0), max_cost=1.5, per_minute=300)
        messages = [{"role": "user", "content": "go"}]
        asking = (model.write(messages, seed=seed, temperature=0, max_tokens=5) for seed in range(4))
        return await asyncio.gather(*asking, return_exceptions=True)

    told = asyncio.run(server.during(work))
    assert [type(each) for each in told] == [Written, Written, BudgetSpent, BudgetSpent] and len(server.requests) == 2


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize("named", [["seed"], ["max_completion_tokens"], ["seed", "max_completion_tokens"]])
def test_what_a_server_does_not_know_is_left_out(tmp_path, status, named):
    faults = [(status, f"Extra inputs are not permitted: {name}") for name in named]
    server = ChatServer(count, *faults)
    summary, _ = run(server, tmp_path / "a.json", n=3)
    assert summary.succeeded == 3
    for number, request in enumerate(server.requests):
        assert not set(named[:number]) & set(request)
        limit = "max_tokens" if "max_completion_tokens" in named[:number] else "max_completion_tokens"
        assert request[limit] == 64


def test_what_is_named_without_being_the_reason_stays(tmp_path):
    server = ChatServer(count, None, (400, "craft a seed is no action"), (400, "craft a seed is no action"))
    assert endings(play(server, tmp_path / "a.json")).count("refused") == 1
    assert ["seed" in request for request in server.requests[:4]] == [True, True, False, True]


def test_what_a_key_leaves_out():
    async def work(name):
        model = ChatModel(name, temperature=1, without=["seed", "max_completion_tokens"])
        return await model.respond([{"role": "user", "content": "x"}], 3, 64)

    server = ChatServer(lambda _: "said")
    assert asyncio.run(server.during(work)).text == "said"
    assert server.requests[0].keys() == {"model", "messages", "temperature", "max_tokens"}
    with pytest.raises(ValueError, match="without=temperature is always sent; what can be left out is max_comp"):
        ChatModel("openai:m@http://localhost/v1", temperature=1, without=["temperature"])


KEYS = st.sampled_from(
    ("choices", "message", "content", "error", "code", "usage", "prompt_tokens", "refusal", "detail")
)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
)
STATUSES = st.sampled_from((200, 200, 200, 201, 204, 302, 400, 401, 403, 404, 408, 413, 418, 422, 429, 500, 503, 529))


@pytest.fixture(scope="module")
def answered():
    """Plays an episode against a server whose second answer is given."""
    server = ChatServer(count)
    rules = RolloutSettings(max_new_tokens=8, retries=0)
    with asyncio.Runner() as runner:
        up = server.up()
        model = ChatModel(runner.run(up.__aenter__()), temperature=0, retries=0)

        def play(status, answer):
            server.faults = [None, (status, answer)]
            return runner.run(model.run(Counter(), Task("counter", 40), rules))

        yield play
        runner.run(up.__aexit__(None, None, None))


@settings(max_examples=swept(60), deadline=None)
@given(status=STATUSES, answer=ODD.map(body) | st.binary(max_size=20))
def test_no_body_however_odd_raises(answered, status, answer):
    episode = answered(status, answer)
    assert episode.ending.counts or episode.ending is Ending.ABORTED
    assert (episode.error is None) == (episode.ending in (Ending.TERMINATED, Ending.TURN_LIMIT))
    assert Episode.from_dict(json.loads(json.dumps(episode.to_dict()).encode())) == episode


def test_tokens_that_are_not_told_are_named_once(tmp_path, caplog):
    silent = (200, body({"choices": [{"message": {"content": "Action: say 9"}}], "usage": None}))
    _, usage = run(ChatServer(count, silent, silent), tmp_path / "a.json", n=4, keep="all")
    assert usage.prompt_tokens == 10 * (usage.calls - 2)
    assert [record.message for record in caplog.records if "does not tell the tokens" in record.message][1:] == []
    assert "does not tell the tokens" in caplog.text


def test_collect_counts_endings(tmp_path):
    summary, _ = run(ChatServer(count, None, (400, "odd")), tmp_path / "a.json", n=3)
    assert summary.endings == {"terminated": 2, "refused": 1}


def test_a_policy_name_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match="'openai:gpt' is not openai:<model>@<url>"):
        ChatModel("openai:gpt", temperature=1)


@pytest.mark.slow
def test_collect_tells_tokens_and_cost(tmp_path):
    server = ChatServer(count)

    async def work(name):
        out = tmp_path / "a.json"
        command = ["-m", "agentgym_rl.cli", "collect", "maze", "--out", str(out), "--policy", name, "--n", "1",
                   "--max-turns", "2", "--keep", "all", "--price", "1000", "10000"]  # fmt: skip
        import sys

        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
        stdout, _ = await process.communicate()
        return stdout.decode(), json.loads(out.read_text())

    stdout, trajectories = asyncio.run(server.during(work))
    assert len(trajectories) == 1
    assert "2 calls, 20 + 4 tokens, cost 0.0600" in stdout


@pytest.mark.parametrize(("headers", "least", "most"), [
    ({"retry-after": "3"}, 3, 3), ({"retry-after-ms": "20", "retry-after": "3"}, 0.02, 0.02),
    ({"retry-after": "7200"}, 0.75, 1), ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.75, 1), ({}, 0.75, 1),
])  # fmt: skip
def test_a_pause_is_the_one_that_is_asked_for(headers, least, most):
    assert least <= pause(headers, 1) <= most
