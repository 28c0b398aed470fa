"""The loss of an update on the workers, rows that have their tokens, and what a learner asks of the workers."""

import inspect
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from math import nan
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep import thinned

pytest.importorskip("verl")

import torch
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import trainer_base
from verl.utils import tensordict_utils as tu
from verl.workers.engine.utils import prepare_micro_batches

from agentgym_rl.algorithms.losses import losses
from agentgym_rl.algorithms.losses.aggregation import Aggregation
from agentgym_rl.algorithms.losses.clipped import ClippedConfig
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.losses.dpo import Preference, PreferenceConfig
from agentgym_rl.algorithms.losses.off_policy import MOVED, SAMPLED, OffPolicy
from agentgym_rl.algorithms.losses.turn import Turn as TurnLoss
from agentgym_rl.algorithms.losses.vanilla import Vanilla, VanillaConfig
from agentgym_rl.algorithms.optimizer import OptimizerConfig
from agentgym_rl.algorithms.rows import PerToken, Row, imitation
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.engine.recipe.compose import load
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.verl.by_rows import ByRows, in_tags, metric_data
from agentgym_rl.engine.verl.learner import Learner
from agentgym_rl.engine.verl.mapping import verl_config
from agentgym_rl.engine.verl.modes import TRAINERS, ColocateTrainer, SeparateTrainer, SyncTrainer
from agentgym_rl.engine.verl.settings import Settings
from agentgym_rl.engine.verl.updates import order, row_batch, row_loss, spread, token_batch
from agentgym_rl.rollout.supervised import Example

# supervised


@given(count=st.integers(1, 40), batch=st.integers(1, 12), seed=st.text(), updates=st.none() | st.integers(0, 15))
def test_order(count, batch, seed, updates):
    indices = order(count, batch, seed, updates)
    assert len(indices) % batch == 0
    if updates is None:
        assert count <= len(indices) < count + batch
    else:
        assert len(indices) == updates * batch
    for start in range(0, len(indices), count):
        one_pass = indices[start : start + count]
        assert len(set(one_pass)) == len(one_pass)
        assert len(one_pass) < count or sorted(one_pass) == list(range(count))
    assert order(count, batch, seed, updates) == indices


VANILLA = Vanilla(VanillaConfig())


def test_order_differs_from_seed_to_seed_and_pass_to_pass():
    assert order(20, 10, "a") != order(20, 10, "b")
    two = order(20, 10, "a", updates=4)
    assert two[:20] == order(20, 10, "a")
    assert two[20:] != two[:20]


def lists(nested):
    return [row.tolist() for row in nested.unbind()]


def batch(rows, loss=CROSS_ENTROPY, size=None, longest=9):
    return row_batch(rows, loss, size or len(rows), 1.0, longest)


def test_tokens_lie_as_a_rollouts_do_in_the_queue():
    examples = [Example([7, 8, 9], [0.0, 1.0, 0.0]), Example([4, 5], [0.0, 1.0])]
    data = token_batch(examples, 2, 0.5)
    assert data.batch_size == torch.Size([2])
    for name, rows in (
        ("input_ids", [[7, 8, 9], [4, 5]]), ("position_ids", [[0, 1, 2], [0, 1]]), ("prompts", [[7], [4]]),
        ("responses", [[8, 9], [5]]), ("response_mask", [[1, 0], [1]]), ("loss_mask", [[1, 0], [1]]),
    ):  # fmt: skip
        assert data[name].is_nested and data[name].dtype == torch.int64 and lists(data[name]) == rows
    settings = {
        "global_batch_size": 2,
        "mini_batch_size": 2,
        "temperature": 0.5,
        "dataloader_kwargs": {"shuffle": False},
    }
    assert {name: tu.get_non_tensor_data(data, name, None) for name in settings} == settings
    with pytest.raises(AssertionError, match="first token"):
        token_batch([Example([1, 2], [1.0, 1.0])], 1, 1.0)


PLAYED = Episode(
    env="e", item_id="e_1", ending=Ending.TERMINATED, reward=1.0, success=True, max_turns=9,
    turns=[Turn(response="r", action="r", observation="", reward=0.0, invalid=False, tokens=span, segment=segment)
           for span, segment in (((0, 1), 0), ((2, 4), 0), ((0, 2), 1))],
)  # fmt: skip
FIRST, SECOND = Example([9, 9, 1, 2, 3, 4], [0.0, 0, 1, 0, 1, 1], 2), Example([8, 5, 6], [0.0, 1, 1], 1)


@pytest.mark.parametrize(("name", "stream", "first", "second"), [
    ("advantage", 2.0, [0, 0, 2, 0, 2, 2], [0, 2, 2]),
    ("advantage", [2.0, 3.0, 4.0], [0, 0, 2, 0, 3, 3], [0, 4, 4]),
    ("observation", 0.5, [0, 0, 0, 0.5, 0, 0], [0, 0, 0]),
    ("observation", [0.5, 0.25, 1.0], [0, 0, 0, 0.25, 0, 0], [0, 0, 0]),
])  # fmt: skip
def test_a_stream_lies_on_the_tokens_it_is_of(name, stream, first, second):
    streams = [spread(Row(tokens, {}, PLAYED, place), name, stream) for place, tokens in enumerate((FIRST, SECOND))]
    assert streams == [first, second]


def test_one_number_a_token_lies_where_it_is_said():
    weights = PerToken([0.0, 0.5, 1, 0.25, 0, 2])
    assert spread(Row(FIRST, {}, PLAYED), "cross_entropy", weights) == list(weights)
    data = batch([Row(FIRST, {"cross_entropy": weights}, PLAYED)])
    assert lists(data["response_mask"]) == [[1, 1, 1, 1, 1]], "a weight of any token is learned"
    assert data["loss_weight"].tolist() == pytest.approx([1 / 3.75])


def test_rows_are_weighed_as_their_loss_says():
    """By tokens or episodes of the update, or by the sum of the weights."""
    rows = [
        Row(FIRST, {"advantage": 1.0}, PLAYED),
        Row(SECOND, {"advantage": 1.0}, PLAYED, 1),
        Row(SECOND, {"advantage": 1.0}),
    ]
    assert batch(rows, VANILLA)["loss_weight"].tolist() == pytest.approx([1 / 7] * 3)
    by_episodes = Vanilla(VanillaConfig(aggregation=Aggregation.SEQ_MEAN_TOKEN_MEAN))
    assert batch(rows, by_episodes)["loss_weight"].tolist() == pytest.approx([1 / 10, 1 / 10, 1 / 4])
    assert batch(rows, VANILLA, size=1)["loss_weight"].tolist() == pytest.approx([1 / 3, 1 / 2, 1 / 2])
    halved = [Row(FIRST, {"cross_entropy": 0.5}), Row(SECOND, {"cross_entropy": 0.0})]
    assert batch(halved)["loss_weight"].tolist() == pytest.approx([1 / 1.5, 0.0])
    turns = batch(rows[:2], TurnLoss(ClippedConfig()))
    assert lists(turns["stream_turn"]) == [[0, 0, 0, 1, 1], [2, 2]]


def of_update(data, log_probs, loss, dp_size=1, old=None):
    """The loss of an update; at each place of ``log_probs`` the one of the token after it."""
    if old is not None:
        data["old_log_probs"] = old
    tu.assign_non_tensor(data, dp_size=dp_size, batch_num_tokens=float(data["loss_mask"].values().sum()))
    jagged = torch.nested.nested_tensor_from_jagged(log_probs, data["input_ids"].offsets())
    return row_loss({"log_probs": jagged}, data, loss=loss)


def test_the_cross_entropy_by_hand():
    rows = [imitation(Example([1, 2, 3], [0.0, 1.0, 0.0]), 2.0, 0.5), imitation(Example([4, 5], [0.0, 1.0]), 0.25)]
    with pytest.raises(ValueError, match="have different"):
        Learner(None, None, None).learn([rows[0], Row(FIRST, {})], CROSS_ENTROPY, lr=1.0, mini_batch=1)
    at = torch.tensor([-1.0, -2.0, 99.0, -4.0, 99.0], requires_grad=True)
    loss, _ = of_update(batch(rows), at, CROSS_ENTROPY)
    assert loss.item() == pytest.approx((2.0 * 1 + 0.5 * 2 + 0.25 * 4) / 2.75)
    loss.backward()
    assert at.grad.tolist() == pytest.approx([-2 / 2.75, -0.5 / 2.75, 0, -0.25 / 2.75, 0])


def test_rows_of_another_prompt_are_relative_to_what_sampled_them():
    streams = [{"advantage": 1.0, SAMPLED: PerToken([-1.0] * 3), MOVED: moved} for moved in (1.0, 0.0)]
    data = batch([Row(SECOND, each, PLAYED, 1) for each in streams], OffPolicy(VANILLA, 1.0))
    log_probs = torch.tensor([-0.5, -0.1, 0.0] * 2, requires_grad=True)
    loss, metrics = of_update(data, log_probs, OffPolicy(VANILLA, 1.0))
    ratios = torch.tensor([0.5, 0.9]).exp()
    assert loss.item() == pytest.approx(-(ratios.clamp(max=2.0).sum() + 2 * 1.2).item() / 4)
    assert float(metrics["actor/pg_clipfrac"].aggregate()) == pytest.approx(3 / 4)


def test_a_replayed_response_has_no_gradient_whatever_its_probability():
    example = Example([9, 9, 1, 2, 3, 4], [0.0, 0, 0, 0, 1, 1], 2)
    losses_and_slopes = []
    for replayed in (-1.0, -7.0):
        data = batch([Row(example, {"advantage": [5.0, 2.0, 0.0]}, PLAYED)], VANILLA)
        old = torch.nested.as_nested_tensor([torch.tensor([0.0, -1.0, 0, -1, -2])], layout=torch.jagged)
        at = torch.tensor([-1.0, replayed, replayed, -1.1, -2.1, 99.0], requires_grad=True)
        loss, _ = of_update(data, at, VANILLA, old=old)
        loss.backward()
        losses_and_slopes.append((loss.item(), at.grad.tolist()))
    assert losses_and_slopes[0] == losses_and_slopes[1]
    assert [bool(slope) for slope in losses_and_slopes[0][1]] == [False, False, False, True, True, False]


def test_a_replayed_response_is_no_observation():
    example = Example([9, 9, 1, 2, 3, 4], [0.0, 0, 0, 0, 1, 1], 2)
    episode = replace(PLAYED, turns=[replace(PLAYED.turns[0], calls=0), *PLAYED.turns[1:]])
    at = torch.full((6,), -1.0, requires_grad=True)
    rows = [Row(example, {"advantage": 0.0, "observation": 0.5}, episode)]
    of_update(batch(rows, VANILLA), at, VANILLA)[0].backward()
    assert at.grad.tolist() == pytest.approx([0, 0, -0.5 / 2, 0, 0, 0]), "nor is the prompt"


# preference

GOOD, BAD = Example([1, 2, 3, 4], [0.0, 1.0, 0.0, 1.0]), Example([1, 5, 6], [0.0, 0.0, 1.0])
OTHER = Example([1, 7], [0.0, 1.0])


def pair_batch(pairs, size, **fields):
    data = row_batch(
        [Row(example, {}) for pair in pairs for example in pair], Preference(PreferenceConfig()), 2 * size, 1.0, 9
    )
    for name, value in fields.items():
        data[name] = value
    return data


def preferred(data, log_probs, reference, beta, dp_size=1):
    """``reference`` is the log-probability of each whole row, on the last token that the model wrote."""
    old = []
    for mask, value in zip(data["response_mask"].unbind(), reference, strict=True):
        place = max(at for at, counts in enumerate(mask.tolist()) if counts)
        old.append(torch.tensor([value if at == place else 0.0 for at in range(len(mask))]))
    nested = torch.nested.as_nested_tensor(old, layout=torch.jagged)
    return of_update(data, log_probs, Preference(PreferenceConfig(beta=beta)), dp_size, nested)


def of_dpo(metrics):
    return {name: metric.aggregate() for name, metric in metrics.items() if name.startswith("dpo/")}


def test_the_loss_of_a_pair_by_hand():
    data = pair_batch([(GOOD, BAD)], 1)
    at = torch.tensor([-1.0, -2.0, -3.0, 99.0, -10.0, -5.0, 99.0], requires_grad=True)
    loss, metrics = preferred(data, at, [-6.0, -4.0], beta=0.5)
    margin = 0.5 * ((-4.0 + 6.0) - (-5.0 + 4.0))
    assert loss.item() == pytest.approx(-torch.tensor(margin).sigmoid().log().item())
    assert of_dpo(metrics) == {"dpo/margin": pytest.approx(margin), "dpo/accuracy": 1.0}
    loss.backward()
    slope = 0.5 * torch.sigmoid(torch.tensor(-margin)).item()
    assert at.grad.tolist() == pytest.approx([-slope, 0, -slope, 0, 0, slope, 0])


def test_at_the_reference_the_loss_is_log_2():
    loss, metrics = preferred(pair_batch([(GOOD, BAD)], 1), torch.full((7,), -1.0), [-2.0, -1.0], beta=0.1)
    assert loss.item() == pytest.approx(0.6931, abs=1e-4)
    assert of_dpo(metrics)["dpo/accuracy"] == 0.0


def test_micro_batches_keep_pairs_together_and_sum_to_the_whole():
    """Whatever the split, the summed loss of the micro-batches is the mean over the pairs."""
    pairs = [(GOOD, BAD), (OTHER, GOOD), (BAD, OTHER), (GOOD, OTHER)]
    all_pairs = pair_batch(pairs, 4)
    reference, ids = torch.linspace(-4.0, -1.0, 8), all_pairs["input_ids"].values()
    expected, _ = preferred(all_pairs, -ids.float() / 3, reference.tolist(), 0.3)
    for limit in (7, 12, len(ids)):
        data = pair_batch(pairs, 4, row=torch.arange(8))
        tu.assign_non_tensor(data, use_dynamic_bsz=True, max_token_len_per_gpu=limit, sp_size=1)
        micro_batches, _ = prepare_micro_batches(data)
        assert (len(micro_batches) == 1) is (limit == len(ids))
        summed = 0.0
        for micro in micro_batches:
            rows = micro["row"].tolist()
            assert all(
                second == first + 1 and first % 2 == 0 for first, second in zip(rows[::2], rows[1::2], strict=True)
            )
            loss, _ = preferred(micro, -micro["input_ids"].values().float() / 3, reference[micro["row"]].tolist(), 0.3)
            summed += loss.item()
        assert summed == pytest.approx(expected.item(), rel=1e-5)


def test_a_share_of_two_workers():
    """verl averages the gradients of workers, so that each worker's loss counts its pairs twice."""
    first, second = pair_batch([(GOOD, BAD)], 2), pair_batch([(OTHER, GOOD)], 2)
    both = pair_batch([(GOOD, BAD), (OTHER, GOOD)], 2)
    losses = [
        preferred(data, -data["input_ids"].values().float(), reference, 0.3, size)[0].item()
        for data, reference, size in (
            (first, [-4.0, -1.0], 2), (second, [-2.0, -3.0], 2), (both, [-4.0, -1.0, -2.0, -3.0], 1),
        )
    ]  # fmt: skip
    assert (losses[0] + losses[1]) / 2 == pytest.approx(losses[2])


def test_workers_and_updates_never_part_a_pair():
    """verl's own split of a batch: equal shares of workers, then mini-batches, then micro-batches."""
    data = pair_batch([(GOOD, BAD), (OTHER, GOOD), (BAD, OTHER), (GOOD, OTHER)], 2, row=torch.arange(8))
    seen = []
    for share in tu.chunk_tensordict(data, 2):
        for update in tu.make_iterator(
            share, mini_batch_size=2, epochs=1, seed=1, dataloader_kwargs={"shuffle": False}
        ):
            tu.assign_non_tensor(update, use_dynamic_bsz=True, max_token_len_per_gpu=7, sp_size=1)
            seen += [micro["row"].tolist() for micro in prepare_micro_batches(update)[0]]
    assert seen == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_pair_that_does_not_fit_is_refused():
    data = pair_batch([(GOOD, BAD)], 1)
    tu.assign_non_tensor(data, use_dynamic_bsz=True, max_token_len_per_gpu=6, sp_size=1)
    with pytest.raises(ValueError, match="forced group exceeds"):
        prepare_micro_batches(data)


# what a learner asks of the workers


class Workers:
    """Two workers that learn nothing; every token's log-probability is minus its id."""

    def __init__(self):
        self.settings, self.losses, self.log_probs, self.updates = [], [], [], []

    def set_optimizer(self, *settings):
        self.settings.append(settings)

    def set_loss_fn(self, loss):
        self.losses.append(loss.keywords["loss"])

    def compute_log_prob(self, data):
        self.log_probs.append(data)
        assert not self.updates and len(data) % 4 == 0
        ids = data["input_ids"]
        values = -torch.roll(ids.values().float(), shifts=-1)
        return {"log_probs": torch.nested.nested_tensor_from_jagged(values, ids.offsets())}

    def update_actor(self, data):
        self.updates.append(data)
        return {"metrics": {"loss": [0.5], "dpo/margin": [0.1], "dpo/accuracy": [1.0], "grad_norm": [2.0]}}


def settings():
    """verl's, of a run."""
    return verl_config(Resolved(load(["experiment=smoke"])), "model", Path("run"))


@pytest.fixture
def learner():
    config = settings()
    config.trainer.n_gpus_per_node = 2
    learner_of_workers = Learner(SimpleNamespace(actor_rollout_wg=Workers(), timing_raw={}), Settings(config), None)
    learner_of_workers.weights = SimpleNamespace(
        asleep=[],
        sleep=lambda: learner_of_workers.weights.asleep.append(len(learner_of_workers.verl.actor_rollout_wg.log_probs)),
        models={},
        using=lambda model, learn: nullcontext(),
    )
    learner_of_workers.optimizer = OptimizerConfig(weight_decay=0.1, betas=[0.5, 0.9], clip_grad=2.0)
    return learner_of_workers


def test_pairs_are_learned_from(learner):
    examples = [Example([9, place], [0.0, 1.0]) for place in range(5)]
    rows = [Row(examples[place], {}) for pair in ((0, 1), (0, 2), (3, 4)) for place in pair]
    loss = Preference(PreferenceConfig(beta=0.2))
    metrics, updates = learner.learn(rows, loss, lr=1e-3, mini_batch=3, epochs=2, seed="s")
    workers = learner.verl.actor_rollout_wg
    assert learner.weights.asleep == [0], "vLLM gives its memory back before the workers compute"
    assert (updates, metrics["dpo/updates"], metrics["dpo/loss"]) == (2, 2.0, 0.5)
    assert (workers.settings, workers.losses) == ([(1e-3, 0.1, (0.5, 0.9), 2.0)], [loss])
    assert len(workers.log_probs) == 1, "the reference is the policy as the first pass begins"
    expected = {(0, 1), (0, 2), (3, 4)}
    assert len(workers.updates) == 2
    for data in workers.updates:
        tokens = [int(row[1]) for row in data["input_ids"].unbind()]
        assert len(tokens) == 8  # three pairs make an update of four, so that two workers share it equally
        assert set(zip(tokens[::2], tokens[1::2], strict=True)) == expected
        assert lists(data["old_log_probs"]) == [[-token] for token in tokens]
        assert (data["mini_batch_size"], data["force_group_size"]) == (8, 2)


def updates_of(data, ranks):
    """The rows of each update, as verl deals them: a chunk for each rank, and of each so many at once."""
    shares = [
        tu.make_iterator(share, mini_batch_size=data["mini_batch_size"] // ranks, epochs=1, seed=1,
                         dataloader_kwargs={"shuffle": False})
        for share in tu.chunk_tensordict(data, ranks)
    ]  # fmt: skip
    return [[row for part in parts for row in rows_of(part)] for parts in zip(*shares, strict=True)]


def rows_of(part):
    """First own token, number of own tokens and weight of each row."""
    own = [mask.sum().item() for mask in part["response_mask"].unbind()]
    return list(
        zip([int(row[1]) for row in part["input_ids"].unbind()], own, part["loss_weight"].tolist(), strict=True)
    )


@pytest.mark.parametrize(("workers", "parallel", "mini_batch"), [(2, 1, 4), (2, 1, 3), (4, 2, 4), (2, 2, 3), (3, 1, 2)])
def test_workers_learn_the_updates_that_weights_are_computed_for(learner, workers, parallel, mini_batch):
    """An update's weights are those of a mean over its own tokens, and its rows those of the order of the pass."""
    config, ranks = learner.settings.config, workers // parallel
    config.trainer.n_gpus_per_node = workers
    config.actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size = parallel
    lengths = [5, 1, 2, 8, 3, 9, 4, 4, 6, 2, 7, 1]
    rows = [imitation(Example([99, place] + [0] * (own - 1), [0.0] + [1.0] * own)) for place, own in enumerate(lengths)]
    learner.learn(rows, CROSS_ENTROPY, lr=1e-3, mini_batch=mini_batch, seed="s")
    updates = [update for data in learner.verl.actor_rollout_wg.updates for update in updates_of(data, ranks)]
    size = -(-mini_batch // ranks) * ranks
    places = order(len(lengths), size, "s:0")
    planned = [sorted(places[at : at + size]) for at in range(0, len(places), size)]
    assert [sorted(place for place, *_ in update) for update in updates] == planned
    for update in updates:
        assert sum(own * weight for _, own, weight in update) == pytest.approx(1.0)
        assert len({weight for *_, weight in update}) == 1


def test_two_workers_learn_pairs_together(learner):
    """A part of several updates: pairs stay whole, and old log-probabilities go with their rows."""
    rows = [Row(Example([9, place], [0.0, 1.0]), {}) for place in range(16)]
    learner.learn(rows, Preference(PreferenceConfig()), lr=1e-3, mini_batch=2, seed="s")
    first, part, last = learner.verl.actor_rollout_wg.updates
    assert [len(data) for data in (first, part, last)] == [4, 8, 4]
    places = order(8, 2, "s:0")
    pairs = [[(2 * place, 2 * place + 1) for place in places[at : at + 2]] for at in range(2, 6, 2)]
    tokens = [[place for place, *_ in update] for update in updates_of(part, 2)]
    assert [list(zip(update[::2], update[1::2], strict=True)) for update in tokens] == pairs
    assert lists(part["old_log_probs"]) == [[-int(row[1])] for row in part["input_ids"].unbind()]


def test_progress_is_shown(learner, monkeypatch):
    rows, seen = [imitation(Example([9, place], [0.0, 1.0])) for place in range(10)], []

    def learn():
        return learner.learn(
            rows, CROSS_ENTROPY, lr=1e-3, mini_batch=2, seed="s", first_epoch=3, progress=lambda *at: seen.append(at)
        )

    metrics, updates = learn()
    assert (updates, metrics["supervised/loss"], metrics["supervised/grad_norm"]) == (5, 0.5, 2.0)
    assert seen == [(1, 5), (3, 5), (5, 5)]
    tokens = [int(row[1]) for data in learner.verl.actor_rollout_wg.updates for row in data["input_ids"].unbind()]
    one_pass = order(10, 2, "s:3")
    dealt_out = [one_pass[at] for at in (0, 1, 2, 4, 3, 5, 6, 8, 7, 9)]
    assert tokens == dealt_out, "the parts are those of one pass, in the order in which two workers get them"
    seen.clear()
    monkeypatch.setattr("agentgym_rl.engine.verl.learner.PART_S", 0.0)
    learn()
    assert seen == [(done, 5) for done in range(1, 6)], "slow updates are shown one by one"


def test_nothing_changes_without_rows(learner):
    assert learner.learn([], CROSS_ENTROPY, lr=1.0, mini_batch=2) == ({"supervised/updates": 0.0}, 0)
    assert not learner.verl.actor_rollout_wg.losses


PROMPT = Episode(env="e", item_id="e_1", ending=Ending.TERMINATED, reward=1.0, success=True, max_turns=1)
KEPT = Row("a_0_0", {"advantage": 1.0}, PROMPT)


@pytest.fixture
def with_batch(learner, monkeypatch):
    """A learner that has taken a batch of one row, of whose update nothing is real but what it is of."""
    learner.ran, workers = [], learner.verl.actor_rollout_wg
    learner.verl = SimpleNamespace(
        actor_rollout_wg=workers, use_critic=False, global_steps=1, timing_raw={}, samples_present=False,
        _compute_old_log_prob=lambda batch, metrics: batch,
        _update_actor=lambda batch, metrics: (learner.ran.append(workers.losses[-1]), batch)[1],
    )  # fmt: skip
    learner.balance = lambda batch, *_: batch
    for name, stub in {
        "queue.only": lambda batch, keys: batch, "queue.ratio_metrics": lambda *_: {},
        "fields.write": lambda batch, *_, **__: batch, "fields.advantage_metrics": lambda *_: {},
    }.items():  # fmt: skip
        monkeypatch.setattr(f"agentgym_rl.engine.verl.learner.{name}", stub)
    learner.take(KVBatchMeta(partition_id="train", keys=["a_0_0"], tags=[{}]), [], {})
    return learner


def test_every_update_sets_its_own_loss_in_whatever_order(with_batch):
    """Kinds of update follow each other in one unit, the batch's own among them."""
    workers, preference = with_batch.verl.actor_rollout_wg, Preference(PreferenceConfig())

    def of_batch():
        with_batch.take(KVBatchMeta(partition_id="train", keys=["a_0_0"], tags=[{}]), [], {})
        with_batch.learn([KEPT], VANILLA, lr=1e-3, mini_batch=1)
        assert with_batch.ran[-1] is VANILLA

    def imitate():
        with_batch.learn([imitation(OTHER)] * 2, CROSS_ENTROPY, lr=1e-3, mini_batch=2)

    def prefer():
        workers.updates.clear()
        with_batch.learn([Row(GOOD, {}), Row(BAD, {})], preference, lr=1e-3, mini_batch=1)

    kinds = {of_batch: VANILLA, imitate: CROSS_ENTROPY, prefer: preference}
    for first, second in product(kinds, repeat=2):
        for act in (first, second):
            act()
            assert workers.losses[-1] == kinds[act]


def test_other_updates_come_between_a_batch_and_its_own(with_batch):
    with_batch.learn([imitation(OTHER)] * 2, CROSS_ENTROPY, lr=1e-3, mini_batch=2)
    with_batch.learn([KEPT], VANILLA, lr=1e-3, mini_batch=1)
    with_batch.learn([imitation(OTHER)] * 2, CROSS_ENTROPY, lr=1e-3, mini_batch=2)
    assert with_batch.ran == [VANILLA] and with_batch.give_up().keys == ["a_0_0"]
    assert with_batch.give_up() is None


@pytest.mark.parametrize(("rows", "loss", "says"), thinned([
    ([KEPT, imitation(OTHER)], VANILLA, "different streams"),
    ([KEPT, Row(OTHER, {"advantage": 1.0})], VANILLA, "learn from each alone"),
    ([Row("a_0_0", {})], CROSS_ENTROPY, "CrossEntropy reads cross_entropy, which the rows do not have"),
    ([Row("a_0_0", {})], Preference(PreferenceConfig()), r"compares rows, and needs those of Run\.rollouts"),
    ([Row("a_0_0", {})], VANILLA, "rows have no advantages"),
    ([Row(OTHER, {})], VANILLA, "rows have no advantages"),
    ([Row("b_0_0", {"advantage": 1.0})], VANILLA, "learned from once"),
    ([KEPT], Vanilla(VanillaConfig(kl=0.1)), r"a KL loss needs a reference policy, which Algorithm\.needs names"),
    ([Row(OTHER, {"advantage": 1.0})], Vanilla(VanillaConfig(kl=0.1)), "a KL loss needs rows of a batch"),
    ([Row("a_0_0", {"advantage": [1.0, 2.0]}, PROMPT)], VANILLA, "has 2 numbers for an episode of 0 turns"),
    ([Row(OTHER, {"advantage": PerToken([1.0])})], VANILLA, "has 1 numbers for 2 tokens"),
    ([Row(OTHER, {})] * 3, Preference(PreferenceConfig()), "compares 2 rows, and has 3"),
], 3))  # fmt: skip
def test_rows_that_a_loss_cannot_learn_from(with_batch, rows, loss, says):
    with pytest.raises(ValueError, match=says):
        with_batch.learn(rows, loss, lr=1e-3, mini_batch=1)
    assert not with_batch.ran and not with_batch.verl.actor_rollout_wg.updates


def test_a_batch_is_learned_from_once(with_batch):
    with_batch.learn([KEPT], VANILLA, lr=1e-3, mini_batch=1)
    with pytest.raises(ValueError, match="learned from once"):
        with_batch.learn([KEPT], VANILLA, lr=1e-3, mini_batch=1)


def test_verls_settings_are_those_of_the_loss(with_batch):
    actor = with_batch.settings.actor
    loss = Vanilla(VanillaConfig(entropy=0.5, aggregation=Aggregation.SEQ_MEAN_TOKEN_SUM))
    with_batch.learn([KEPT], loss, lr=1e-3, mini_batch=1, epochs=3)
    assert (actor.ppo_epochs, actor.entropy_coeff, actor.loss_agg_mode) == (3, 0.5, "seq-mean-token-sum")


# the policy loss


def policy_loss(output, data, loss=None):
    return row_loss(output, data, loss=loss or VANILLA)


def policy_data(loss_weight=None, **fields):
    """Two rows of one prompt token; the second token of each response is an observation."""
    masks = [[1, 0, 1], [1, 0]]
    rows = {name: [[value] * len(mask) for mask in masks] for name, value in {"advantages": 1.0}.items()}
    jagged = {
        "response_mask": [torch.tensor(mask) for mask in masks],
        "advantages": [torch.tensor(row) for row in rows["advantages"]],
        "old_log_probs": [torch.full((len(mask),), -1.0) for mask in masks],
        "prompts": [torch.tensor([5]), torch.tensor([5])],
        "responses": [torch.tensor([6, 7, 8]), torch.tensor([6, 7])],
        **{name: [torch.tensor(row) for row in value] for name, value in fields.items()},
    }
    nested_rows = {name: torch.nested.as_nested_tensor(value, layout=torch.jagged) for name, value in jagged.items()}
    data = tu.get_tensordict(nested_rows)
    data["loss_weight"] = torch.tensor([1 / 3, 1 / 3] if loss_weight is None else loss_weight)
    tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=3, global_batch_size=2)
    return data


def test_observation_weights_add_a_supervised_loss_to_the_policy_loss():
    # at each place the log-probability of the token after it: prompt, then the response
    flat = torch.tensor([-1.0, -2.0, -1.0, 0.0, -1.0, -4.0, 0.0], requires_grad=True)
    output = {"log_probs": torch.nested.nested_tensor_from_jagged(flat, torch.tensor([0, 4, 7]))}
    plain, _ = policy_loss(output, policy_data())
    weights = {"observation_weight": [[0.0, 0.5, 0.0], [0.0, 0.25]]}
    loss, metrics = policy_loss(output, policy_data(**weights))
    assert (loss - plain).item() == pytest.approx((0.5 * 2.0 + 0.25 * 4.0) / 3)
    assert metrics["observation_loss"].aggregate() == pytest.approx(2 / 3)
    (loss - plain).backward()
    assert flat.grad.tolist() == pytest.approx([0, -0.5 / 3, 0, 0, 0, -0.25 / 3, 0])


def test_shares_of_an_update_do_not_depend_on_its_micro_batches():
    """Nor on padding, which may fill one of them."""
    flat = torch.tensor([-0.5, -1.0, -1.0, 0.0, -1.0, -1.0, 0.0])  # one of three tokens leaves the clip range
    data, weights = policy_data(), torch.tensor([1 / 3, 1 / 3, 0.0])
    fields = {name: data[name].unbind() for name in ("response_mask", "advantages", "old_log_probs", "prompts",
                                                     "responses")}  # fmt: skip
    padding = {"response_mask": [0, 0], "advantages": [1.0] * 2, "old_log_probs": [-9.0] * 2, "prompts": [5],
               "responses": [5, 5]}  # fmt: skip

    def shares(*micro_batches, workers=1):
        metrics = {}
        for rows in micro_batches:
            every = {name: [*field, torch.tensor(padding[name])] for name, field in fields.items()}
            made = {name: torch.nested.as_nested_tensor([field[row] for row in rows], layout=torch.jagged)
                    for name, field in every.items()}  # fmt: skip
            micro = tu.get_tensordict(made)
            micro["loss_weight"] = weights[rows]
            tu.assign_non_tensor(micro, dp_size=workers, batch_num_tokens=3)
            of_rows = [[flat[:4], flat[4:], torch.zeros(3)][row] for row in rows]
            output = {"log_probs": torch.nested.as_nested_tensor(of_rows, layout=torch.jagged)}
            for name, metric in policy_loss(output, micro)[1].items():
                metrics.setdefault(name, metric.init_list()).extend(metric)
        return [metrics[name].aggregate() for name in ("actor/pg_clipfrac", "actor/ppo_kl")]

    assert shares([0, 1, 2]) == pytest.approx([1 / 3, -0.5 / 3])
    assert shares([0], [1], [2]) == pytest.approx([1 / 3, -0.5 / 3])
    by_worker = [shares([0], workers=2), shares([1, 2], workers=2)]  # verl averages over workers
    assert [sum(pair) / 2 for pair in zip(*by_worker, strict=True)] == pytest.approx([1 / 3, -0.5 / 3])


def test_the_policy_loss_by_hand():
    """Weights of tokens, rejection, importance weights, entropy bonus and KL loss; equal on two workers."""
    fields = {
        "advantages": [[2.0, 9.0, -1.0], [1.0, 9.0]],
        "kept": [[1, 0, 1], [0, 0]],
        "loss_weight": [0.25, 0.125],
        "rollout_is_weights": [[1.0, 1.0, 2.0], [1.0, 1.0]],
        "ref_log_prob": [[-1.0, -1.0, -2.0], [-1.0, -1.0]],
    }
    flat = torch.full((7,), -1.0)  # as the old ones, so that every ratio is 1
    offsets = torch.tensor([0, 4, 7])
    output = {
        "log_probs": torch.nested.nested_tensor_from_jagged(flat, offsets),
        "entropy": torch.nested.nested_tensor_from_jagged(torch.full((7,), 0.4), offsets),
    }
    chosen = Vanilla(VanillaConfig(entropy=0.1, kl=0.5))
    data = policy_data(**fields)
    loss, metrics = policy_loss(output, data, chosen)
    policy, entropy = -(2.0 * 0.25 - 1.0 * 0.25 * 2.0), 0.4 * 0.5
    kl = 0.25 * (torch.tensor(-1.0).exp().item() + 1 - 1)
    assert loss.item() == pytest.approx(policy - 0.1 * entropy + 0.5 * kl)
    assert metrics["actor/pg_loss"].aggregate() == pytest.approx(policy)
    assert metrics["kl_loss"].aggregate() == pytest.approx(kl)
    tu.assign_non_tensor(data, dp_size=2)
    assert policy_loss(output, data, chosen)[0].item() == pytest.approx(2 * loss.item())


def test_without_old_log_probabilities_they_are_the_present_ones():
    """As in a batch that is updated once, with the weights that sampled it."""
    offsets = torch.tensor([0, 4, 7])

    def updated(data):
        flat = torch.tensor([-1.0, -2.0, -1.5, 0.0, -1.0, -4.0, 0.0], requires_grad=True)
        loss, metrics = policy_loss({"log_probs": torch.nested.nested_tensor_from_jagged(flat, offsets)}, data)
        loss.backward()
        return loss.item(), {name: metric.aggregate() for name, metric in metrics.items()}, flat.grad.tolist()

    data = policy_data(old_log_probs=[[-1.0, -2.0, -1.5], [-1.0, -4.0]])
    assert updated(data.exclude("old_log_probs")) == updated(data)
    replayed = policy_data(old_log_probs=[[nan, nan, -1.5], [-1.0, nan]])
    assert updated(replayed) == updated(data), "tokens that no policy sampled"


@pytest.mark.parametrize("kind", [*losses().values()], ids=[*losses()])
def test_one_advantage_a_row_is_that_of_each_of_its_tokens(kind):
    chosen = kind(kind.Config())
    flat = torch.tensor([-1.0, -0.5, -1.5, 0.0, -1.3, -4.0, 0.0])
    output = {"log_probs": torch.nested.nested_tensor_from_jagged(flat, torch.tensor([0, 4, 7]))}
    turns = {"stream_turn": [[0, 1, 1], [0, 1]]}
    each, once = policy_data(advantages=[[2.0] * 3, [-1.0] * 2], **turns), policy_data(**turns)
    once["advantages"] = torch.tensor([2.0, -1.0])
    losses = [policy_loss(output, data, chosen)[0].item() for data in (each, once, policy_data(**turns))]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize(
    ("changed", "on_policy"),
    [
        ({}, True),
        ({"trainer.device": "cuda"}, False),
        ({"actor_rollout_ref.actor.ppo_epochs": 2}, False),
        ({"algorithm.rollout_correction.rollout_is": "token"}, False),
        ({"algorithm.rollout_correction.rollout_rs": "seq_sum_k1"}, False),
        ({"algorithm.rollout_correction.bypass_mode": True}, False),
    ],
    ids=str,
)
def test_a_batch_is_on_policy(changed, on_policy):
    config = settings()
    OmegaConf.update(config, "trainer.device", "cpu")
    for key, value in changed.items():
        OmegaConf.update(config, key, value)
    for present, of_rows, expected in ((True, [0, 0], on_policy), (True, [0, 1], False), (False, [0, 0], False)):
        learner = Learner(SimpleNamespace(samples_present=present), Settings(config), None)
        learner.update_of = dict(enumerate(of_rows))
        assert learner.on_policy() is expected
    assert [kind.samples_present for kind in (SyncTrainer, ColocateTrainer, SeparateTrainer)] == [True, False, False]


def test_verls_metrics_have_advantages_and_returns_of_each_token():
    name = "get_metric_data_with_optional_routed_experts"
    assert f"{name}(" in inspect.getsource(trainer_base.PPOTrainer._compute_metrics)
    rows = policy_data().select("response_mask", "advantages")
    once, twice = torch.tensor([1.0, 2.0]), rows["advantages"] * 2
    for written, advantages, returns in (
        ({"advantages": once}, [[1, 1, 1], [2, 2]], [[1, 1, 1], [2, 2]]),
        ({"returns": twice}, [[1, 1, 1], [1, 1]], [[2, 2, 2], [2, 2]]),
    ):
        data = metric_data(
            keys=["a_0_0", "b_0_0"], partition_id="train", fields=[], moe_lb_metrics_interval=0, global_steps=1,
            accumulator=None, kv_batch_get=lambda written=written, **_: {**dict(rows.items()), **written},
        )  # fmt: skip
        assert [[row.tolist() for row in data[key].unbind()] for key in ("advantages", "returns")] == [
            advantages, returns,
        ]  # fmt: skip


@pytest.mark.parametrize(("tag", "use_critic", "experts", "tokens"), [
    ({"advantage": 1.0}, False, 0, False), ({}, False, 0, True), ({"advantage": 1.0}, True, 0, True),
    ({"advantage": 1.0}, False, 5, True),
])  # fmt: skip
def test_verls_metrics_read_tokens_where_tags_do_not_say_all(tag, use_critic, experts, tokens):
    config = settings()
    config.actor_rollout_ref.rollout.moe_load_balance_metrics_interval = experts
    batch = KVBatchMeta(partition_id="train", keys=["a_0_0"], tags=[tag])
    assert in_tags(batch, config, use_critic) == (not tokens)


@pytest.mark.parametrize("trainer", TRAINERS.values())
def test_every_mode_has_its_own_of_what_the_driver_does_by_rows(trainer):
    """Asynchronous learning puts other weights in place around the old log-probabilities."""
    order = trainer.__mro__
    assert order.index(ByRows) == order.index(trainer_base.PPOTrainer) - 1
    assert order.index(trainer.__bases__[1]) < order.index(ByRows)


def test_advantages_without_old_log_probabilities(monkeypatch):
    """And without verl's correction, which would ask for them."""
    config = settings()
    OmegaConf.update(config, "algorithm.adv_estimator", "reinforce_plus_plus")
    rows = policy_data().select("response_mask")
    rows["rm_scores"] = rows["rollout_log_probs"] = torch.nested.as_nested_tensor(
        [torch.tensor([0.0, 0.0, 2.0]), torch.tensor([3.0, 0.0])], layout=torch.jagged
    )
    written = []
    monkeypatch.setattr(
        "transfer_queue.kv_batch_get",
        lambda keys, partition_id, select_fields: tu.get_tensordict({**dict(rows.items()), "uid": ["a", "b"]}),
    )
    monkeypatch.setattr("transfer_queue.kv_batch_put", lambda keys, partition_id, fields: written.append(fields))
    batch = KVBatchMeta(partition_id="train", keys=["a_0_0", "b_0_0"], tags=[{}, {}])
    ByRows._compute_advantage(SimpleNamespace(config=config), batch, {})
    assert [row.tolist() for row in written[0]["returns"].unbind()] == [[2.0, 0.0, 2.0], [3.0, 0.0]]
