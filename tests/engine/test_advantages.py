"""Advantages of turns in a batch's rows; the TransferQueue is a dict."""

from dataclasses import replace
from statistics import fmean, stdev
from types import SimpleNamespace

import pytest

pytest.importorskip("verl")

import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.engine.verl.advantages import (
    Credit,
    Rows,
    add_steps,
    broadcast,
    by_turn,
    of_episodes,
    over_tokens,
    value_places,
    without_lone,
)
from agentgym_rl.engine.verl.buffer import NothingToLearn
from agentgym_rl.engine.verl.modes import SyncTrainer


def jagged(rows, kind=torch.float32):
    return torch.nested.as_nested_tensor([torch.tensor(row, dtype=kind) for row in rows], layout=torch.jagged)


def rows_of(nested):
    return [row.tolist() for row in nested.unbind()]


def episode(seen, rewards, spans):
    messages = []
    for observation in seen:
        messages += [{"role": "user", "content": observation}, {"role": "assistant", "content": "do"}]
    turns = [
        Turn(response="do", action="do", observation="", reward=reward, invalid=False, tokens=span)
        for reward, span in zip(rewards, spans, strict=True)
    ]
    return Episode(
        env="e", item_id="e_1", ending=Ending.TERMINATED, reward=sum(rewards), success=False, horizon=9,
        messages=messages, turns=turns,
    )  # fmt: skip


MASKS = [[1, 1, 0, 1], [1, 0, 1, 1, 1], [0]]
EPISODES = [
    episode(["start", "hall"], [0.0, 1.0], [(0, 2), (3, 4)]),
    episode(["start", "hall"], [0.0, 0.0], [(0, 1), (2, 5)]),
    episode(["start", "hall"], [0.0, 1.0], [(0, 2), (3, 4)]),  # verl's padding is a copy of a real row
]


class Queue:
    """Rows by field."""

    def __init__(self):
        self.cleared = []
        self.fields = {
            "response_mask": jagged(MASKS, torch.int64),
            "loss_mask": jagged(MASKS, torch.int64),
            "advantages": jagged([[1.0, 1.0, 0.0, 1.0], [-1.0, 0.0, -1.0, -1.0, -1.0], [0.0]]),
            "returns": jagged([[0.0] * 4, [0.0] * 5, [0.0]]),
            "values": jagged([[0.5, 9.0, 9.0, 0.25], [0.1, 9.0, 0.2, 9.0, 9.0], [7.0]]),
            "extra_fields": [{"episode": one.to_dict()} for one in EPISODES],
        }

    def kv_batch_get(self, keys, partition_id, select_fields):
        return {name: self.fields[name] for name in select_fields}

    def kv_batch_put(self, keys, partition_id, fields):
        assert len(keys) == fields.batch_size[0]
        for name, value in fields.items():  # the real one logs an error and forgets the fields that follow
            assert self.fields.get(name, value).dtype == value.dtype, name
        self.fields |= dict(fields.items())

    def kv_clear(self, keys, partition_id):
        self.cleared.append((partition_id, keys))


@pytest.fixture
def queue(monkeypatch):
    one = Queue()
    for name in ("kv_batch_get", "kv_batch_put", "kv_clear"):
        monkeypatch.setattr(tq, name, getattr(one, name))
    return one


@pytest.fixture
def batch():
    return KVBatchMeta(partition_id="train", keys=["u_0_0", "u_1_0", "pad_0_0"], tags=[{}, {}, {"is_padding": True}])


def test_lone_episodes_leave_and_are_cleared(queue):
    batch = KVBatchMeta(partition_id="train", keys=["a_b_0_0", "c_0_0", "a_b_3_0"], tags=[{"n": 1}, {"n": 2}, {"n": 3}])
    batch.extra_info["temperature"] = 1.0
    kept = without_lone(batch)
    assert (kept.keys, kept.tags, kept.extra_info) == (["a_b_0_0", "a_b_3_0"], [{"n": 1}, {"n": 3}], batch.extra_info)
    assert queue.cleared == [("train", ["c_0_0"])]
    assert without_lone(kept) is kept
    with pytest.raises(NothingToLearn, match=r"algorithm\.samples"):
        without_lone(KVBatchMeta(partition_id="train", keys=["a_0_0", "b_0_0"], tags=[{}, {}]))


def test_over_tokens():
    mask = torch.tensor([[1, 1, 0, 1, 0], [1, 0, 1, 1, 1], [0, 0, 0, 0, 0]])
    rows = Rows([("a_0", 0), ("a_1", 0), ("pad_0", 0)], {"a_0": EPISODES[0], "a_1": EPISODES[1]})
    spread = over_tokens({"a_0": [2.0, 3.0], "a_1": [4.0, 5.0]}, rows, mask)
    assert spread.tolist() == [[2, 2, 0, 3, 0], [4, 0, 5, 5, 5], [0, 0, 0, 0, 0]]


def test_a_span_over_tokens_the_model_did_not_write():
    one = episode(["start"], [1.0], [(0, 3)])
    rows = Rows([("a_0", 0)], {"a_0": one})
    assert over_tokens({"a_0": [2.0]}, rows, torch.tensor([[1, 1, 0]])).tolist() == [[2, 2, 0]]


def test_steps_are_added(queue, batch):
    metrics = add_steps(batch, weight=2.0, gamma=0.5, by_std=False)
    # start: returns 0.5 and 0; hall: 1 and 0; so +-0.25 and +-0.5, twice
    assert rows_of(queue.fields["advantages"]) == [
        pytest.approx([1.5, 1.5, 0.0, 2.0]),
        pytest.approx([-1.5, 0.0, -2.0, -2.0, -2.0]),
        [0.0],
    ]
    assert metrics == {
        "gigpo/step_groups": 2.0,
        "gigpo/shared_turns_frac": 1.0,
        "gigpo/step_advantage_abs": pytest.approx((3 * 0.25 + 4 * 0.5) / 7),
    }


def test_turns_have_one_value_and_one_advantage(queue, batch):
    by_turn(batch, gamma=1.0, lam=1.0)
    assert rows_of(queue.fields["returns"]) == [[1, 1, 0, 1], pytest.approx([0, 0, 0, 0, 0]), [0]]
    assert rows_of(queue.fields["values"]) == [
        pytest.approx([0.5, 0.5, 0.0, 0.25]),
        pytest.approx([0.1, 0.0, 0.2, 0.2, 0.2]),
        [0.0],
    ]
    raw = [[0.5, 0.5, 0.75], [-0.1, -0.2, -0.2, -0.2]]
    tokens = [value for row in raw for value in row]
    white = [[(value - fmean(tokens)) / stdev(tokens) for value in row] for row in raw]
    found = rows_of(queue.fields["advantages"])
    assert found[0] == pytest.approx([white[0][0], white[0][1], 0.0, white[0][2]], abs=1e-5)
    assert found[1] == pytest.approx([white[1][0], 0.0, *white[1][1:]], abs=1e-5)
    assert found[2] == [0.0]
    assert rows_of(queue.fields["value_mask"]) == [[1, 0, 0, 1], [1, 0, 1, 0, 0], [0]]


def test_fields_keep_their_dtype(queue, batch):
    """A critic under autocast gives values in bfloat16."""
    queue.fields["values"] = queue.fields["values"].to(torch.bfloat16)
    by_turn(batch, gamma=1.0, lam=1.0)
    kinds = {name: queue.fields[name].dtype for name in ("values", "returns", "advantages", "value_mask")}
    assert kinds == {
        "values": torch.bfloat16, "returns": torch.float32, "advantages": torch.float32, "value_mask": torch.int64,
    }  # fmt: skip


def test_the_critic_learns_at_the_first_token_of_a_turn(queue, batch):
    """verl's value loss and its mean, with the masks as the critic finds them."""
    from tensordict import TensorDict
    from verl.workers.config import CriticConfig
    from verl.workers.utils.losses import value_loss

    by_turn(batch, gamma=1.0, lam=1.0)
    with value_places(batch):
        mask = queue.fields["response_mask"]
        assert rows_of(mask) == rows_of(queue.fields["loss_mask"]) == [[1, 0, 0, 1], [1, 0, 1, 0, 0], [0]]
        names = ("values", "returns", "response_mask")
        data = TensorDict({name: queue.fields[name] for name in names}, batch_size=3)
        data["prompts"] = jagged([[5], [5], [5]], torch.int64)
        data["responses"] = jagged(MASKS, torch.int64)
    assert rows_of(queue.fields["response_mask"]) == rows_of(queue.fields["loss_mask"]) == MASKS

    settings = {"dp_size": 1, "batch_num_tokens": 4, "global_batch_size": 3}
    for name, value in settings.items():
        data.set_non_tensor(name, value)
    predicted = torch.tensor([0.6, 9, 9, 0.25, 9, 0.1, 9, 0.1, 9, 9, 9, 9, 9], requires_grad=True)  # shifted by one
    output = {"values": torch.nested.nested_tensor_from_jagged(predicted, torch.tensor([0, 5, 11, 13]))}
    config = object.__new__(CriticConfig)
    for name, value in (("cliprange_value", 0.5), ("loss_agg_mode", "token-mean"), ("loss_scale_factor", None)):
        object.__setattr__(config, name, value)
    loss, _ = value_loss(config, output, data)
    errors = [0.6 - 1.0, 0.25 - 1.0, 0.1 - 0.0, 0.1 - 0.0]
    assert loss.item() == pytest.approx(0.5 * fmean(error**2 for error in errors))
    loss.backward()
    assert predicted.grad.nonzero().flatten().tolist() == [0, 3, 5, 7]


def test_settings():
    settings = OmegaConf.create({"grouped": True, "step_weight": 0.5, "level": "turn"})
    assert Credit.from_mapping(settings) == Credit(grouped=True, step_weight=0.5, level="turn")
    with pytest.raises(ValueError, match="'word' is unknown; choose token or turn"):
        Credit(grouped=False, step_weight=0.0, level="word")
    with pytest.raises(TypeError, match="levle"):
        Credit.from_mapping({"grouped": True, "step_weight": 0.5, "levle": "turn"})


# where the trainer calls them


@pytest.fixture
def trainer(monkeypatch):
    """The trainer without workers; verl's own methods note what they were given."""
    called = []

    def noted(name):
        def method(self, batch, metrics, *rest):
            called.append((name, list(batch.keys), rows_of(tq.kv_batch_get([], "", ["loss_mask"])["loss_mask"])))
            return batch

        return method

    for name in ("_balance_batch", "_compute_advantage", "_update_critic"):
        monkeypatch.setattr(PPOTrainer, name, noted(name))

    def make(**credit):
        one = object.__new__(SyncTrainer)
        settings = {"grouped": False, "step_weight": 0.0, "level": "token", **credit}
        algorithm = {"gamma": 0.5, "lam": 1.0, "norm_adv_by_std_in_grpo": False, "adv_estimator": "grpo"}
        one.config = OmegaConf.create(
            {
                "trainer": {"v1": {"agentgym": settings}},
                "algorithm": algorithm,
                "data": {"train_batch_size": 4},
                "actor_rollout_ref": {"rollout": {"n": 2}, "actor": {"ppo_mini_batch_size": 2}},
                "critic": {"ppo_mini_batch_size": 2},
            }
        )
        one.global_steps, one._minibatch, one.parameter_sync_step = 5, 2, 1
        one.resource_pool_manager = SimpleNamespace(get_n_gpus=lambda: 1)
        return one, called

    return make


def test_a_grouped_algorithm_is_rid_of_lone_episodes_first(trainer, queue):
    batch = KVBatchMeta(
        partition_id="train", keys=["a_0_0", "b_0_0", "a_1_0"], tags=[{"min_global_steps": step} for step in (4, 4, 2)]
    )
    for grouped, keys, lone in ((True, ["a_0_0", "a_1_0"], 1), (False, ["a_0_0", "b_0_0", "a_1_0"], None)):
        one, called = trainer(grouped=grouped)
        metrics = {}
        assert one._balance_batch(batch, metrics).keys == keys
        assert called.pop()[:2] == ("_balance_batch", keys)
        assert metrics.get("rollout/lone_episodes") == lone
        assert metrics["rollout/staleness"] == pytest.approx(2 / 3) and metrics["rollout/staleness_max"] == 2


def test_step_level_comes_on_top_of_verls_advantages(trainer, queue, batch):
    one, called = trainer(step_weight=2.0)
    metrics = {}
    assert one._compute_advantage(batch, metrics) is batch
    assert [name for name, *_ in called] == ["_compute_advantage"]
    assert rows_of(queue.fields["advantages"])[0] == pytest.approx([1.5, 1.5, 0.0, 2.0])
    assert metrics["gigpo/step_groups"] == 2.0


def test_token_level_leaves_verls_advantages_alone(trainer, queue, batch):
    one, _ = trainer()
    before = rows_of(queue.fields["advantages"])
    one._compute_advantage(batch, {})
    assert rows_of(queue.fields["advantages"]) == before and "value_mask" not in queue.fields


def test_the_critic_sees_its_places_at_turn_level_only(trainer, queue, batch):
    for level, mask in (("turn", [[1, 0, 0, 1], [1, 0, 1, 0, 0], [0]]), ("token", MASKS)):
        one, called = trainer(level=level)
        one._compute_advantage(batch, {})
        one._update_critic(batch, {})
        assert called[-1][0] == "_update_critic" and called[-1][2] == mask
        assert rows_of(queue.fields["loss_mask"]) == MASKS


# folded episodes


@pytest.fixture
def folded(queue):
    """The first episode's two turns are in samples of their own."""
    first, second = EPISODES[0], EPISODES[1]
    turns = [replace(first.turns[0], tokens=(0, 2)), replace(first.turns[1], tokens=(1, 2), sample=1)]
    masks = [[1, 1], [0, 1, 1], MASKS[1]]
    queue.fields = {
        "response_mask": jagged(masks, torch.int64),
        "loss_mask": jagged(masks, torch.int64),
        "advantages": jagged([[0.0, 0.0], [0.0, 2.0, 2.0], [-2.0, 0.0, -2.0, -2.0, -2.0]]),
        "returns": jagged([[0.0] * 2, [0.0] * 3, [0.0] * 5]),
        "values": jagged([[0.5, 9.0], [9.0, 0.25, 9.0], [0.1, 9.0, 0.2, 9.0, 9.0]]),
        "extra_fields": [
            {"episode": None},
            {"episode": replace(first, turns=turns).to_dict()},
            {"episode": second.to_dict()},
        ],
    }
    return KVBatchMeta(partition_id="train", keys=["u_0_0", "u_0_1", "u_1_0"], tags=[{}, {}, {}])


def test_one_row_an_episode(queue, folded):
    assert of_episodes(folded).keys == ["u_0_1", "u_1_0"]
    assert without_lone(folded) is folded
    alone = KVBatchMeta(partition_id="train", keys=["a_0_0", "a_0_1", "b_0_0", "b_1_0"], tags=[{}] * 4)
    assert without_lone(alone).keys == ["b_0_0", "b_1_0"]  # two samples are no group


def test_all_samples_get_their_episodes_advantage(queue, folded):
    broadcast(folded)
    expected = [[2, 2], [0, 2, 2], [-2, 0, -2, -2, -2]]
    assert rows_of(queue.fields["advantages"]) == expected == rows_of(queue.fields["returns"])


def test_steps_of_folded_episodes_stand_in_their_samples(queue, folded):
    add_steps(folded, weight=2.0, gamma=0.5, by_std=False)
    assert rows_of(queue.fields["advantages"]) == [
        pytest.approx([0.5, 0.5]),
        pytest.approx([0.0, 3.0, 2.0]),
        pytest.approx([-2.5, 0.0, -3.0, -3.0, -3.0]),
    ]


def test_turn_values_reach_over_samples(queue, folded):
    by_turn(folded, gamma=1.0, lam=1.0)
    assert rows_of(queue.fields["returns"]) == [[1, 1], [0, 1, 0], pytest.approx([0, 0, 0, 0, 0])]
    assert rows_of(queue.fields["value_mask"]) == [[1, 0], [0, 1, 0], [1, 0, 1, 0, 0]]


def test_rloo_counts_episodes(trainer, queue, folded, monkeypatch):
    one, called = trainer(grouped=True)
    one.config.algorithm.adv_estimator = "rloo"
    one._compute_advantage(folded, {})
    assert [keys for _, keys, _ in called] == [folded.keys, ["u_0_1", "u_1_0"]]
    assert rows_of(queue.fields["advantages"])[0] == [2, 2]


@pytest.mark.parametrize(("rows", "workers", "size"), [(8, 1, 2), (9, 1, 3), (30, 1, 8), (30, 4, 8), (3, 1, 2)])
def test_updates_stay_as_many_however_many_the_samples(trainer, rows, workers, size):
    one, _ = trainer()
    one.resource_pool_manager = SimpleNamespace(get_n_gpus=lambda: workers)
    one._share_updates(rows)  # 4 tasks, 2 an update, 2 episodes a task: 2 updates
    assert one.config.actor_rollout_ref.actor.ppo_mini_batch_size == size == one.config.critic.ppo_mini_batch_size
    assert -(-rows // (size * 2)) <= 2
