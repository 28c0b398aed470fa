"""An episode keeps its server until it is over."""

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest
from fake_server import Output
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("verl")

from agentgym_rl.rollout.client import EpisodeClient


class Server:
    """A server of Ray that runs here."""

    def __init__(self, name):
        self.name, self.generate = name, self

    async def remote(self, **options):
        return Output([1, 2], [0.0, 0.0], extra_fields={"server": self.name})


def client_of(*servers):
    config = SimpleNamespace(
        actor_rollout_ref=SimpleNamespace(rollout=SimpleNamespace(name="vllm", full_determinism=False))
    )
    return EpisodeClient(config, {name: Server(name) for name in servers})


async def ask(client, episode):
    output = await client.generate(episode, prompt_ids=[5], sampling_params={"max_tokens": 2})
    return output.extra_fields["server"]


def test_an_episode_keeps_its_server_and_a_new_one_begins_where_fewest_are_played():
    async def session():
        client = client_of("a", "b")
        first = [await ask(client, "one") for _ in range(5)]
        assert len(set(first)) == 1
        second = [await ask(client, "two") for _ in range(3)]
        assert set(second) == {"a", "b"} - set(first)
        client.leave("one")
        client.leave("one")
        client.leave("never asked")
        assert await ask(client, "three") == first[0]
        assert await ask(client, "two") == second[0]

    asyncio.run(session())


@given(st.integers(1, 6), st.lists(st.uuids().map(str), min_size=1, max_size=60, unique=True))
def test_episodes_in_flight_are_spread_evenly(servers, episodes):
    async def session():
        client = client_of(*map(str, range(servers)))
        return Counter([await ask(client, episode) for episode in episodes])

    counts = [*asyncio.run(session()).values()]
    assert len(counts) == min(servers, len(episodes)) and max(counts) - min(counts) <= 1


def test_processes_do_not_all_begin_on_the_same_server():
    """Each plays one episode; so would many workers of a small batch."""

    async def session():
        return Counter([await ask(client_of("a", "b", "c", "d"), f"episode {number}") for number in range(400)])

    assert all(70 <= count <= 130 for count in asyncio.run(session()).values())
