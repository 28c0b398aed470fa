"""TransferQueue's storage: in its controller's process where one unit is enough, else in processes of its own."""

import pytest

ray = pytest.importorskip("ray")
pytest.importorskip("verl")

import torch  # noqa: E402
import transfer_queue as tq  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from tensordict import TensorDict  # noqa: E402

import agentgym_rl.engine.verl.storage  # noqa: E402, F401 - registers itself


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture(params=[1, 2])
def units(cluster, request):
    tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": request.param}}}))
    yield request.param
    tq.close()


def actors():
    """Names of the storage units that are processes of their own."""
    return {each["name"] for each in ray.util.list_named_actors(all_namespaces=True)} - {"TransferQueueController"}


@pytest.mark.slow
def test_rows_come_back_as_they_were_put(units):
    rows = {f"row {number}": torch.arange(number, number + 3) for number in range(5)}
    tq.kv_batch_put(
        keys=list(rows),
        partition_id="train",
        fields=TensorDict({"ids": torch.stack(list(rows.values()))}, batch_size=5),
        tags=[{"status": "finished"} for _ in rows],
    )
    wanted = ["row 3", "row 1"]
    found = tq.kv_batch_get(keys=wanted, partition_id="train", select_fields=["ids"])
    assert [row.tolist() for row in found["ids"]] == [rows[key].tolist() for key in wanted]
    tq.kv_clear(keys=list(rows), partition_id="train")
    assert len(actors()) == (0 if units == 1 else 2)
