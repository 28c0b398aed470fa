"""Credit for steps: the same numbers by brute force on random episodes, by hand, and in the limits."""

from math import inf
from random import Random
from statistics import fmean, pstdev, stdev

import pytest
from episodes import visiting
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.gigpo import GiGPO, GiGPOConfig
from agentgym_rl.algorithms.graphgpo import GraphGPO, GraphGPOConfig, distances
from agentgym_rl.algorithms.grpo import GRPO, GRPOConfig
from agentgym_rl.algorithms.hgpo import HGPO, HGPOConfig
from agentgym_rl.algorithms.pace import PACE, PACEConfig
from agentgym_rl.algorithms.shaping import ShapingConfig
from agentgym_rl.algorithms.step_credit import anchors, returns

KINDS = {GiGPO: GiGPOConfig, HGPO: HGPOConfig, GraphGPO: GraphGPOConfig, PACE: PACEConfig}


def walks(seed):
    """Episodes of a task among six places, half of them successes."""
    random = Random(seed)
    group = []
    for _ in range(random.randint(2, 8)):
        length, success = random.randint(1, 9), random.random() < 0.5
        places = ["start", *random.choices("abcde", k=length - 1)]
        rewards = [round(random.random() / 20, 3) for _ in places[1:]] + [0.5 * success]
        group.append(visiting(places, rewards, random.choices(["go", "look", None], k=length), success))
    return group


def flat(group):
    """Episode, turn, observations so far, action and return of every turn."""
    return [
        (episode, turn, tuple(seen[: turn + 1]), episode.turns[turn].action, values[turn])
        for episode in group
        for seen, values in [(anchors(episode), returns([turn.reward for turn in episode.turns], 0.9))]
        for turn in range(len(seen))
    ]


def agrees(advantages, expected):
    return [value for values in advantages for value in values] == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("by_std", [True, False])
@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_hierarchical_groups_by_brute_force(seed, by_std):
    for group in map(walks, range(seed, seed + 10)):
        turns, expected = flat(group), []
        for *_, path, _, value in turns:
            levels = {}
            for length in range(1, min(3, len(path)) + 1):
                peers = [value for *_, other, _, value in turns if other[-length:] == path[-length:]]
                spread = pstdev(peers) + 1e-6 if by_std else 1.0
                if len(peers) > 1 and abs(value - fmean(peers)) > 1e-9:
                    levels[length] = (value - fmean(peers)) / spread
            weight = sum((length + 1) ** 1.5 for length in levels)
            expected.append(sum((length + 1) ** 1.5 * a for length, a in levels.items()) / (weight or 1))
        config = HGPOConfig(gamma=0.9, length_power=1.5, normalise_by_std=by_std)
        assert agrees(HGPO(config).of_steps(group), expected)


@pytest.mark.parametrize("progress", [True, False])
@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_distances_over_a_graph_by_brute_force(seed, progress):
    for group in map(walks, range(seed, seed + 10)):
        edges = [
            (here, "the goal" if episode.success and turn == len(episode.turns) - 1 else observation)
            for episode, turn, (*_, here), _, _ in flat(group)
            for observation in [episode.turns[turn].observation]
        ]
        left = {state: 0 if state == "the goal" else inf for edge in edges for state in edge}
        for _ in left:
            for here, there in edges:
                left[here] = min(left[here], left[there] + 1)
        furthest = max((d for d in left.values() if d < inf), default=0) + 1
        left = {state: min(d, furthest) for state, d in left.items()}
        worth = [10 * 0.3 ** (left[there] - (left[here] - 1 if progress else 0)) for here, there in edges]
        expected = []
        for (here, _), value in zip(edges, worth, strict=True):
            peers = [value for (other, _), value in zip(edges, worth, strict=True) if other == here]
            expected.append((value - fmean(peers)) / (stdev(peers) + 1e-6 if len(peers) > 1 else 1))
        assert agrees(GraphGPO(GraphGPOConfig(gamma=0.3, progress=progress)).of_steps(group), expected)


@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_actions_against_their_state_by_brute_force(seed):
    for group in map(walks, range(seed, seed + 10)):
        turns = flat(group)
        expected = [
            fmean(value for *_, other, move, value in turns if (other[-1], move) == (path[-1], action))
            - fmean(value for *_, other, _, value in turns if other[-1] == path[-1])
            for *_, path, action, _ in turns
        ]
        assert agrees(PACE(PACEConfig(gamma=0.9)).of_steps(group), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_without_weight_of_steps_it_is_grpo_to_the_bit(kind):
    for seed in range(20):
        group = walks(seed)
        for by_std in (True, False):
            config = KINDS[kind](step_weight=0, episode_weight=1, normalise_by_std=by_std)
            alone = GRPO(GRPOConfig(normalise_by_std=by_std)).credit(group)
            expected = [[value] * len(episode.turns) for value, episode in zip(alone, group, strict=True)]
            assert kind(config).credit(group) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_both_weights_count(kind):
    group = walks(3)
    steps = kind(KINDS[kind]()).of_steps(group)
    alone = GRPO(GRPOConfig()).credit(group)
    credit = kind(KINDS[kind](episode_weight=0.5, step_weight=2)).credit(group)
    for episode, advantages, values in zip(alone, steps, credit, strict=True):
        assert values == pytest.approx([0.5 * episode + 2 * step for step in advantages])


def test_without_history_the_groups_are_those_of_gigpo():
    for group in map(walks, range(20)):
        config = HGPOConfig(history=0, normalise_by_std=False)
        assert agrees(
            HGPO(config).of_steps(group),
            [a for advantages in GiGPO(GiGPOConfig(normalise_by_std=False)).of_steps(group) for a in advantages],
        )


def test_without_a_success_a_graph_has_no_goal():
    group = [visiting("ab", [0, 0]), visiting("acb", [0, 0, 0])]
    assert GraphGPO(GraphGPOConfig()).of_steps(group) == [[0, 0], [0, 0, 0]]


def test_a_failure_has_credit_for_a_way_that_another_finished():
    won, lost = visiting("abc", [0, 0, 1], success=True), visiting("axb", [0, 0, 0])
    astray = visiting("ay", [0, 0])
    assert distances([won, lost, astray]) == {None: 0, "c": 1, "b": 2, "a": 3, "x": 3, "y": 4, "later": 4}
    first = [
        advantages[0] for advantages in GraphGPO(GraphGPOConfig(normalise_by_std=False)).of_steps([won, lost, astray])
    ]
    assert first[0] > first[1] > first[2]


def test_the_luck_after_an_action_is_not_its_own():
    group = [visiting("s", [1.0], ["a"]), visiting("s", [0.0], ["a"]), visiting("s", [0.0], ["b"])]
    assert agrees(PACE(PACEConfig()).of_steps(group), [1 / 6, 1 / 6, -1 / 3])


@given(st.integers(0, 10**6))
def test_what_every_kind_of_credit_keeps(seed):
    """One number a turn; over the turns of a state they sum to nothing, as do those of GiGPO (levels of HGPO apart)."""
    group = walks(seed)
    for kind in (GraphGPO, PACE):
        sums: dict = {}
        for episode, advantages in zip(group, kind(KINDS[kind]()).of_steps(group), strict=True):
            assert len(advantages) == len(episode.turns)
            for anchor, value in zip(anchors(episode), advantages, strict=True):
                sums[anchor] = sums.get(anchor, 0) + value
        assert all(total == pytest.approx(0, abs=1e-3) for total in sums.values())


@pytest.mark.parametrize(
    ("config", "keys", "says"),
    [
        (HGPOConfig, {"history": -1}, "history must be at least 0, got -1"),
        (HGPOConfig, {"length_power": -1}, "length_power must be at least 0"),
        (GraphGPOConfig, {"gamma": 2}, r"gamma must be in \[0, 1\], got 2"),
        (PACEConfig, {"step_weight": -1}, "step_weight must be at least 0"),
        (GiGPOConfig, {"episode_weight": -1}, "episode_weight must be at least 0"),
        (HGPOConfig, {"step_weight": 0}, "episode_weight=0 and step_weight=0 leave every advantage at 0"),
    ],
)
def test_values_that_cannot_work(config, keys, says):
    with pytest.raises(ValueError, match=says):
        config(**keys)


@pytest.mark.parametrize(
    ("config", "unused"),
    [
        (GiGPOConfig(step_weight=0), {"gamma"}),
        (HGPOConfig(step_weight=0, episode_weight=1), {"gamma", "history", "length_power"}),
        (HGPOConfig(history=0), {"length_power"}),
        (GraphGPOConfig(step_weight=0, normalise_by_std=False), {"gamma", "progress"}),
        (GraphGPOConfig(), {"progress"}),
        (GraphGPOConfig(episode_weight=0), {"shaping.invalid_action_penalty", "shaping.normalise"}),
        (PACEConfig(episode_weight=0), {"normalise_by_std"}),
        (PACEConfig(step_weight=0), {"gamma", "shaping.scale"}),
    ],
)
def test_keys_without_an_effect(config, unused):
    assert unused <= config.unused(off_policy=False, environments=1).keys()


def test_the_scale_of_rewards_is_that_of_differences_of_actions():
    scaled = PACEConfig(shaping=ShapingConfig(scale=2.0))
    assert "shaping.scale" not in scaled.unused(off_policy=False, environments=1)
