"""The losses of tokens, beside verl's own; and the weights that make one loss of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

import torch

from agentgym_rl.algorithms.losses import losses
from agentgym_rl.algorithms.losses.aggregation import Aggregation, token_weights
from agentgym_rl.algorithms.losses.base import LossConfig, Tokens
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.losses.kl import k3

LOW, HIGH, DUAL = 0.2, 0.3, 1.5
OURS = ("vanilla", "gspo", "turn", "cispo", "sapo")


def loss(name, **keys):
    """A loss with the bounds above, as far as it has them."""
    kind = losses()[name]
    defaults = vars(kind.Config())
    bounds = {
        key: value for key, value in {"clip": LOW, "clip_high": HIGH, "dual_clip": DUAL}.items() if key in defaults
    }
    return kind(kind.Config(**{"name": name, **bounds, **keys}))


def tokens(seed=0, rows=4, width=6, spread=0.5, **streams):
    generator = torch.Generator().manual_seed(seed)

    def draw():
        return torch.randn(rows, width, generator=generator)

    old, mask = -draw().abs() - 0.1, torch.rand(rows, width, generator=generator) < 0.7
    mask[:, 0] = True
    log_prob = (old + spread * draw()).requires_grad_()
    return Tokens(log_prob=log_prob, old_log_prob=old, mask=mask, streams={"advantage": draw(), **streams})


@pytest.mark.parametrize("aggregation", list(Aggregation))
@pytest.mark.parametrize("name", [name for name in OURS if name != "turn"])
def test_the_same_loss_and_gradient_as_verl(name, aggregation):
    pytest.importorskip("verl")
    from verl.trainer.ppo.core_algos import get_policy_loss_fn
    from verl.workers.config import ActorConfig

    if name == "sapo":
        aggregation = Aggregation.SEQ_MEAN_TOKEN_MEAN  # verl's has this one only
    batch = tokens()
    config = ActorConfig(
        strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio=LOW,
        clip_ratio_low=LOW, clip_ratio_high=HIGH, clip_ratio_c=DUAL,
    )  # fmt: skip
    config.global_batch_info["loss_scale_factor"] = 9
    theirs, _ = get_policy_loss_fn(name)(
        old_log_prob=batch.old_log_prob, log_prob=batch.log_prob, advantages=batch.advantages,
        response_mask=batch.mask, loss_agg_mode=aggregation.value, config=config,
    )  # fmt: skip
    (expected,) = torch.autograd.grad(theirs, batch.log_prob)
    chosen = loss(name)
    weights = token_weights(batch.mask.sum(-1).tolist(), list("abcd"), [0] * 4, aggregation, 9)
    ours = (chosen(batch) * torch.tensor(weights)[:, None] * batch.mask).sum()
    (gradient,) = torch.autograd.grad(ours, batch.log_prob)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    assert torch.allclose(gradient, expected, atol=1e-6)
    assert bool((chosen.clipped(batch) & batch.mask).any()) is (name != "sapo")


def test_turns_of_one_token_are_clipped_alone_and_a_single_turn_as_a_sequence():
    each = tokens()
    alone = tokens(turn=torch.arange(6).expand(4, 6))
    one_turn = tokens(turn=torch.zeros(4, 6))
    mask, vanilla = each.mask, loss("vanilla", dual_clip=1e9)
    assert torch.allclose(loss("turn")(alone)[mask], vanilla(each)[mask])
    assert torch.equal(loss("turn")(one_turn), loss("gspo")(each))


def test_the_ratio_of_a_turn_by_hand():
    log_prob = torch.tensor([[-1.0, -2.0, -9.0, -1.0]], requires_grad=True)
    batch = Tokens(
        log_prob=log_prob,
        old_log_prob=torch.tensor([[-1.1, -2.3, 0.0, -2.0]]),
        mask=torch.tensor([[True, True, False, True]]),
        streams={"advantage": torch.tensor([[1.0, 1.0, 0.0, 1.0]]), "turn": torch.tensor([[0, 0, 0, 1]])},
    )
    each, clipped = loss("turn")(batch), loss("turn").clipped(batch)
    first = torch.tensor((0.1 + 0.3) / 2).exp().item()  # the third token is no token of the model's
    assert each[0, 0].item() == each[0, 1].item() == pytest.approx(-first)
    assert each[0, 3].item() == pytest.approx(-1.3) and clipped.tolist() == [[False, False, False, True]]
    each.sum().backward()
    assert log_prob.grad.tolist() == [pytest.approx([-first, -first, 0.0, 0.0])]


def test_a_turn_without_a_token_of_the_models_is_no_gap_in_the_loss():
    batch = Tokens(
        log_prob=torch.zeros(1, 2), old_log_prob=torch.zeros(1, 2), mask=torch.tensor([[False, True]]),
        streams={"advantage": torch.ones(1, 2), "turn": torch.tensor([[0, 1]])},
    )  # fmt: skip
    assert loss("turn")(batch).tolist() == [[-1.0, -1.0]]


def test_clip_high_and_dual_clip():
    log_prob = torch.tensor([[0.5, 3.0]])
    up = Tokens(
        log_prob=log_prob, old_log_prob=torch.zeros(1, 2), mask=torch.ones(1, 2, dtype=torch.bool),
        streams={"advantage": torch.tensor([[1.0, -1.0]])},
    )  # fmt: skip
    for high, dual in ((0.2, 3.0), (0.4, 3.0), (0.2, 5.0)):
        losses_of_tokens = loss("vanilla", clip_high=high, dual_clip=dual)(up)
        assert losses_of_tokens.tolist() == [pytest.approx([-(1 + high), dual])]


def test_a_token_that_cannot_be_and_has_no_weight_is_no_gap_in_the_loss():
    log_prob, weight = torch.tensor([[-torch.inf, -2.0]]), torch.tensor([[0.0, 0.5]])
    batch = Tokens(log_prob=log_prob, old_log_prob=log_prob, mask=weight > 0, streams={"cross_entropy": weight})
    assert CROSS_ENTROPY(batch).tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("name", OURS)
def test_no_ratio_is_too_great_for_a_loss(name):
    batch = Tokens(
        log_prob=torch.zeros(1, 1), old_log_prob=torch.full((1, 1), -1e4), mask=torch.ones(1, 1, dtype=torch.bool),
        streams={"advantage": -torch.ones(1, 1), "turn": torch.zeros(1, 1)},
    )  # fmt: skip
    assert loss(name)(batch).isfinite().all()


def test_kl_is_verls_estimator():
    pytest.importorskip("verl")
    from verl.trainer.ppo.core_algos import kl_penalty

    batch = tokens(spread=9.0)
    reference = batch.old_log_prob
    theirs, ours = kl_penalty(batch.log_prob, reference, "low_var_kl"), k3(batch.log_prob, reference)
    assert torch.equal(ours, theirs)
    gradients = [torch.autograd.grad(each.sum(), batch.log_prob)[0] for each in (theirs, ours)]
    assert torch.equal(*gradients)


MOVED = {
    "vanilla": {"clip": 0.1, "clip_high": 0.9, "dual_clip": 1.1},
    "gspo": {"clip": 0.1, "clip_high": 0.9},
    "turn": {"clip": 0.1, "clip_high": 0.9},
    "cispo": {"clip": 0.1, "clip_high": 0.9},
    "sapo": {},
}


@pytest.mark.parametrize("name", OURS)
def test_moving_a_key_of_a_loss_moves_its_tokens(name):
    """The others, which all losses have, are in ``tests/engine/test_every_key.py``."""
    own_keys = vars(losses()[name].Config()).keys() - vars(LossConfig()).keys()
    assert own_keys == MOVED[name].keys()
    batch = tokens(spread=2.0, turn=torch.arange(6).div(2, rounding_mode="floor").expand(4, 6))
    for key, value in MOVED[name].items():
        assert not torch.equal(loss(name)(batch), loss(name, **{key: value})(batch)), key


@pytest.mark.parametrize(
    ("name", "keys", "says"),
    [
        ("vanilla", {"clip": 0.0}, "clip must be greater than 0, got 0.0"),
        ("gspo", {"clip_high": -1.0}, "clip_high must be greater than 0"),
        ("vanilla", {"dual_clip": 1.0}, "dual_clip must be greater than 1"),
        ("sapo", {"kl": -1.0}, "kl must be at least 0"),
    ],
)
def test_values_that_cannot_work(name, keys, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        loss(name, **keys)


# weights


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        (Aggregation.TOKEN_MEAN, [1 / 6, 1 / 6, 1 / 6]),
        (Aggregation.SEQ_MEAN_TOKEN_SUM, [1 / 2, 1 / 2, 1 / 2]),
        (Aggregation.SEQ_MEAN_TOKEN_MEAN, [1 / 6, 1 / 6, 1 / 6]),
        (Aggregation.SEQ_MEAN_TOKEN_SUM_NORM, [1 / 20, 1 / 20, 1 / 20]),
    ],
)
def test_weights_by_hand(aggregation, expected):
    """Two segments of three tokens in all, an episode of three tokens, and padding."""
    weights = token_weights([2, 1, 3, 0], ["a", "a", "b", "pad"], [0] * 4, aggregation, 10)
    assert weights == pytest.approx([*expected, 0])


episodes = st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=6)


@given(episodes=episodes, updates=st.integers(1, 3))
def test_every_update_and_every_episode_weighs_the_same(episodes, updates):
    """The mean of tokens is 1 for each update, and each episode has its part of it, whatever its segments."""
    rows = [(str(number), length) for number, lengths in enumerate(episodes) for length in lengths]
    lengths = torch.tensor([length for _, length in rows])
    names, of = [name for name, _ in rows], [int(name) % updates for name, _ in rows]
    weights = lengths * torch.tensor(token_weights(lengths.tolist(), names, of, Aggregation.SEQ_MEAN_TOKEN_MEAN, 5))
    each = torch.tensor(token_weights(lengths.tolist(), names, of, Aggregation.TOKEN_MEAN, 5))
    flat = lengths * each
    for update in set(of):
        members = {name for name, update_of in zip(names, of, strict=True) if update_of == update}
        for member in members:
            part = sum(float(weight) for weight, name in zip(weights, names, strict=True) if name == member)
            assert part == pytest.approx(1 / len(members), rel=1e-5)
        in_update = torch.tensor([update_of == update for update_of in of])
        assert float(flat[in_update].sum()) == pytest.approx(1, rel=1e-5)
        assert len(set(each[in_update].tolist())) == 1
