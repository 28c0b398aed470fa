"""Checkpoints that hold code: it is not run, and the file is named."""

import os
import random
from types import SimpleNamespace

import numpy
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("verl")

import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402
from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager  # noqa: E402
from verl.utils.torch_functional import get_constant_schedule_with_warmup  # noqa: E402
from verl.workers.engine_workers import TrainingWorker  # noqa: E402

from agentgym_rl.engine.run.export import merged  # noqa: E402
from agentgym_rl.engine.verl.worker import FORCE, AgentWorker, CriticWorker, only_data  # noqa: E402


class Code:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.fixture
def file(tmp_path):
    """A file of weights, with code among them."""
    path = tmp_path / "model_world_size_1_rank_0.pt"
    torch.save({"weight": torch.ones(3), "code": Code(tmp_path / "ran")}, path)
    return path


def loads(file):
    """What verl's workers do."""
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("before", [None, "0"])
def test_code_is_not_run_where_verl_would_run_it(file, monkeypatch, before):
    monkeypatch.delenv(FORCE, raising=False)
    if before is not None:
        monkeypatch.setenv(FORCE, before)
    with pytest.raises(ValueError, match=r"here holds more than tensors .*, and is not loaded$"), only_data("here"):
        loads(file)
    assert not (file.parent / "ran").exists() and os.environ.get(FORCE) == before
    loads(file)
    assert (file.parent / "ran").exists(), "outside nothing has changed"


@pytest.mark.parametrize("worker", [AgentWorker, CriticWorker])
def test_workers_load_checkpoints_so(file, monkeypatch, worker):
    monkeypatch.setattr(TrainingWorker, "load_checkpoint", lambda self, path, *_: loads(path))
    instance = worker.__new__(worker)
    if worker is AgentWorker:
        engine = SimpleNamespace(module=torch.nn.Linear(1, 1))
        instance.role = "actor"
        instance.actor = SimpleNamespace(engine=engine, load_checkpoint=lambda path, *_: loads(path))
    with pytest.raises(ValueError, match=r"rank_0\.pt holds more than tensors"):
        instance.load_checkpoint(str(file))
    assert not (file.parent / "ran").exists()


def test_what_verl_stores_is_data(tmp_path):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("fsdp",))
        config = LlamaConfig(
            vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
        )
        network = LlamaForCausalLM(config)
        fully_shard(network, mesh=mesh)
        optimizer = torch.optim.AdamW(network.parameters())
        scheduler = get_constant_schedule_with_warmup(optimizer, 5)
        network(torch.tensor([[1, 2]]), labels=torch.tensor([[1, 2]])).loss.backward()
        optimizer.step()
        manager = FSDPCheckpointManager(network, optimizer, scheduler, config)
        manager.save_checkpoint(str(tmp_path))
        drawn = numpy.random.random(), random.random(), torch.rand(1)
        with torch.no_grad():
            before = [weight.to_local().clone() for weight in network.parameters()]
            for weight in network.parameters():
                weight.zero_()
        optimizer.state.clear()
        with only_data(str(tmp_path)):
            manager.load_checkpoint(str(tmp_path))
        assert all(
            torch.equal(weight.to_local(), was) for weight, was in zip(network.parameters(), before, strict=True)
        )
        assert len(optimizer.state) == len(before)
        assert (numpy.random.random(), random.random(), torch.rand(1)) == drawn
    finally:
        dist.destroy_process_group()


def test_export_refuses_code(file):
    (file.parent / "fsdp_config.json").write_text('{"world_size": 1}')
    with pytest.raises(ValueError, match=r"rank_0\.pt holds more than tensors and plain values, and is not loaded$"):
        merged(file.parent)
    assert not (file.parent / "ran").exists()
