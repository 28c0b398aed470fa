"""TransferQueue's storage: in its controller's process where one unit is enough, else in processes of its own."""

from types import SimpleNamespace

import pytest

ray = pytest.importorskip("ray")
pytest.importorskip("verl")

import torch  # noqa: E402
import transfer_queue as tq  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from transfer_queue import KVBatchMeta  # noqa: E402

import agentgym_rl.engine.verl.storage  # noqa: E402, F401 - registers itself
from agentgym_rl.algorithms.losses.vanilla import Vanilla, VanillaConfig  # noqa: E402
from agentgym_rl.algorithms.rows import Row  # noqa: E402
from agentgym_rl.engine.verl import fields  # noqa: E402
from agentgym_rl.engine.verl.learner import Learner  # noqa: E402
from agentgym_rl.engine.verl.weights import Weights  # noqa: E402

pytestmark = pytest.mark.timeout(300)  # Ray starts, and for each number of units the queue


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
    keys = ["row 3", "row 1"]
    fetched = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=["ids"])
    assert [row.tolist() for row in fetched["ids"]] == [rows[key].tolist() for key in keys]
    tq.kv_clear(keys=list(rows), partition_id="train")
    assert len(actors()) == (0 if units == 1 else 2)


def nested(rows):
    return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


class Workers:
    """Write minus the token for its log-probability, as two workers would that share rows equally."""

    def compute_log_prob(self, batch):
        assert len(batch) % 2 == 0
        tokens = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["responses"])["responses"]
        scores = nested([(-row.float()).tolist() for row in tokens.unbind()])
        name = batch.extra_info["written"]
        fields = {name: scores, f"{name}_entropy": scores} if batch.extra_info["calculate_entropy"] else {name: scores}
        tq.kv_batch_put(keys=batch.keys, partition_id="train", fields=TensorDict(fields, batch_size=len(batch)))


@pytest.mark.slow
def test_scores_stay_beside_the_tokens_of_their_rows(units):
    """Rows are padded to be scored, and padded anew to be learned from."""
    responses, keys = [[5, 6, 7], [8], [3, 4]], ["a_0_0", "a_1_0", "b_0_0"]
    masks = [[1] * len(row) for row in responses]
    floats = nested([[0.0] * len(row) for row in responses])
    rows = {
        "prompts": nested([[1, 2]] * 3), "responses": nested(responses), "loss_mask": nested(masks),
        "response_mask": nested(masks), "input_ids": nested([[1, 2, *row] for row in responses]),
        "position_ids": nested([[*range(2 + len(row))] for row in responses]), "rm_scores": floats,
        "rollout_log_probs": floats.clone(),
    }  # fmt: skip
    tags = [
        {"prompt_len": 2, "response_len": len(row), "seq_len": 2 + len(row), "own_tokens": len(row)}
        for row in responses
    ]
    tq.kv_batch_put(keys=keys, partition_id="train", fields=TensorDict(rows, batch_size=3), tags=tags)
    batch = KVBatchMeta(partition_id="train", keys=keys, tags=tags, extra_info={})
    verl = SimpleNamespace(
        actor_rollout_wg=Workers(), use_critic=False, tokenizer=SimpleNamespace(eos_token_id=0),
        resource_pool_manager=SimpleNamespace(get_n_gpus=lambda: 2), global_steps=1, local_trigger_step=0,
        timing_raw={},
    )  # fmt: skip
    settings = SimpleNamespace(
        workers=2,
        ranks=2,
        temperature=1.0,
        set_update_size=lambda size: None,
        config=SimpleNamespace(data=SimpleNamespace(seed=0)),
    )
    learner = Learner(verl, settings, Weights(verl, settings))
    learner.take(batch, [], {})
    scored = learner.score([Row(key, {}) for key in keys], "policy", "taught", entropy=True)
    read = learner.score([Row(key, {}) for key in keys], "policy", "taught", read=True)
    assert [row.streams["taught"] for row in read] == [(0, 0, -5, -6, -7), (0, 0, -8), (0, 0, -3, -4)]
    padded = learner.balance(batch, {}, 2)
    assert len(padded) == 4

    class Taught(Vanilla):
        streams = frozenset({"taught"})

    loss = Taught(VanillaConfig())
    by_key = {row.segment: row for row in scored}
    fields.write(padded, by_key, loss, learner.update_of, 9)
    fetched = tq.kv_batch_get(keys=padded.keys, partition_id="train")
    scores_of = {key: row.tolist() for key, row in zip(padded.keys, fetched["stream_taught"].unbind(), strict=True)}
    (padding,) = scores_of.keys() - {*keys}
    assert scores_of == {"a_0_0": [-5, -6, -7], "a_1_0": [-8], "b_0_0": [-3, -4], padding: [0]}
    assert {len(row) for row in fetched["stream_taught_entropy"].unbind()} == {1, 2, 3}
    tq.kv_clear(keys=padded.keys, partition_id="train")
