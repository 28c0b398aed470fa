"""Shaped rewards by hand, and what credit makes of them."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.config import GroupConfig, PolicyGradientConfig
from agentgym_rl.algorithms.gigpo import GiGPO, GiGPOConfig
from agentgym_rl.algorithms.grpo import GRPO, GRPOConfig
from agentgym_rl.algorithms.ppo import PPO, Level, PPOConfig
from agentgym_rl.algorithms.reinforce_pp import ReinforcePP, ReinforcePPConfig
from agentgym_rl.algorithms.rloo import RLOO
from agentgym_rl.algorithms.shaping import Shaping, ShapingConfig
from agentgym_rl.data.episode import Ending, Episode, Turn

LIMIT = 100
"""Most tokens of a response."""


def episode(*rewards, invalid=(), env="e", tokens=10, ending=Ending.TERMINATED, max_turns=10):
    """Turns of so many tokens each, with these rewards; the numbers of those that are invalid."""
    turns = [
        Turn(response="r", action="r", observation="o", reward=reward, invalid=number in invalid,
             tokens=(number * tokens, (number + 1) * tokens))
        for number, reward in enumerate(rewards)
    ]  # fmt: skip
    messages = [{"role": role, "content": "o"} for _ in rewards for role in ("user", "assistant")]
    return Episode(
        env=env, item_id=f"{env}_1", ending=ending, reward=sum(rewards), success=sum(rewards) == 1,
        max_turns=max_turns, turns=turns, messages=messages,
    )  # fmt: skip


def shaped(played, **keys):
    episode = Shaping(ShapingConfig(**keys)).shaped(played, LIMIT)
    return episode.reward, [turn.reward for turn in episode.turns]


def test_an_invalid_turn_costs_its_episode_a_share():
    played = episode(0.0, 0.0, 0.0, 1.0, invalid=(1,))
    assert shaped(played, invalid_action_penalty=0.1) == (pytest.approx(1 - 0.1 / 4), [0.0, -0.1, 0.0, 1.0])
    assert shaped(played) == (1.0, [0.0, 0.0, 0.0, 1.0])
    assert (played.reward, played.turns[1].reward) == (1.0, 0.0), "the episode itself stays as it is"
    assert shaped(episode(), invalid_action_penalty=0.1) == (0.0, [])


def test_replayed_turns_are_not_the_policys():
    played = episode(0.0, 0.0, 0.0, 1.0, invalid=(0, 2))
    turns = [replace(turn, calls=0) for turn in played.turns[:2]] + played.turns[2:]
    assert shaped(replace(played, turns=turns), invalid_action_penalty=0.1) == (
        pytest.approx(1 - 0.1 / 2),
        [0.0, 0.0, -0.1, 1.0],
    )
    replayed = replace(played, turns=[replace(turn, calls=0) for turn in played.turns])
    assert shaped(replayed, invalid_action_penalty=0.1) == (1.0, [0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("turns", "penalty"),
    [(2, 0.0), (6, 0.0), (7, 0.25), (8, 0.5), (10, 1.0), (12, 1.0)],
)
def test_dapos_soft_punishment(turns, penalty):
    """Equation 13 with a limit of 100 tokens or 10 turns, and a buffer of 40 or 4."""
    played = episode(*[0.0] * turns)
    for buffer in ({"overlong_tokens": 40}, {"overlong_turns": 4}, {"overlong_tokens": 40, "overlong_turns": 1}):
        reward, of_turns = shaped(played, overlong_penalty=2.0, **buffer)
        assert (reward, of_turns) == (-2 * penalty, [*[0.0] * (turns - 1), -2 * penalty])


def test_an_episode_that_its_limit_ended_has_the_whole_penalty():
    for ending, key, other in (
        (Ending.CONTEXT_LIMIT, "overlong_tokens", "overlong_turns"),
        (Ending.TURN_LIMIT, "overlong_turns", "overlong_tokens"),
    ):
        played = episode(0.0, 0.0, ending=ending)
        assert shaped(played, **{key: 1})[0] == -1.0
        assert shaped(played, **{other: 1})[0] == 0.0


def test_an_episode_is_as_long_as_its_longest_segment():
    played = episode(*[0.0] * 8)
    folded = replace(played, turns=[replace(turn, segment=at // 4, tokens=played.turns[at % 4].tokens)
                                 for at, turn in enumerate(played.turns)])  # fmt: skip
    assert shaped(played, overlong_tokens=40)[0] == -0.5
    assert shaped(folded, overlong_tokens=40)[0] == 0.0
    ends_short = replace(played, turns=[*played.turns[:7], replace(played.turns[0], segment=1)])
    assert shaped(ends_short, overlong_tokens=40)[0] == -0.25


def test_scale_and_penalties():
    played = episode(0.0, 0.5, invalid=(0,))
    assert shaped(played, scale=3.0, invalid_action_penalty=0.2) == (1.5 - 0.1, [-0.2, 1.5])


EIGHTHS = st.integers(0, 8).map(lambda eighths: eighths / 8)
REWARDS = st.lists(st.tuples(st.sampled_from("ab"), EIGHTHS), min_size=1, max_size=20)


@given(REWARDS, st.integers(0, 20))
def test_rewards_relative_to_those_of_their_environment_so_far(rewards, cut):
    """Whatever the batches, and across a stop; all at once has the same moments."""
    config = ShapingConfig(normalise=True)
    episodes = [episode(0.0, reward, env=env) for env, reward in rewards]
    uninterrupted, before, after = Shaping(config), Shaping(config), Shaping(config)
    uninterrupted.observe(episodes)
    before.observe(episodes[:cut])
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert after.moments == before.moments
    after.observe(episodes[cut:])
    for env in {env for env, _ in rewards}:
        of_env = [played for played in episodes if played.env == env]
        values = [after.shaped(played, LIMIT).reward for played in of_env]
        assert values == pytest.approx([uninterrupted.shaped(played, LIMIT).reward for played in of_env], abs=1e-3)
        assert sum(values) == pytest.approx(0, abs=1e-3)
        if len({played.reward for played in of_env}) > 1:
            assert sum(value**2 for value in values) / len(of_env) == pytest.approx(1, abs=0.05)
            differences = [
                after.shaped(played, LIMIT).turns[1].reward - after.shaped(played, LIMIT).reward for played in of_env
            ]
            assert differences == pytest.approx([differences[0]] * len(of_env)), "the mean is not taken from any turn"


class OneStep:
    """A run of one batch that keeps what is learned of it."""

    response_tokens = LIMIT

    def __init__(self, *episodes):
        self.rollouts = [Rollout(episode=played, group="g", kept=[str(at)], values=[0.0] * len(played.turns))
                         for at, played in enumerate(episodes)]  # fmt: skip

    def batches(self, number, **_):
        yield self.rollouts

    def learn(self, rows, loss, **_):
        self.rows = rows

    def asked(self, name):
        """A stream of each row; None where they have none of it."""
        return [row.streams[name] for row in self.rows] if name in self.rows[0].streams else None


def learnt(algorithm, *episodes):
    run = OneStep(*episodes)
    return run, algorithm.unit(run, 0)


TWO = (episode(0.0, 0.0, invalid=(0,)), episode(0.0, 0.0))
"""Two failures, the first with an invalid turn."""


def test_credit_has_the_shaped_rewards():
    keys = {"shaping": ShapingConfig(invalid_action_penalty=0.1)}
    assert learnt(GRPO(GRPOConfig()), *TWO)[0].asked("advantage") == [0.0, 0.0]
    run, metrics = learnt(RLOO(GroupConfig(**keys)), *TWO)
    assert run.asked("advantage") == pytest.approx([-0.05, 0.05])
    assert (metrics["shaping/reward"], metrics["diagnostics/gradient_share"]) == (pytest.approx(-0.025), 1.0)
    assert [rollout.episode.reward for rollout in run.rollouts] == [0.0, 0.0], "the run's own episodes stay as they are"
    turns = learnt(PPO(PPOConfig(level=Level.TURN, lam=0.0, **keys)), *TWO)[0].asked("advantage")
    unit = 1 / math.sqrt((0.75**2 + 3 * 0.25**2) * 10 / 39)  # whitened over four turns of ten tokens
    worse, others = pytest.approx(-0.75 * unit, rel=1e-4), pytest.approx(0.25 * unit, rel=1e-4)
    assert turns == [[worse, others], [others, others]]
    steps = learnt(GiGPO(GiGPOConfig(normalise_by_std=False, gamma=0.0, **keys)), *TWO)[0].asked("advantage")
    assert steps == [pytest.approx([-0.025 - 0.075, -0.025 + 0.025]), pytest.approx([0.025 + 0.025] * 2)]


def test_verls_estimators_are_given_the_shaped_rewards():
    run, _ = learnt(ReinforcePP(ReinforcePPConfig(shaping=ShapingConfig(invalid_action_penalty=0.1))), *TWO)
    assert run.asked("reward") == pytest.approx([-0.05, 0.0]) and run.asked("advantage") is None
    run, metrics = learnt(ReinforcePP(ReinforcePPConfig()), *TWO)
    assert run.asked("reward") is None and "shaping/reward" not in metrics


def test_the_running_moments_are_part_of_the_state():
    config = GRPOConfig(normalise_by_std=False, shaping=ShapingConfig(normalise=True))
    first, second = GRPO(config), GRPO(config)
    _, metrics = learnt(first, episode(0.0), episode(1.0))
    assert (metrics["shaping/e/reward_mean"], metrics["shaping/e/reward_std"]) == (0.5, 0.5)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    batch = episode(1.0), episode(1.0), episode(0.0)
    assert learnt(second, *batch)[0].rows == learnt(first, *batch)[0].rows
    assert learnt(GRPO(config), *batch)[0].rows != learnt(first, *batch)[0].rows
    assert GRPO(GRPOConfig()).state_dict() == {}


@pytest.mark.parametrize("key", ["invalid_action_penalty", "overlong_tokens", "overlong_turns", "overlong_penalty"])
def test_bad_values(key):
    with pytest.raises(ValueError, match=f"{key} must be"):
        ShapingConfig(**{key: -1})


def test_keys_without_effect():
    def unused(config):
        without_effect = config.unused(off_policy=True, environments=2)
        return {key.removeprefix("shaping.") for key in without_effect if key.startswith("shaping.")}

    late, long = ShapingConfig(overlong_turns=1), ShapingConfig(overlong_tokens=1)

    assert unused(PolicyGradientConfig()) == {"overlong_penalty"}
    assert unused(PolicyGradientConfig(shaping=late)) == set()
    assert unused(GRPOConfig()) == {"overlong_penalty", "scale", "normalise"}
    assert unused(GRPOConfig(normalise_by_std=False)) == {"overlong_penalty"} == unused(PPOConfig())
    assert unused(ReinforcePPConfig()) == {"overlong_penalty", "scale"}
    assert unused(ReinforcePPConfig(shaping=long)) == set() == unused(GRPOConfig(shaping=long))
