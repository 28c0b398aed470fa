"""The last layers learn and the others stay, under FSDP2 on one process; without Ray."""

import os
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

os.environ.setdefault("VERL_PLATFORM", "cpu")
torch = pytest.importorskip("torch")
pytest.importorskip("verl")

import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402
from verl.utils.fsdp_utils import fsdp2_clip_grad_norm_  # noqa: E402

from agentgym_rl.engine.verl.worker import AgentWorker, local, train_last  # noqa: E402

CONFIG = LlamaConfig(
    vocab_size=30, hidden_size=8, num_hidden_layers=3, num_attention_heads=2, intermediate_size=8,
    tie_word_embeddings=True,
)  # fmt: skip


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def learnt(layers):
    """Names of the weights that two updates moved."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(CONFIG)
    mesh = init_device_mesh("cpu", (1,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    if layers is not None:
        train_last(model, layers)
    before = {name: local(weight).detach().clone() for name, weight in model.state_dict().items()}
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.tensor([[1, 2, 3]])).logits.logsumexp(-1).sum().backward()
        fsdp2_clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
    assert model.state_dict().keys() == before.keys(), "vLLM gets every weight"
    return {name for name, weight in model.state_dict().items() if not torch.equal(local(weight), before[name])}


def test_kept_weights_come_back(group):
    """In a file, without a name, where host memory is the worker's own."""
    model = LlamaForCausalLM(CONFIG)
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    train_last(model, 1)
    worker = AgentWorker.__new__(AgentWorker)
    worker.actor, worker._kept, worker._moments = SimpleNamespace(engine=SimpleNamespace(module=model)), {}, {}
    before = {name: local(weight).detach().clone() for name, weight in model.named_parameters()}
    worker.save_model_to_cpu("base")
    for _ in range(2):
        with torch.no_grad():
            for weight in model.parameters():
                local(weight).add_(1.0)
        worker.restore_model_from_cpu("base")
    for name, weight in model.named_parameters():
        assert torch.equal(local(weight), before[name]) == weight.requires_grad
    (state,) = worker._kept.values()
    assert not isinstance(state, dict)
    worker.clear_cpu_model("base")
    assert not worker._kept


def test_a_checkpoint_with_other_frozen_layers_is_refused(group, tmp_path):
    """It would take the policy's own, which nothing brings back."""

    def sharded(seed, layers):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(CONFIG)
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        if layers is not None:
            train_last(model, layers)
        return model

    worker, loaded = AgentWorker.__new__(AgentWorker), []
    load = lambda place, *_: loaded.append(place)  # noqa: E731
    own, other = tmp_path / "own", tmp_path / "other"
    for place, seed in ((own, 0), (other, 1)):
        place.mkdir()
        torch.save(dict(sharded(seed, None).state_dict()), place / "model_world_size_1_rank_0.pt")
    for layers, place, refused in ((1, own, False), (1, other, True), (None, other, False)):
        engine = SimpleNamespace(module=sharded(0, layers))
        worker.actor, worker.role = SimpleNamespace(engine=engine, load_checkpoint=load), "actor"
        with pytest.raises(ValueError, match="which does not learn") if refused else nullcontext():
            worker.load_checkpoint(str(place))
    assert loaded == [str(own), str(other)]


def test_only_the_last_layers_learn(group):
    all_names = learnt(None)
    assert {"model.embed_tokens.weight", "model.norm.weight"} < all_names
    for layers in (1, 2):
        expected = {f"model.layers.{3 - number}." for number in range(1, layers + 1)}
        assert learnt(layers) == {name for name in all_names if any(map(name.startswith, expected))}
