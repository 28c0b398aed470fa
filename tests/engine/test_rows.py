"""What a policy update writes into the rows of a batch; the TransferQueue is a dict."""

from dataclasses import replace
from math import log
from pathlib import Path
from statistics import fmean, stdev
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("verl")

import torch
import transfer_queue as tq
from transfer_queue import KVBatchMeta

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.losses.aggregation import Aggregation
from agentgym_rl.algorithms.losses.clipped import ClippedConfig
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.losses.turn import Turn as TurnLoss
from agentgym_rl.algorithms.losses.vanilla import Vanilla, VanillaConfig
from agentgym_rl.algorithms.ppo import PPO, Level, PPOConfig
from agentgym_rl.algorithms.rows import PerToken
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.verl import fields, rows
from agentgym_rl.engine.verl.mapping import verl_config


def jagged(values, kind=torch.float32):
    return torch.nested.as_nested_tensor([torch.tensor(row, dtype=kind) for row in values], layout=torch.jagged)


def rows_of(nested):
    return [row.tolist() for row in nested.unbind()]


def episode(rewards, spans):
    turns = [
        Turn(response="do", action="do", observation="", reward=reward, invalid=False, tokens=span)
        for reward, span in zip(rewards, spans, strict=True)
    ]
    return Episode(
        env="e", item_id="e_1", ending=Ending.TERMINATED, reward=sum(rewards), success=False, max_turns=9, turns=turns
    )


VANILLA = Vanilla(VanillaConfig())
MASKS = [[1, 1, 0, 1], [1, 0, 1, 1, 1], [0]]
EPISODES = [episode([0.0, 1.0], [(0, 2), (3, 4)]), episode([0.0, 0.0], [(0, 1), (2, 5)])]
ROLLOUTS = [
    Rollout(episode=played, key=f"u_{number}", group="u", kept=[f"u_{number}_0"])
    for number, played in enumerate(EPISODES)
]


def streamed(rollouts, **streams):
    """Rows by key, with a value of each stream for each rollout."""
    return {
        row.segment: row
        for place, rollout in enumerate(rollouts)
        for row in rollout.rows({name: values[place] for name, values in streams.items()})
    }


class Queue:
    """Rows by field."""

    def __init__(self):
        self.cleared = []
        self.fields = {
            "response_mask": jagged(MASKS, torch.int64),
            "loss_mask": jagged(MASKS, torch.int64),
            "advantages": jagged([[0.0] * 4, [0.0] * 5, [0.0]]),
            "returns": jagged([[0.0] * 4, [0.0] * 5, [0.0]]),
            "values": jagged([[0.5, 9.0, 9.0, 0.25], [0.1, 9.0, 0.2, 9.0, 9.0], [7.0]]),
        }

    def kv_batch_get(self, keys, partition_id, select_fields):
        return {name: self.fields[name] for name in select_fields}

    def kv_batch_put(self, keys, partition_id, fields):
        assert len(keys) == fields.batch_size[0]
        for name, value in fields.items():  # the real one logs an error and forgets the fields that follow
            if isinstance(value, torch.Tensor):
                assert self.fields.get(name, value).dtype == value.dtype, name
        self.fields |= dict(fields.items())

    def kv_clear(self, keys, partition_id):
        self.cleared.append((partition_id, keys))


@pytest.fixture
def queue(monkeypatch):
    queue = Queue()
    for name in ("kv_batch_get", "kv_batch_put", "kv_clear"):
        monkeypatch.setattr(tq, name, getattr(queue, name))
    return queue


@pytest.fixture
def batch():
    return KVBatchMeta(
        partition_id="train",
        keys=["u_0_0", "u_1_0", "pad_0_0"],
        tags=[tag(4, own_tokens=3), tag(5, own_tokens=4), tag(1, own_tokens=3, is_padding=True)],
    )


def tag(tokens, **others):
    return {"response_len": tokens, **others}


def write(batch, of_rows, loss=VANILLA):
    update_of = {key: int(rows.session_of(key) != "u_0") for key in batch.keys}
    fields.write(batch, of_rows, loss, update_of, 10)


def test_keys():
    assert (rows.session_of("a_b_3_1"), rows.prompt_of("a_b_3"), rows.segment_of("a_b_3_1")) == ("a_b_3", "a_b", 1)


def test_a_prompt_has_its_episodes(queue):
    queue.fields["episodes"] = [rows.pack(episodes)["episodes"] for episodes in (EPISODES, EPISODES[1:])]
    assert rows.read_episodes(["u", "v"], "train") == {"u_0": EPISODES[0], "u_1": EPISODES[1], "v_0": EPISODES[1]}


def test_singletons_leave_and_are_cleared(queue):
    batch = KVBatchMeta(partition_id="train", keys=["a_b_0_0", "c_0_0", "a_b_3_0"], tags=[{"n": 1}, {"n": 2}, {"n": 3}])
    batch.extra_info["temperature"] = 1.0
    rest = rows.without_singletons(batch)
    assert (rest.keys, rest.tags, rest.extra_info) == (["a_b_0_0", "a_b_3_0"], [{"n": 1}, {"n": 3}], batch.extra_info)
    assert queue.cleared == [("train", ["c_0_0"])]
    assert rows.without_singletons(rest) is rest
    with pytest.raises(rows.NothingToLearn, match=r"algorithm\.samples_per_task"):
        rows.without_singletons(KVBatchMeta(partition_id="train", keys=["a_0_0", "b_0_0"], tags=[{}, {}]))
    segments = KVBatchMeta(partition_id="train", keys=["a_0_0", "a_0_1", "b_0_0", "b_1_0"], tags=[{}] * 4)
    assert rows.without_singletons(segments).keys == ["b_0_0", "b_1_0"], "two segments are no group"


def test_an_advantage_for_each_episode_or_turn_up_to_the_end_of_its_response(queue, batch):
    write(batch, streamed(ROLLOUTS, advantage=[2.0, [4.0, 5.0]]))
    assert rows_of(queue.fields["advantages"]) == [[2, 2, 2, 2], [4, 5, 5, 5, 5], [0]]


def test_advantages_of_whole_episodes_are_one_number_a_row(queue, batch):
    write(batch, streamed(ROLLOUTS[::-1], advantage=[-1.0, 2.0]))
    assert queue.fields["advantages"].tolist() == [2, -1, 0]
    by_token = fields.each_token(queue.fields["advantages"], queue.fields["loss_mask"])
    assert rows_of(by_token) == [[2] * 4, [-1] * 5, [0]]
    assert fields.each_token(by_token, queue.fields["loss_mask"]) is by_token


def test_the_size_of_advantages_without_a_look_at_tokens_is_that_of_the_tokens(queue, batch):
    write(batch, streamed(ROLLOUTS, advantage=[2.0, -1.0]))
    tags = [{**tag} for tag in batch.tags]
    for tag in batch.tags:
        del tag["advantage"]
    of_tokens = fields.advantage_metrics(batch, streamed(ROLLOUTS))
    for tag, mask, played in zip(tags, MASKS, [*EPISODES, EPISODES[0]], strict=True):
        tag["own_by_third"] = fields.own_by_third(torch.tensor(mask), played.turns, 0)
    tags[2]["own_by_third"] = [9, 9, 9]  # padding is a copy of some row
    batch.tags, queue.fields = tags, {}
    assert fields.advantage_metrics(batch, streamed(ROLLOUTS)) == of_tokens == {
        "diagnostics/advantage_first": pytest.approx(5 / 3), "diagnostics/advantage_last": pytest.approx(5 / 4),
    }  # fmt: skip


def test_the_models_own_tokens_by_third_of_the_turns():
    folded = episode([0.0] * 3, [(1, 2), (3, 5), (0, 2)])
    folded.turns[2].segment = 1
    assert fields.own_by_third(torch.tensor([0, 1, 0, 1, 1, 1]), folded.turns, 0) == [1, 2, 1], (
        "notes go to the next turn"
    )
    assert fields.own_by_third(torch.tensor([1, 0]), folded.turns, 1) == [0, 0, 1]
    failed = episode([0.0], [(0, 5)])
    assert fields.own_by_third(torch.tensor([0]), failed.turns, 0) == [0, 0, 0], "nobody wrote its one token"
    assert fields.own_by_third(torch.tensor([0]), [], 0) == [0, 0, 0]


def test_verls_advantages_stay_where_an_update_has_none(queue, batch):
    before = rows_of(queue.fields["advantages"])
    write(batch, streamed(ROLLOUTS))
    assert rows_of(queue.fields["advantages"]) == before and "value_mask" not in queue.fields


def test_notes_in_a_segment_of_their_own_belong_to_the_turn_that_follows():
    """With ``rollout.thinking=strip`` the request for notes does not extend the turn before it."""
    played = episode([0.0, 1.0], [(1, 3), (0, 2)])
    played.turns[1].segment = 2
    batch = KVBatchMeta(partition_id="train", keys=["u_0_0", "u_0_1", "u_0_2"], tags=[tag(3), tag(3), tag(2)])
    of_rows = streamed([Rollout(episode=played, kept=["u_0_0", "u_0_1", "u_0_2"])], advantage=[[2.0, 3.0]])
    advantages = fields.over_tokens(batch, of_rows, lambda row: row.streams["advantage"])
    assert rows_of(advantages) == [[2, 2, 2], [3, 3, 3], [3, 3]]


def test_shaped_rewards_are_on_the_last_token_of_their_rows(queue, batch):
    queue.fields["rm_scores"] = jagged([[0.0, 0, 0, 1], [0.0] * 5, [0.0]])
    fields.write_rewards(batch, streamed(ROLLOUTS[::-1], reward=[-0.5, 0.75]))
    assert rows_of(queue.fields["rm_scores"]) == [[0, 0, 0, 0.75], [0, 0, 0, 0, -0.5], [0]]


def test_verls_estimators_read_the_shaped_rewards(queue, batch):
    """The trainer's own step from rewards to advantages, without discount and critic: the return of every token."""
    from tensordict import NonTensorStack, TensorDict
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    queue.fields |= {"rm_scores": jagged([[0.0, 0, 0, 1], [0.0] * 5, [0.0]]), "uid": NonTensorStack("u", "u", "pad")}
    names, get = ("uid", "response_mask", "rm_scores"), queue.kv_batch_get
    settings = verl_config(Resolved(recipes.load(["name=x", "algorithm=reinforce_pp"])), "m", Path("run"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tq, "kv_batch_get", lambda **_: TensorDict(get(None, None, names), batch_size=3))
        fields.write_rewards(batch, streamed(ROLLOUTS, reward=[0.25, -0.5]))
        PPOTrainer._compute_advantage(SimpleNamespace(config=settings), batch, {})
    assert rows_of(queue.fields["returns"]) == [[0.25, 0.25, 0, 0.25], [-0.5, 0, -0.5, -0.5, -0.5], [0]]


def test_the_ratio_of_learning_to_sampling(queue, batch):
    missing = float("nan")
    queue.fields["log_ratio"] = jagged([[0.0, 0, missing, 0], [0.0, missing, 0, 0, log(3)], [missing]])
    metrics = rows.ratio_metrics(batch)
    assert metrics["diagnostics/ratio_mean"] == pytest.approx((6 + 3) / 7)
    assert (metrics["diagnostics/ratio_low"], metrics["diagnostics/ratio_median"]) == (1, 1)
    assert 1 < metrics["diagnostics/ratio_high"] < metrics["diagnostics/ratio_max"] == pytest.approx(3)


def test_workers_are_told_what_to_write(queue, batch):
    requests = []
    batch.extra_info["of_update"] = True
    queue.fields["numbers"] = torch.ones(3, 2)
    rows.log_probs_of(batch, requests.append, 0.5, "ref_log_prob")
    numbers = rows.old_log_probs(batch, requests.append, 0.5, {"rollout_is": "token"})
    assert numbers.tolist() == [[1, 1]] * 3 and batch.extra_info == {"of_update": True}, "the update is told nothing"
    reference, old = (told_row.extra_info for told_row in requests)
    assert (reference["written"], reference["calculate_entropy"]) == ("ref_log_prob", False)
    assert reference["temperature"] == old["temperature"] == 0.5
    assert (old["written"], old["calculate_entropy"], old["of_update"]) == ("old_log_probs", True, True)
    assert old["correction"] == {"rollout_is": "token"}


def test_the_size_of_advantages_by_the_position_of_their_turn(queue, batch):
    write(batch, streamed(ROLLOUTS, advantage=[-2.0, [4.0, -5.0]]))
    metrics = fields.advantage_metrics(batch, streamed(ROLLOUTS))
    first, last = (2 + 2 + 4) / 3, (2 + 5 + 5 + 5) / 4
    assert metrics == {
        "diagnostics/advantage_first": pytest.approx(first), "diagnostics/advantage_last": pytest.approx(last),
    }  # fmt: skip
    single = Rollout(episode=episode([0.0], [(0, 5)]), kept=["u_1_0"])
    assert fields.advantage_metrics(batch, streamed([single])).keys() == {"diagnostics/advantage_middle"}


def turn_level(batch):
    """PPO's update over turns, with the critic's values as the trainer reads them."""
    rollouts = [replace(rollout) for rollout in ROLLOUTS]
    fields.turn_values(batch, rollouts)
    write(batch, {row.segment: row for row in PPO(PPOConfig(level=Level.TURN)).rows(rollouts)})
    return rollouts


def test_turns_have_one_value_and_one_advantage(queue, batch):
    rollouts = turn_level(batch)
    assert [rollout.values for rollout in rollouts] == [pytest.approx([0.5, 0.25]), pytest.approx([0.1, 0.2])]
    assert rows_of(queue.fields["returns"]) == [[1, 1, 1, 1], pytest.approx([0, 0, 0, 0, 0], abs=1e-6), [0]]
    assert rows_of(queue.fields["values"]) == [
        pytest.approx([0.5, 0.5, 0.25, 0.25]),
        pytest.approx([0.1, 0.2, 0.2, 0.2, 0.2]),
        [0.0],
    ]
    raw = [[0.5, 0.5, 0.75], [-0.1, -0.2, -0.2, -0.2]]
    tokens = [value for row in raw for value in row]
    white = [[(value - fmean(tokens)) / stdev(tokens) for value in row] for row in raw]
    advantages = rows_of(queue.fields["advantages"])
    first, second, _ = (
        [value for value, counts in zip(row, mask, strict=True) if counts]
        for row, mask in zip(advantages, MASKS, strict=True)
    )
    assert first == pytest.approx(white[0], abs=1e-5) and second == pytest.approx(white[1], abs=1e-5)
    assert advantages[2] == [0.0]
    assert rows_of(queue.fields["value_mask"]) == [[1, 0, 0, 1], [1, 0, 1, 0, 0], [0]]


def test_fields_keep_their_dtype(queue, batch):
    """A critic under autocast gives values in bfloat16."""
    queue.fields["values"] = queue.fields["values"].to(torch.bfloat16)
    turn_level(batch)
    kinds = {name: queue.fields[name].dtype for name in ("values", "returns", "advantages", "value_mask")}
    assert kinds == {
        "values": torch.bfloat16, "returns": torch.float32, "advantages": torch.float32, "value_mask": torch.int64,
    }  # fmt: skip


def test_the_critic_learns_at_the_first_token_of_a_turn(queue, batch):
    """verl's value loss and its mean, with the masks as the critic finds them."""
    from tensordict import TensorDict
    from verl.workers.config import CriticConfig
    from verl.workers.utils.losses import value_loss

    turn_level(batch)
    with fields.critic_learns_where_told(batch):
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


def test_observation_weights_are_on_what_the_model_did_not_write(queue, batch):
    write(batch, streamed(ROLLOUTS, advantage=[1.0, 1.0], observation=[0.5, 0.25]))
    assert rows_of(queue.fields["observation_weight"]) == [[0, 0, 0.5, 0], [0, 0.25, 0, 0, 0], [0]]


def test_a_replayed_response_is_no_observation(queue, batch):
    replayed = replace(EPISODES[1], turns=[replace(EPISODES[1].turns[0], calls=0), EPISODES[1].turns[1]])
    queue.fields["loss_mask"] = jagged([[1, 1, 0, 1], [0, 0, 1, 1, 1], [0]], torch.int64)
    write(
        batch,
        streamed([ROLLOUTS[0], replace(ROLLOUTS[1], episode=replayed)], advantage=[1.0] * 2, observation=[0.5] * 2),
    )
    assert rows_of(queue.fields["observation_weight"]) == [[0, 0, 0.5, 0], [0, 0.5, 0, 0, 0], [0]]


def test_a_token_weighs_what_its_update_says(queue, batch):
    write(batch, streamed(ROLLOUTS, advantage=[1.0, 1.0]))
    assert queue.fields["loss_weight"].tolist() == pytest.approx([1 / 3, 1 / 4, 0])
    by_length = Vanilla(VanillaConfig(aggregation=Aggregation.SEQ_MEAN_TOKEN_SUM_NORM))
    write(batch, streamed(ROLLOUTS, advantage=[1.0, 1.0]), by_length)
    assert queue.fields["loss_weight"].tolist() == pytest.approx([1 / 10, 1 / 10, 0]), "each update has one episode"


def test_a_stream_of_ones_own_is_a_field(queue, batch):
    """One number a token lies on the response; the queue has no other numbers of the prompt."""
    for row, prompt in zip(batch.tags, (2, 1, 1), strict=True):
        row["seq_len"] = prompt + row["response_len"]
    each = [PerToken([9, 9, 1, 2, 3, 4]), PerToken([9, 5, 6, 7, 8, 9])]
    write(batch, streamed(ROLLOUTS, advantage=[1.0, 1.0], teacher=each, sure=[0.5, 0.25]))
    assert rows_of(queue.fields["stream_teacher"]) == [[1, 2, 3, 4], [5, 6, 7, 8, 9], [0]]
    assert queue.fields["stream_sure"].tolist() == [0.5, 0.25, 0]
    with pytest.raises(ValueError, match="a stream has 6 numbers for the 7 tokens of u_0_0"):
        batch.tags[0]["seq_len"] = 7
        write(batch, streamed(ROLLOUTS, teacher=each))


@pytest.mark.parametrize(("weights", "sums"), [([0.5, 2.0], [1.5, 8.0]), ([[1.0, 2.0], [0.0, 1.0]], [4.0, 3.0])])
def test_rows_of_a_batch_can_be_imitated(queue, batch, weights, sums):
    """An update of the cross-entropy is divided by the sum of its weights; verl's metrics find advantages of 0."""
    write(batch, streamed(ROLLOUTS, cross_entropy=weights), CROSS_ENTROPY)
    assert queue.fields["loss_weight"].tolist() == pytest.approx([1 / sums[0], 1 / sums[1], 0])
    assert queue.fields["advantages"].tolist() == [0.0] * 3 == [tag["advantage"] for tag in batch.tags]


def test_metrics_by_tags_are_those_of_all_tokens(queue, batch):
    """What verl says of rows of which the driver has read no token, beside the same with the tokens."""
    from tensordict import TensorDict
    from verl.protocol import DataProto
    from verl.trainer.ppo.metric_utils import compute_data_metrics

    queue.fields["rm_scores"] = jagged([[0.0, 0, 0, 1], [0.0] * 5, [0.0]])
    for place, row in enumerate(batch.tags):
        row |= {"prompt_len": 2 + place, "score": float(place == 0), "num_turns": 2}
    write(batch, streamed(ROLLOUTS, advantage=[-1.5, 2.0], reward=[0.25, -0.5]))
    fields.write_rewards(batch, streamed(ROLLOUTS, reward=[0.25, -0.5]))

    def of(data):
        """As verl does: padded, and then without the rows that are padding, here the last."""
        lengths = {name: data[f"{name}s"].offsets().diff().float() for name in ("prompt", "response")}
        data = data.to_padded_tensor()
        data["prompt_length"], data["response_length"] = lengths["prompt"], lengths["response"]
        data["token_level_scores"] = data["token_level_rewards"] = data["rm_scores"]
        return compute_data_metrics(DataProto(batch=data)[:2], use_critic=False)

    each = fields.each_token(queue.fields["advantages"], queue.fields["loss_mask"])
    tokens = {"prompts": jagged([[5] * 2, [5] * 3, [5] * 4]), "responses": jagged(MASKS), "advantages": each,
              "returns": each, **{name: queue.fields[name] for name in ("response_mask", "rm_scores")}}  # fmt: skip
    of_tags, of_tokens = rows.metric_rows(batch.tags), TensorDict(tokens, batch_size=3)
    assert of(of_tags) == pytest.approx(of(of_tokens))
    assert of_tags.to_padded_tensor()["responses"].shape == (3, 5), "the memory of a batch"


def test_the_turn_of_each_token(queue, batch):
    write(batch, streamed(ROLLOUTS, advantage=[1.0, 1.0]))
    assert "stream_turn" not in queue.fields
    write(batch, streamed(ROLLOUTS, advantage=[1.0, 1.0]), TurnLoss(ClippedConfig()))
    assert rows_of(queue.fields["stream_turn"]) == [[0, 0, 1, 1], [0, 1, 1, 1, 1], [0]]


# which update takes which rows


@given(
    groups=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=4), min_size=1, max_size=20),
    tasks=st.integers(1, 6),
    data=st.data(),
)
def test_an_update_takes_whole_groups_in_a_seeded_order(groups, tasks, data):
    keys = [
        f"{group:09d}_{session}_{segment}"
        for group, sessions in enumerate(groups)
        for session, segments in enumerate(sessions)
        for segment in range(segments)
    ]

    def shared(keys, seed="0"):
        return rows.share_out(KVBatchMeta(partition_id="train", keys=keys, tags=[{} for _ in keys]), tasks, seed)

    shares = shared(keys)
    assert sorted(key for share in shares for key in share) == keys, "every row once"
    prompts = [{rows.prompt_of(rows.session_of(key)) for key in share} for share in shares]
    assert sum(map(len, prompts)) == len(groups), "no group in two updates"
    assert max(map(len, prompts)) - min(map(len, prompts)) <= 1
    assert len(shares) == 1 or 3 * tasks / 4 < len(groups) / len(shares) <= 3 * tasks / 2, "updates do not shrink"
    if len(groups) % tasks == 0:
        assert {len(of_update) for of_update in prompts} == {tasks}
    assert shared(data.draw(st.permutations(keys))) == shares, "whichever episode finished first"
    if len(groups) > 12 and len(shares) > 1:
        assert any(shared(keys, str(seed)) != shares for seed in range(1, 4))


@pytest.mark.parametrize(
    ("left", "sizes"),
    [(16, [4, 4, 4, 4]), (15, [4, 4, 4, 3]), (13, [5, 4, 4]), (5, [5]), (6, [6]), (7, [4, 3]), (1, [1])],
)
def test_a_batch_that_lost_groups_makes_fewer_updates(left, sizes):
    """The recipe reads 16 tasks a step and 4 an update; the filter or failures left some of them."""
    keys = [f"{group:09d}_{session}_0" for group in range(left) for session in range(4)]
    shares = rows.share_out(KVBatchMeta(partition_id="train", keys=keys, tags=[{} for _ in keys]), 4, "0")
    assert [len(share) // 4 for share in shares] == sizes


def test_groups_of_other_sizes_even_out_the_rows():
    """Of updates with equal numbers of groups, the one with the fewest rows takes the next."""
    keys = [f"{group:09d}_{session}_0" for group in range(40) for session in range(12 if group % 2 else 2)]
    shares = rows.share_out(KVBatchMeta(partition_id="train", keys=keys, tags=[{} for _ in keys]), 20, "0")
    assert abs(len(shares[0]) - len(shares[1])) <= 10, "the difference of two groups"


@pytest.mark.parametrize(("count", "workers"), [(66, 1), (66, 2), (7, 4)])
def test_the_rows_of_an_update_are_dealt_to_the_workers(count, workers):
    """verl gives each worker a chunk of the rows, and cuts it into updates."""
    keys = [f"{number:09d}_0_0" for number in range(count)]
    tags = [{"seq_len": 10 + number} for number in range(count)]
    batch = KVBatchMeta(partition_id="train", keys=keys, tags=tags)
    shares = rows.share_out(batch, -(-count // 2), "0")
    size = -(-max(map(len, shares)) // workers) * workers
    assert [len(share) for share in shares] == [-(-count // 2), count // 2]
    padding = [f"pad_{number}_0" for number in range(2 * size - count)]
    batch = KVBatchMeta(partition_id="train", keys=keys + padding, tags=[*tags, *({"seq_len": 1} for _ in padding)])
    update_of = rows.arrange(batch, shares, workers)
    width = 2 * size // workers
    for number, share in enumerate(shares):
        keys_of_update = [
            key for chunk in range(workers) for key in batch.keys[chunk * width + number * width // 2 :][: width // 2]
        ]
        assert set(keys_of_update) >= set(share) and all(update_of[key] == number for key in keys_of_update)
        assert sum(key.startswith("pad") for key in keys_of_update) == size - len(share)


# folded episodes


@pytest.fixture
def folded(queue):
    """The first episode has two segments: a turn and, after it, notes on it; then the second turn."""
    first = EPISODES[0]
    turns = [replace(first.turns[0], tokens=(0, 2)), replace(first.turns[1], tokens=(1, 2), segment=1)]
    masks = [[1, 1, 0, 1], [0, 1], MASKS[1]]
    queue.fields |= {
        "response_mask": jagged(masks, torch.int64),
        "loss_mask": jagged(masks, torch.int64),
        "advantages": jagged([[0.0] * 4, [0.0] * 2, [0.0] * 5]),
        "returns": jagged([[0.0] * 4, [0.0] * 2, [0.0] * 5]),
        "values": jagged([[0.5, 9.0, 9.0, 9.0], [9.0, 0.25], [0.1, 9.0, 0.2, 9.0, 9.0]]),
    }
    tags = [tag(len(mask), own_tokens=sum(mask)) for mask in masks]
    batch = KVBatchMeta(partition_id="train", keys=["u_0_0", "u_0_1", "u_1_0"], tags=tags)
    folded = replace(ROLLOUTS[0], episode=replace(first, turns=turns), kept=["u_0_0", "u_0_1"])
    return batch, [folded, ROLLOUTS[1]]


def test_all_segments_have_the_advantage_of_their_episode(queue, folded):
    batch, rollouts = folded
    write(batch, streamed(rollouts, advantage=[2.0, -2.0]))
    advantages = fields.each_token(queue.fields["advantages"], queue.fields["loss_mask"])
    assert rows_of(advantages) == [[2] * 4, [2] * 2, [-2] * 5]


def test_notes_belong_to_the_turn_that_follows(queue, folded):
    batch, rollouts = folded
    write(batch, streamed(rollouts, advantage=[[2.0, 3.0], [4.0, 5.0]]))
    assert rows_of(queue.fields["advantages"]) == [[2, 2, 3, 3], [3, 3], [4, 5, 5, 5, 5]]


def test_the_values_of_turns_are_found_in_their_segments(queue, folded):
    batch, rollouts = folded
    fields.turn_values(batch, rollouts)
    assert rollouts[0].values == pytest.approx([0.5, 0.25])
    write(batch, {row.segment: row for row in PPO(PPOConfig(level=Level.TURN)).rows(rollouts)})
    assert rows_of(queue.fields["returns"]) == [[1] * 4, [1] * 2, pytest.approx([0] * 5, abs=1e-6)]
    assert rows_of(queue.fields["value_mask"]) == [[1, 0, 0, 0], [0, 1], [1, 0, 1, 0, 0]]
