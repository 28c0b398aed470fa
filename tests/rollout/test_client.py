"""An episode keeps its server until it is over."""

import asyncio
from types import SimpleNamespace

import pytest
from fake_server import Output

pytest.importorskip("verl")

from verl.workers.rollout.router import GlobalRequestLoadBalancer

from agentgym_rl.rollout.client import EpisodeClient


class Remote:
    """An actor of Ray that runs here and counts its calls."""

    def __init__(self, actor):
        self.actor, self.calls = actor, []

    def __getattr__(self, name):
        def remote(*arguments, **named):
            self.calls.append(name)
            found = asyncio.get_running_loop().create_future()
            found.set_result(getattr(self.actor, name)(*arguments, **named))
            return found

        return SimpleNamespace(remote=remote)


class Server:
    def __init__(self, name):
        self.name = name

    def generate(self, **asked):
        return Output([1, 2], [0.0, 0.0], extra_fields={"server": self.name})


def client_of(servers):
    balancer = Remote(GlobalRequestLoadBalancer({name: Remote(Server(name)) for name in servers}))
    config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=SimpleNamespace(name="vllm")))
    return EpisodeClient(config=config, load_balancer_handle=balancer), balancer


def test_one_call_of_the_balancer_takes_a_server_and_one_gives_it_back():
    client, balancer = client_of(["a", "b"])

    async def ask(episode):
        output = await client.generate(episode, prompt_ids=[5], sampling_params={"max_tokens": 2})
        return output.extra_fields["server"]

    async def session():
        first = [await ask("one") for _ in range(5)]
        assert len(set(first)) == 1
        second = [await ask("two") for _ in range(3)]
        assert set(second) == {"a", "b"} - set(first), "the other server has fewer episodes"
        assert balancer.calls.count("acquire_server") == 2 and "release_server" not in balancer.calls
        assert balancer.actor.get_total_inflight() == 2
        client.leave("one")
        client.leave("one")
        client.leave("never asked")
        assert balancer.calls.count("release_server") == 1
        assert balancer.actor.get_total_inflight() == 1
        assert await ask("three") == first[0]

    asyncio.run(session())
