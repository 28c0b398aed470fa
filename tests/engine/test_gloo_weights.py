"""Weights over gloo between threads that stand for workers."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("verl")

import torch

from agentgym_rl.engine.platform import gloo_weights
from agentgym_rl.engine.platform.gloo_weights import GlooWeights

WEIGHTS = {
    "embed": torch.arange(12, dtype=torch.float32).reshape(3, 4),
    "norm": torch.ones(5, dtype=torch.bfloat16),
    "scale": torch.tensor(2.5),
    "transposed": torch.arange(6, dtype=torch.float32).reshape(2, 3).t(),
}


@pytest.fixture(autouse=True)
def loopback(monkeypatch):
    monkeypatch.setattr(gloo_weights.ray.util, "get_node_ip_address", lambda: "127.0.0.1")


def test_every_rollout_worker_gets_every_tensor():
    actors = [GlooWeights(1 << 20, is_master=True), GlooWeights(1 << 20)]
    rollouts = [GlooWeights(1 << 20), GlooWeights(1 << 20)]
    for _ in range(2):  # a group lives for one transfer
        metadata = [engine.prepare() for engine in actors + rollouts]
        for_actors, for_rollouts = GlooWeights.build_topology(2, 2, metadata)
        assert (for_actors["rank"], for_rollouts["rank"]) == ([0, -1], [1, 2])
        walked = []

        async def receive(engine):
            return {name: weight async for name, weight in engine.receive_weights()}

        def actor(number, walked=walked, arguments=for_actors):
            engine = actors[number]
            engine.init_process_group(**{key: value[number] for key, value in arguments.items()})
            produced = ((walked.append((number, name)) or name, weight) for name, weight in WEIGHTS.items())
            asyncio.run(engine.send_weights(produced))
            engine.finalize()

        def rollout(number, arguments=for_rollouts):
            engine = rollouts[number]
            engine.init_process_group(**{key: value[number] for key, value in arguments.items()})
            received = asyncio.run(receive(engine))
            engine.finalize()
            return received

        with ThreadPoolExecutor(4) as pool:
            sending = [pool.submit(actor, number) for number in range(2)]
            got = list(pool.map(rollout, range(2), timeout=60))
            for sent in sending:
                sent.result(60)
        for received in got:
            assert list(received) == list(WEIGHTS)
            for name, weight in WEIGHTS.items():
                assert received[name].dtype == weight.dtype and torch.equal(received[name], weight)
        assert {number for number, _ in walked} == {0, 1}  # gathering a weight takes every actor
