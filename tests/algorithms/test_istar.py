"""Implicit step rewards: advantages, the reward model's loss, and what a step asks of a run."""

from dataclasses import replace
from math import exp, log
from random import Random
from statistics import fmean

import pytest
from episodes import rewarded, visiting

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.config import GroupConfig
from agentgym_rl.algorithms.istar import Baseline, Istar, IstarConfig, step_advantages
from agentgym_rl.algorithms.losses.base import Tokens
from agentgym_rl.algorithms.losses.dpo import PreferenceConfig
from agentgym_rl.algorithms.losses.reward import REFERENCE_STREAM, ImplicitReward
from agentgym_rl.algorithms.reward_model import PRM, RewardModelConfig, pairs, turn_ratios
from agentgym_rl.algorithms.rloo import RLOO
from agentgym_rl.algorithms.rows import PerToken, Row


def rollout(key, success, *spans, group="g"):
    """A rollout with a turn for each span of its response tokens, behind a prompt of two tokens."""
    episode = visiting("abc"[: len(spans)], [0.0] * (len(spans) - 1) + [float(success)], success=success)
    for turn, span in zip(episode.turns, spans, strict=True):
        turn.tokens = span
    episode.prompt_tokens = 2
    return Rollout(episode=episode, group=group, key=key, kept=[f"{key}_0"])


class ScriptedRun:
    """A run with one batch, whose models give each token a number; notes what was asked."""

    seed, step, response_tokens = 0, 1, 9

    def __init__(self, *batch, prm=-1.0, left=None):
        self.batch, self.asked, self.learned, self.left = batch, [], {}, left or {}
        self.tokens = {"policy": -2.0, PRM: prm}

    def batches(self, number):
        yield list(self.batch)

    def steps_left(self, episode):
        return self.left.get(id(episode))

    def score(self, rows, by="policy", *, name, read):
        assert read
        self.asked.append(f"score {by}")
        value = self.tokens[by]
        return [
            replace(row, streams={**row.streams, name: PerToken([0, 0, *(value * at for at in range(1, 9))])})
            for row in rows
        ]

    def learn(self, rows, loss, *, lr, mini_batch, model="policy", **passes):
        self.asked.append(f"learn {model}")
        self.learned[model] = ([row.segment for row in rows], type(loss).__name__, lr, mini_batch)
        return {"prm/loss": 0.5} if model == PRM else {}


WON, LOST, LOST_TOO = (
    rollout("w", True, (0, 2), (3, 4)), rollout("l", False, (0, 1)), rollout("m", False, (0, 1), (2, 3))
)  # fmt: skip


def test_a_step_of_training():
    run, config = ScriptedRun(WON, LOST, LOST_TOO), IstarConfig(lr=0.5, prm=RewardModelConfig(lr=0.1))
    algorithm = Istar(config)
    metrics = algorithm.unit(run, 0)
    assert run.asked == ["score policy", "score prm", "learn prm", "learn policy"]
    segments, loss, lr, size = run.learned[PRM]
    assert sorted(zip(segments[::2], segments[1::2], strict=True)) == [("w_0", "l_0"), ("w_0", "m_0")]
    assert (loss, lr, size) == ("ImplicitReward", 0.1, 2) and run.learned["policy"][2] == 0.5
    assert algorithm.rewards[id(WON.episode)] == pytest.approx([0.05 * (1 + 2), 0.05 * 4]), "the model is surer by one"
    assert metrics["prm/pairs"] == 2 and metrics["prm/loss"] == 0.5 and metrics["prm/clipped_turns_frac"] == 0
    assert metrics["prm/reward_std"] > 0


def test_mini_batches_of_a_step_are_learned_from_as_steps_of_their_own():
    """Asynchronous modes may deliver a step in parts, each in the order in which its episodes ended."""

    class InParts(ScriptedRun):
        def batches(self, number):
            yield from self.batch

        def learn(self, rows, loss, *, seed="", model="policy", **settings):
            super().learn(rows, loss, seed=seed, model=model, **settings)
            learned.append((model, sorted(row.segment for row in rows), [row.streams for row in rows]))
            return {"prm/loss": 0.5} if model == PRM else {}

    first = [WON, LOST, LOST_TOO]
    second = [rollout("x", True, (0, 1), group="h"), rollout("y", False, (0, 3), (4, 5), group="h")]
    learned, algorithm = [], Istar(IstarConfig())
    metrics = algorithm.unit(InParts(first[::-1], second[::-1]), 0)
    in_parts, learned = learned, []
    alone = [Istar(IstarConfig()).unit(InParts(part), 0) for part in (first, second)]
    assert in_parts == learned and len(learned) == 4
    assert metrics["prm/pairs"] == sum(alone_metrics["prm/pairs"] for alone_metrics in alone) / 2


def test_step_rewards_are_judged_where_the_environment_knows_better():
    left = {id(WON.episode): [2.0, 1.0, 0.0], id(LOST.episode): [2.0, 2.0], id(LOST_TOO.episode): [2.0, 1.0, 1.0]}
    algorithm = Istar(IstarConfig())
    metrics = algorithm.unit(ScriptedRun(WON, LOST, LOST_TOO, left=left), 0)
    assert [reward for reward, helps in algorithm.judged if helps] == pytest.approx([0.05, 0.15, 0.2])
    assert metrics["prm/step_auc"] == pytest.approx(4 / 6), "of 0.05 and 0.15, which do not help"
    assert "prm/step_auc" not in Istar(IstarConfig()).unit(ScriptedRun(WON, LOST), 0)


def test_which_episode_ended_first_makes_no_difference():
    def learned_and_rewards(*batch):
        run, algorithm = ScriptedRun(*batch), Istar(IstarConfig())
        algorithm.unit(run, 0)
        return run.learned, [algorithm.rewards[id(rollout.episode)] for rollout in (WON, LOST, LOST_TOO)]

    other = [replace(rollout, group="h") for rollout in (LOST_TOO, WON, LOST)]  # another run numbers groups differently
    assert learned_and_rewards(WON, LOST, LOST_TOO) == learned_and_rewards(*other)


def test_a_reward_model_can_learn_first():
    run = ScriptedRun(WON, LOST)
    Istar(IstarConfig(prm=RewardModelConfig(learns_first=True))).unit(run, 0)
    assert run.asked == ["score policy", "learn prm", "score prm", "learn policy"]


def test_without_both_outcomes_the_reward_model_stays_as_it_is():
    run = ScriptedRun(WON, replace(WON, key="v"))
    assert Istar(IstarConfig()).unit(run, 0)["prm/pairs"] == 0
    assert run.asked == ["score policy", "score prm", "learn policy"]


def test_without_weight_of_steps_it_is_rloo_to_the_bit():
    run, algorithm = ScriptedRun(WON, LOST), Istar(IstarConfig(step_weight=0))
    assert set(algorithm.unit(run, 0)) == set(RLOO(GroupConfig()).unit(ScriptedRun(WON, LOST), 0))
    assert run.asked == ["learn policy"] and not Istar.needs(algorithm.config).models
    random = Random(0)
    for _ in range(60):
        group = rewarded(*(random.random() for _ in range(random.randint(2, 9))))
        assert algorithm.credit(group) == RLOO(GroupConfig()).credit(group)


def test_rewards_of_a_turn_are_bounded_and_counted():
    algorithm = Istar(IstarConfig(scale_by_batch=True))
    metrics = algorithm.unit(ScriptedRun(WON, LOST, LOST_TOO, prm=1.0), 0)
    assert [algorithm.rewards[id(rollout.episode)] for rollout in (WON, LOST, LOST_TOO)] == [
        [1.0, 1.0], [pytest.approx(0.6)], [pytest.approx(0.6), 1.0],
    ]  # fmt: skip
    assert metrics["prm/clipped_turns_frac"] == pytest.approx(3 / 5), "9, 12 and 9 nats"


def test_a_reward_model_that_is_still_the_policy_rewards_no_step():
    algorithm = Istar(IstarConfig(scale_by_batch=True))
    algorithm.unit(ScriptedRun(WON, LOST, prm=-2.0), 0)
    assert [algorithm.rewards[id(rollout.episode)] for rollout in (WON, LOST)] == [[0.0, 0.0], [0.0]]


def test_a_step_tells_nothing_of_the_one_before():
    algorithm = Istar(IstarConfig())
    assert algorithm.unit(ScriptedRun(WON, LOST, LOST_TOO), 0)["prm/pairs"] == 2
    assert algorithm.unit(ScriptedRun(WON, LOST), 1)["prm/pairs"] == 1
    assert algorithm.rewards.keys() == algorithm.ratios.keys() == {id(WON.episode), id(LOST.episode)}


def test_a_turn_has_the_advantage_of_its_episode_and_of_its_step():
    run, algorithm = ScriptedRun(WON, LOST), Istar(IstarConfig(step_weight=2.0, beta=1.0))
    algorithm.unit(run, 0)
    (first, second), (third,) = algorithm.credit([WON.episode, LOST.episode])
    assert [first, second, third] == pytest.approx([1 + 2 * (3 - 5 / 2), 1 + 2 * (4 - 4 / 2), -1 + 2 * (1 - 7 / 2)])


@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_step_advantages_by_brute_force(seed):
    """``first`` is the release's ``step_rloo_reward``, whose baseline looks at one row of each trajectory."""
    for number in range(seed, seed + 10):
        random = Random(number)
        rewards = [[random.gauss(0, 1) for _ in range(random.randint(1, 6))] for _ in range(random.randint(2, 8))]
        steps_of_all = [(i, t, value) for i, steps in enumerate(rewards) for t, value in enumerate(steps)]
        others = {(i, t): fmean(v for j, s, v in steps_of_all if (j, s) != (i, t)) for i, t, _ in steps_of_all}
        n, first = len(rewards), fmean(steps[0] for steps in rewards)
        advantages = step_advantages(rewards, Baseline.ALL)
        assert all(advantages[i][t] == pytest.approx(value - others[i, t], abs=1e-6) for i, t, value in steps_of_all)
        advantages = step_advantages(rewards, Baseline.FIRST)
        expected = {(i, t): value * n / (n - 1) - first * n / (n - 1) for i, t, value in steps_of_all}
        assert all(advantages[i][t] == pytest.approx(expected[i, t], abs=1e-6) for i, t, _ in steps_of_all)


def test_a_single_step_has_no_advantage():
    assert step_advantages([[1.0], []], Baseline.ALL) == step_advantages([[1.0], []], Baseline.FIRST) == [[0.0], []]


def test_pairs_of_a_success_and_a_failure():
    group = [WON, LOST, LOST_TOO, rollout("x", True, (0, 1))]
    compared = pairs(group, 9, "s")
    assert sorted((won.key, lost.key) for won, lost in compared) == [("w", "l"), ("w", "m"), ("x", "l"), ("x", "m")]
    assert pairs(group, 2, "s") == pairs(group, 2, "s") and len(pairs(group, 2, "s")) == 2
    assert len({pairs(group, 1, str(seed))[0][1].key for seed in range(20)}) == 2, "the seed draws"
    assert pairs([WON], 2, "s") == pairs([LOST], 2, "s") == []


def test_log_ratios_of_turns():
    streams = {"a": PerToken([0, 0, -1, -2, -9, -4]), "b": PerToken([0, 0, -2, -2, -1, -1])}
    assert turn_ratios(Row("k", streams, WON.episode), "a", "b") == [1.0, -3.0]


def loss_of(log_prob, reference, mask, beta):
    import torch

    unread = torch.full_like(log_prob, -7.0)
    tokens = Tokens(log_prob=log_prob, old_log_prob=unread, mask=mask, streams={REFERENCE_STREAM: reference})
    return ImplicitReward(PreferenceConfig(beta=beta))(tokens)


def test_the_gradient_is_that_of_dpo_with_the_sampling_policy_as_reference():
    """d/d log p of -log sigma(beta (ratio+ - ratio-)) is -beta sigma(-margin) on the preferred row, + on the other."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    log_prob, reference = (-torch.rand(2, 4, dtype=torch.float64) for _ in range(2))
    mask = torch.tensor([[1, 1, 0, 1], [1, 0, 0, 1]]).bool()
    log_prob.requires_grad_()
    loss = loss_of(log_prob, reference, mask, 0.3)
    assert loss.shape == (2, 1) and loss[0] == loss[1]
    loss[0].sum().backward()
    ratio = ((log_prob - reference) * mask).sum(-1).tolist()
    margin = 0.3 * (ratio[0] - ratio[1])
    assert loss[0].item() == pytest.approx(log(1 + exp(-margin)))
    slope = 0.3 / (1 + exp(margin))
    signs = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    assert torch.allclose(log_prob.grad, slope * signs * mask)


def test_rewards_of_a_bandit_become_the_log_odds_of_preference():
    torch = pytest.importorskip("torch")
    logits, beta = torch.zeros(2, dtype=torch.float64, requires_grad=True), 0.5
    optimizer = torch.optim.LBFGS([logits], max_iter=50)
    arms = torch.tensor([[0], [1]] * 4 + [[1], [0]])  # the first arm wins four times of five
    reference, mask = torch.full((10, 1), log(0.5), dtype=torch.float64), torch.ones(10, 1).bool()

    def closure():
        optimizer.zero_grad()
        loss = loss_of(logits.log_softmax(0)[arms], reference, mask, beta).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    rewards = beta * (logits.log_softmax(0) - log(0.5))
    assert (rewards[0] - rewards[1]).item() == pytest.approx(log(4), abs=1e-3)


@pytest.mark.parametrize(
    ("config", "keys", "says"),
    [
        (IstarConfig, {"step_weight": -1}, "step_weight must be at least 0"),
        (IstarConfig, {"beta": 0}, "beta must be greater than 0"),
        (RewardModelConfig, {"lr": 0}, "lr must be greater than 0"),
        (RewardModelConfig, {"pairs_per_task": 0}, "pairs_per_task must be at least 1"),
    ],
)
def test_values_that_cannot_work(config, keys, says):
    with pytest.raises(ValueError, match=says):
        config(**keys)


def test_keys_without_an_effect():
    keys = {"beta", "baseline", "scale_by_batch", "prm.lr", "prm.start", "prm.learns_first"}
    assert keys <= IstarConfig(step_weight=0).unused(off_policy=False, environments=1).keys()
    assert not keys & IstarConfig().unused(off_policy=False, environments=1).keys()


def test_what_it_needs():
    needs = Istar.needs(IstarConfig(prm=RewardModelConfig(start="loaded")))
    assert needs.models[PRM].trained and needs.models[PRM].start == "loaded" and needs.full_context == "algorithm=istar"
    assert needs.samples_per_task == needs.rows_together == 2
