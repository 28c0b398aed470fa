"""The losses of tokens, beside verl's own; and the weights that make one loss of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

import torch

from agentgym_rl.algorithms.losses import Clip, Tokens, policy_loss, token_weights
from agentgym_rl.algorithms.policy_gradient import LossAggregation, PolicyLoss

CLIP = Clip(low=0.2, high=0.3, dual=1.5)


def tokens(seed=0, rows=4, width=6, spread=0.5, **fields):
    generator = torch.Generator().manual_seed(seed)

    def draw():
        return torch.randn(rows, width, generator=generator)

    old, mask = -draw().abs() - 0.1, torch.rand(rows, width, generator=generator) < 0.7
    mask[:, 0] = True
    log_prob = (old + spread * draw()).requires_grad_()
    return Tokens(log_prob=log_prob, old_log_prob=old, advantages=draw(), mask=mask, **fields)


@pytest.mark.parametrize("aggregation", list(LossAggregation))
@pytest.mark.parametrize("kind", [kind for kind in PolicyLoss if kind is not PolicyLoss.TURN])
def test_the_same_loss_and_gradient_as_verl(kind, aggregation):
    pytest.importorskip("verl")
    from verl.trainer.ppo.core_algos import get_policy_loss_fn
    from verl.workers.config import ActorConfig

    if kind is PolicyLoss.SAPO:
        aggregation = LossAggregation.SEQ_MEAN_TOKEN_MEAN  # verl's has this one only
    given = tokens()
    config = ActorConfig(
        strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio=CLIP.low,
        clip_ratio_low=CLIP.low, clip_ratio_high=CLIP.high, clip_ratio_c=CLIP.dual,
    )  # fmt: skip
    config.global_batch_info["loss_scale_factor"] = 9
    theirs, _ = get_policy_loss_fn(kind.value)(
        old_log_prob=given.old_log_prob, log_prob=given.log_prob, advantages=given.advantages,
        response_mask=given.mask, loss_agg_mode=aggregation.value, config=config,
    )  # fmt: skip
    (expected,) = torch.autograd.grad(theirs, given.log_prob)
    each, outside = policy_loss(kind, given, CLIP)
    weights = token_weights(given.mask.sum(-1).tolist(), list("abcd"), [0] * 4, aggregation, 9)[:, None] * given.mask
    ours = (each * weights).sum()
    (found,) = torch.autograd.grad(ours, given.log_prob)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    assert torch.allclose(found, expected, atol=1e-6)
    assert bool((outside & given.mask).any()) is (kind is not PolicyLoss.SAPO)


def test_turns_of_one_token_are_clipped_alone_and_a_single_turn_as_a_sequence():
    each = tokens()
    alone = tokens(turns=torch.arange(6).expand(4, 6))
    whole = tokens(turns=torch.zeros(4, 6))
    free = Clip(low=0.2, high=0.3, dual=1e9)
    mask = each.mask
    assert torch.allclose(
        policy_loss(PolicyLoss.TURN, alone, free)[0][mask], policy_loss(PolicyLoss.VANILLA, each, free)[0][mask]
    )
    assert torch.equal(policy_loss(PolicyLoss.TURN, whole, free)[0], policy_loss(PolicyLoss.GSPO, each, free)[0])


def test_the_ratio_of_a_turn_by_hand():
    log_prob = torch.tensor([[-1.0, -2.0, -9.0, -1.0]], requires_grad=True)
    given = Tokens(
        log_prob=log_prob,
        old_log_prob=torch.tensor([[-1.1, -2.3, 0.0, -2.0]]),
        advantages=torch.tensor([[1.0, 1.0, 0.0, 1.0]]),
        mask=torch.tensor([[True, True, False, True]]),
        turns=torch.tensor([[0, 0, 0, 1]]),
    )
    each, outside = policy_loss(PolicyLoss.TURN, given, Clip(low=0.2, high=0.3, dual=3.0))
    first = torch.tensor((0.1 + 0.3) / 2).exp().item()  # the third token is no token of the model's
    assert each[0, 0].item() == each[0, 1].item() == pytest.approx(-first)
    assert each[0, 3].item() == pytest.approx(-1.3) and outside.tolist() == [[False, False, False, True]]
    each.sum().backward()
    assert log_prob.grad.tolist() == [pytest.approx([-first, -first, 0.0, 0.0])]


def test_clip_high_and_dual_clip():
    log_prob = torch.tensor([[0.5, 3.0]])
    up = Tokens(
        log_prob=log_prob, old_log_prob=torch.zeros(1, 2), advantages=torch.tensor([[1.0, -1.0]]),
        mask=torch.ones(1, 2, dtype=torch.bool),
    )  # fmt: skip
    for high, dual in ((0.2, 3.0), (0.4, 3.0), (0.2, 5.0)):
        found = policy_loss(PolicyLoss.VANILLA, up, Clip(low=0.2, high=high, dual=dual))[0]
        assert found.tolist() == [pytest.approx([-(1 + high), dual])]


# weights


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        (LossAggregation.TOKEN_MEAN, [1 / 6, 1 / 6, 1 / 6]),
        (LossAggregation.SEQ_MEAN_TOKEN_SUM, [1 / 2, 1 / 2, 1 / 2]),
        (LossAggregation.SEQ_MEAN_TOKEN_MEAN, [1 / 6, 1 / 6, 1 / 6]),
        (LossAggregation.SEQ_MEAN_TOKEN_SUM_NORM, [1 / 20, 1 / 20, 1 / 20]),
    ],
)
def test_weights_by_hand(aggregation, expected):
    """Two segments of three tokens in all, an episode of three tokens, and padding."""
    found = token_weights([2, 1, 3, 0], ["a", "a", "b", "pad"], [0] * 4, aggregation, 10)
    assert found.tolist() == pytest.approx([*expected, 0])


episodes = st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=6)


@given(episodes=episodes, updates=st.integers(1, 3))
def test_every_update_and_every_episode_weighs_the_same(episodes, updates):
    """The mean of tokens is 1 for each update, and each episode has its part of it, whatever its segments."""
    rows = [(str(number), length) for number, own in enumerate(episodes) for length in own]
    own = torch.tensor([length for _, length in rows])
    names, of = [name for name, _ in rows], [int(name) % updates for name, _ in rows]
    weights = own * token_weights(own.tolist(), names, of, LossAggregation.SEQ_MEAN_TOKEN_MEAN, 5)
    each = token_weights(own.tolist(), names, of, LossAggregation.TOKEN_MEAN, 5)
    flat = own * each
    for update in set(of):
        members = {name for name, one in zip(names, of, strict=True) if one == update}
        for member in members:
            part = sum(float(weight) for weight, name in zip(weights, names, strict=True) if name == member)
            assert part == pytest.approx(1 / len(members), rel=1e-5)
        kept = torch.tensor([one == update for one in of])
        assert float(flat[kept].sum()) == pytest.approx(1, rel=1e-5)
        assert len(set(each[kept].tolist())) == 1
