"""Checkpoints that hold code: it is not run, and the file is named."""

import os
import random
from types import SimpleNamespace

import numpy
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("verl")

from verl.utils.checkpoint.checkpoint_manager import BaseCheckpointManager  # noqa: E402
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
    own = worker.__new__(worker)
    if worker is AgentWorker:
        own.role, own.actor = "actor", SimpleNamespace(load_checkpoint=lambda path, *_: loads(path))
    with pytest.raises(ValueError, match=r"rank_0\.pt holds more than tensors"):
        own.load_checkpoint(str(file))
    assert not (file.parent / "ran").exists()


def test_what_verl_stores_beside_weights_is_data(tmp_path):
    file, state = tmp_path / "extra.pt", BaseCheckpointManager.get_rng_state()
    torch.save({"rng": state, "lr_scheduler": {"base_lrs": [0.1], "lr_lambdas": [None], "last_epoch": 3}}, file)
    drawn = numpy.random.random(), random.random(), torch.rand(1)
    with only_data("here"):
        BaseCheckpointManager.load_rng_state(loads(file)["rng"])
    assert (numpy.random.random(), random.random(), torch.rand(1)) == drawn


def test_export_refuses_code(file):
    (file.parent / "fsdp_config.json").write_text('{"world_size": 1}')
    with pytest.raises(ValueError, match=r"rank_0\.pt holds more than tensors and plain values, and is not loaded$"):
        merged(file.parent)
    assert not (file.parent / "ran").exists()
