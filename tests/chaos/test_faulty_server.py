"""The server of the chaos tests does what it is told, and each of its faults is an error of the environment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

from harness import Server, servers

from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs import Task
from agentgym_rl.envs.hosts import HostSettings
from agentgym_rl.envs.hosts.remote import RemoteEnv
from agentgym_rl.rollout.policies import Oracle
from agentgym_rl.rollout.settings import RolloutSettings


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers(tmp_path_factory.mktemp("server"), 1, "maze") as (server,):
        yield server


def solved(server: Server, timeout: float = 30) -> Episode:
    host = HostSettings(kind="remote", address=server.address, timeout=timeout, patience=timeout)
    env = RemoteEnv("maze", host, style="compact")
    return asyncio.run(Oracle().run(env, Task("maze", 16), RolloutSettings(retries=0)))


@pytest.mark.parametrize(
    ("do", "ending", "says"),
    [
        ("serve", Ending.TERMINATED, None),
        ("slow", Ending.TERMINATED, None),
        ("hang", Ending.ENV_ERROR, "no answer within"),
        ("garbage", Ending.ENV_ERROR, "the answer is no JSON"),
        ("refuse", Ending.ENV_ERROR, "status 503"),
    ],
)
def test_a_fault_is_no_failure_of_the_agent(server: Server, do: str, ending: Ending, says: str | None) -> None:
    server.tell(do)
    episode = solved(server, 2 if do in ("hang", "refuse") else 30)
    server.tell("serve")
    assert (episode.ending, episode.success) == (ending, says is None)
    assert says is None or says in (episode.error or "")
    time.sleep(0.1)
    assert solved(server).success


@pytest.mark.slow
def test_a_crash_is_overcome_when_the_server_is_back(server: Server) -> None:
    server.tell("crash")
    assert not solved(server, 2).ending.counts
    assert server.process.wait(10) == 1
    server.tell("serve")
    server.start()
    server.wait()
    assert solved(server).success
