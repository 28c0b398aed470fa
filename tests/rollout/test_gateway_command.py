"""``agentgym-rl gateway``: a model for agents that somebody else starts."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys

import httpx
import pytest
from chat_server import ChatServer
from gateways import CHAT, GO, failing, says

from agentgym_rl.cli.gateway import command
from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Ending
from agentgym_rl.eval.evaluation.rules import Rules
from agentgym_rl.rollout.gateway.server import Gateway
from agentgym_rl.rollout.gateway.session import Limits, Sessions
from agentgym_rl.rollout.harness import service
from agentgym_rl.rollout.harness.service import Service
from agentgym_rl.rollout.settings import RolloutSettings

pytest.importorskip("pyarrow")


def served(out, talk, chat=None, **limits):
    """The episodes of a service by item id, after a client has talked to it."""
    sessions = Sessions(limit=3)
    service = Service(lambda seed: chat or says("hello"), "secret", Limits(**limits), out, sessions)

    async def run():
        async with (
            Gateway(sessions=sessions, opens=service.open) as gateway,
            httpx.AsyncClient(base_url=gateway.url, verify=False, headers={"x-api-key": "secret"}) as client,
        ):
            await talk(client)
        await service.close()

    asyncio.run(run())
    assert len(sessions) == 0
    played = [each for file in sorted(out.glob("*.parquet")) for each in episode_store.read(file)]
    return {episode.item_id: episode for episode in played}


async def begin(client, **body):
    """Open a session and have a reply; returns what it was told."""
    session = (await client.post("/sessions", json=body)).json()
    reply = await client.post(f"{session['url_with_key']}{CHAT}", json=GO)
    assert reply.json()["choices"][0]["message"]["content"] == "hello"
    return session


def test_each_session_is_an_episode(tmp_path):
    async def talk(client):
        solved = await begin(client, item_id="textcraft_3", max_turns=2)
        head = {"x-api-key": solved["key"]}
        assert (await client.post(solved["reward_url"], json={"reward": 1}, headers=head)).json() == {"reward": 1}
        lost = await begin(client)
        assert (await client.delete(f"/sessions/{lost['id']}", headers={"x-api-key": lost["key"]})).status_code == 200
        beyond = await begin(client, item_id="textcraft_4", max_turns=1)
        assert (await client.post(f"{beyond['url_with_key']}{CHAT}", json=GO)).json()["error"]["code"] == "turn_limit"

    episodes = served(tmp_path, talk, max_turns=5)
    solved, lost, beyond = (episodes[name] for name in ("textcraft_3", "harness_1", "textcraft_4"))
    assert (solved.ending, solved.reward, solved.max_turns) == (Ending.TERMINATED, 1, 2)
    assert (lost.ending, lost.max_turns, lost.error) == (Ending.TIMEOUT, 5, "the session was closed without a reward")
    assert (beyond.ending, beyond.reward, len(beyond.turns)) == (Ending.TURN_LIMIT, 0, 1)


def test_a_reward_without_any_reply_of_the_model_is_no_episode_of_it(tmp_path):
    async def talk(client):
        session = (await client.post("/sessions", json={"item_id": "textcraft_3"})).json()
        head = {"x-api-key": session["key"]}
        assert (await client.post(session["reward_url"], json={"reward": 1}, headers=head)).status_code == 200

    episode = served(tmp_path, talk)["textcraft_3"]
    assert (episode.ending, episode.error) == (Ending.ENV_ERROR, "the session had no reply of the model")


def test_a_session_that_is_over_says_so(tmp_path):
    async def talk(client):
        solved = await begin(client, item_id="textcraft_3")
        head = {"x-api-key": solved["key"]}
        for reward, status in ((1, 200), (1, 200), (0, 409)):
            assert (
                await client.post(solved["reward_url"], json={"reward": reward}, headers=head)
            ).status_code == status
            while not [*tmp_path.glob("*.parquet")]:
                await asyncio.sleep(0.01)
        assert (await client.post(f"{solved['url_with_key']}{CHAT}", json=GO)).status_code == 409
        dropped = await begin(client)
        head = {"x-api-key": dropped["key"]}
        assert (await client.delete(f"/sessions/{dropped['id']}", headers=head)).status_code == 200
        assert (await client.post(dropped["reward_url"], json={"reward": 1}, headers=head)).status_code == 409

    assert {name: episode.reward for name, episode in served(tmp_path, talk).items()} == {
        "textcraft_3": 1, "harness_1": 0,
    }  # fmt: skip


def test_a_session_whose_model_failed_says_so_and_is_an_episode_that_does_not_count(tmp_path):
    async def talk(client):
        session = (await client.post("/sessions", json={"item_id": "textcraft_3"})).json()
        head = {"x-api-key": session["key"]}
        for _ in range(2):
            assert (await client.post(f"{session['url_with_key']}{CHAT}", json=GO)).status_code == 503
            while not [*tmp_path.glob("*.parquet")]:
                await asyncio.sleep(0.01)
        assert (await client.post(session["reward_url"], json={"reward": 1}, headers=head)).status_code == 503

    episode = served(tmp_path, talk, failing(OSError("gone \ud83d")))["textcraft_3"]
    assert (episode.ending.counts, episode.error) == (False, "gone \ufffd")


def test_an_episode_that_cannot_be_written_is_told_when_the_gateway_ends(tmp_path, caplog):
    out, found = tmp_path / "out", []
    out.write_text("a file in the place of the folder")

    async def talk(client):
        session = await begin(client)
        head = {"x-api-key": session["key"]}
        assert (await client.post(session["reward_url"], json={"reward": 1}, headers=head)).status_code == 200
        while "is not written" not in caplog.text:
            await asyncio.sleep(0.01)
        out.unlink()
        found.append(await begin(client))

    with pytest.raises(OSError, match=str(out)):
        served(out, talk)
    assert [file.stem for file in out.glob("*.parquet")] == [found[0]["id"]], "later ones are written"


@pytest.mark.parametrize(
    ("body", "key", "status", "message"),
    [
        (b"{}", "guess", 401, "not the gateway's key"),
        (b'{"item_id": 7}', "secret", 400, "item_id is 7; give a text"),
        (b'{"item_id": "no id"}', "secret", 400, "is not an item id"),
        (b'{"max_turns": 0}', "secret", 400, "max_turns is 0"),
        (b"[]", "secret", 400, "object"),
        (b"{", "secret", 400, "JSON"),
    ],
)
def test_what_cannot_be_opened_is_told(tmp_path, body, key, status, message):
    async def talk(client):
        answer = await client.post("/sessions", content=body, headers={"x-api-key": key})
        assert answer.status_code == status and message in answer.json()["error"]["message"]

    assert served(tmp_path, talk) == {}


def test_as_many_as_allowed_are_open(tmp_path):
    async def talk(client):
        for _ in range(3):
            await begin(client)
        assert (await client.post("/sessions", json={})).status_code == 429

    assert len(served(tmp_path, talk)) == 3


def test_the_gateway_of_a_run_opens_no_session_over_http():
    async def run():
        async with Gateway() as gateway, httpx.AsyncClient(base_url=gateway.url, verify=False) as client:
            return await client.post("/sessions", json={})

    response = asyncio.run(run())
    assert response.status_code == 403 and "a run opens its sessions itself" in response.json()["error"]["message"]


@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted(tmp_path):
    async def work(name):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "agentgym_rl.cli", "gateway", name, "--port", "0", "--out", str(tmp_path),
            env=os.environ | {"OPENAI_API_KEY": "x"}, stderr=subprocess.PIPE,
        )  # fmt: skip
        line = (await process.stderr.readline()).decode()
        url, key = re.search(r" at (\S+); its key is (\S+); ", line).groups()
        async with httpx.AsyncClient(base_url=url, verify=False, headers={"x-api-key": key}, timeout=30) as client:
            await begin(client)
        process.send_signal(signal.SIGINT)
        return await asyncio.wait_for(process.wait(), 30)

    assert asyncio.run(ChatServer(lambda messages: "hello").during(work)) == 0
    (file,) = tmp_path.glob("*.parquet")
    (episode,) = episode_store.read(file)
    assert (episode.ending, [turn.response for turn in episode.turns]) == (Ending.TIMEOUT, ["hello"])


def test_weights_think_as_they_were_trained(tokenizer, tmp_path, monkeypatch):
    """What a run with rollout.thinking=strip exports is served like that."""
    folder, services = tmp_path / "model", []
    shutil.copytree(tokenizer.name_or_path, folder)
    Rules(settings=RolloutSettings(thinking="strip")).keep(folder, {})
    monkeypatch.setattr(service, "Service", lambda make_chat, *_: services.append(make_chat) or quit_at_once())
    with pytest.raises(SystemExit):
        command(str(folder), backend="transformers")
    assert services[0](0).thinking == "strip"


def quit_at_once():
    raise SystemExit


def test_a_policy_that_is_no_model_is_refused():
    with pytest.raises(ValueError, match="needs an environment; behind a gateway, give a model"):
        command("oracle")
