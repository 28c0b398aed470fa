"""What AgentEvol learns from, and its rounds on a scripted run."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.agentevol import AgentEvol, AgentEvolConfig, Gate
from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.rollout.supervised import Example


def episode(item_id, responses, success=True, ending=Ending.TERMINATED, reward=None, env="counter"):
    turns = [
        Turn(response=response, action=response, observation="", reward=0.0, invalid=False, model_s=1.0, env_s=0.5)
        for response in responses
    ]
    return Episode(
        env=env, item_id=item_id, ending=ending, reward=float(success) if reward is None else reward, success=success,
        max_turns=9, turns=turns, response_tokens=3 * len(turns),
    )  # fmt: skip


def rollouts(episodes):
    """One for each episode; the first token tells them apart."""
    return [
        Rollout(episode=episode, segments=(Example([index, 1, 2], [0.0, 1.0, 1.0]),))
        for index, episode in enumerate(episodes)
    ]


def rollout(episode, token):
    return Rollout(episode=episode, segments=(Example([token], [0.0]),))


def evolving(accumulate=True, max_per_task=1, thresholds=None):
    config = AgentEvolConfig(accumulate=accumulate, success_threshold=thresholds or {})
    config.max_per_task = max_per_task  # 0 too, which no recipe can have
    return AgentEvol(config)


def first_tokens(filled):
    return [success.segments[0].input_ids[0] for success in filled.successes]


def test_successes_shortest_first_no_two_alike():
    played = [
        episode("a", ["x", "y", "z"]),
        episode("a", ["x"], success=False),
        episode("a", ["x", "y"]),
        episode("a", ["x", "y"]),  # the same again
        episode("b", ["x", "y"]),  # the same responses, another task
        episode("b", ["q"], ending=Ending.TIMEOUT),
    ]
    for most, expected in ((1, [2, 4]), (5, [0, 2, 4]), (0, [])):
        filled = evolving(max_per_task=most)
        filled.keep(1, rollouts(played))
        assert first_tokens(filled) == expected
    assert evolving().keep(1, []) == ([], {"agentevol/kept": 0, "agentevol/pool": 0})


EPISODES = st.lists(
    st.builds(
        episode,
        st.sampled_from("ab"),
        st.lists(st.sampled_from("xy"), min_size=1, max_size=3),
        st.booleans(),
        st.sampled_from(Ending),
    ),
    max_size=12,
)


@given(EPISODES, st.integers(1, 3))
def test_what_is_kept(played, most):
    filled = evolving(max_per_task=most)
    filled.keep(1, rollouts(played))
    indices = first_tokens(filled)
    assert indices == sorted(set(indices))
    assert all(played[index].success and played[index].ending.counts for index in indices)
    for item_id in "ab":
        good = [
            episode for episode in played if episode.item_id == item_id and episode.success and episode.ending.counts
        ]
        different = {tuple(turn.response for turn in episode.turns) for episode in good}
        chosen = [success.responses for success in filled.successes if success.item_id == item_id]
        assert len(chosen) == len(set(chosen)) == min(most, len(different))
        assert sorted(map(len, chosen)) == sorted(map(len, different))[:most]


def test_a_threshold_of_ones_own_replaces_the_worlds_rule():
    played = [
        episode("a", ["x"], success=False, reward=0.4),
        episode("b", ["x"], success=True, reward=0.6),
        episode("c", ["x"], success=False, reward=0.4, env="other"),
    ]
    filled = evolving(thresholds={"counter": 0.3})
    filled.keep(1, rollouts(played))
    assert first_tokens(filled) == [0, 1]
    filled = evolving(thresholds={"counter": 0.6})
    filled.keep(1, rollouts(played))
    assert first_tokens(filled) == []


def test_without_the_filter_every_episode_that_counts_is_learned_alike():
    played = [
        episode("a", ["x"], success=True, reward=0.6),
        episode("b", ["x"], success=False, reward=0.0),
        episode("c", ["x"], success=False, ending=Ending.ENV_ERROR),
    ]
    for filtered, weights in ((True, [0.6]), (False, [1.0, 1.0])):
        filled = AgentEvol(AgentEvolConfig(filter=filtered))
        _, metrics = filled.keep(1, rollouts(played))
        assert [success.reward for success in filled.successes] == weights
        assert metrics["agentevol/counter/kept"] == len(weights) and metrics["agentevol/counter/new_tasks"] == 1


def test_turns_whose_action_was_refused_are_context():
    """The turn that mends it is learned, and its observation where observations are."""
    won = episode("a", ["bad", "good"])
    won.turns[0].invalid, won.turns[0].tokens, won.turns[1].tokens = True, (0, 2), (3, 5)
    segment = Example([9, 9, 1, 2, 3, 4, 5], [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], 2)
    rollout = Rollout(episode=won, segments=(segment,))
    for observations in (0.0, 0.5):
        mended = [0.0, observations, 0.0, 0.0, observations, 1.0, 1.0]
        (row,) = rollout.imitation(observations=observations, learn_invalid=False)
        assert list(row.streams["cross_entropy"]) == mended
        evolving = AgentEvol(AgentEvolConfig(learn_invalid=False))
        evolving.keep(1, [rollout])
        again = AgentEvol(AgentEvolConfig(learn_invalid=False))
        again.load_state_dict(json.loads(json.dumps(evolving.state_dict())))
        assert evolving.rows(observations) == again.rows(observations) == [row]
    (row,) = rollout.imitation()
    assert row.streams["cross_entropy"] == 1.0
    won.turns[0].invalid = False
    assert rollout.imitation(learn_invalid=False) == [row], "nothing was refused"


@pytest.mark.parametrize("learned", [(0.0, 1.0), (1.0, 0.0)])
def test_responses_without_a_loss_are_context_though_observations_are_learned(learned):
    """Those that a file of demonstrations marks ``loss: false``."""
    shown = episode("a", ["aside", "good"])
    shown.turns[0].tokens, shown.turns[1].tokens = (0, 2), (3, 5)
    first, second = learned
    segment = Example([9, 9, 1, 2, 3, 4, 5], [0.0, 0.0, first, first, 0.0, second, second], 2)
    rollout = Rollout(episode=shown, segments=(segment,))
    (row,) = rollout.imitation(observations=0.5)
    assert list(row.streams["cross_entropy"]) == [0.0, 0.5, first, first, 0.5, second, second]
    evolving = AgentEvol(AgentEvolConfig())
    evolving.keep(1, [rollout])
    assert evolving.rows(0.5) == [row], "such as an empty response of a relabelled episode"


@pytest.mark.parametrize(("gate", "undone"), [({}, False), ({"gate": Gate.FLIPS}, True)])
def test_flips_undo_a_round_that_wins_more_than_it_loses(gate, undone):
    restored = []
    run = SimpleNamespace(
        validation_success=0.5, solved=frozenset({"a", "b"}), validate=lambda label: 0.75, restore=restored.append,
        say=lambda text: None,
    )  # fmt: skip
    evolving = AgentEvol(AgentEvolConfig(keep_best=True, **gate))
    evolving.begin(run)
    again = AgentEvol(AgentEvolConfig(keep_best=True, **gate))
    again.load_state_dict(json.loads(json.dumps(evolving.state_dict())))
    run.solved = frozenset({"a", "c", "d"})
    assert again.validate(run, 0)["agentevol/undone"] == undone == bool(restored)
    assert again.held == (evolving.held if undone else run.solved)


def test_rewards_that_are_not_binary_weigh_the_loss():
    played = [episode("a", ["x"], reward=0.25), episode("b", ["x"], reward=1.0)]
    filled = evolving()
    filled.keep(1, rollouts(played))
    assert [row.streams for row in filled.rows()] == [{"cross_entropy": 0.25}, {"cross_entropy": 1.0}]
    assert filled.rows(0.5)[0].streams == {"cross_entropy": (0.0, 0.25, 0.25)}
    assert [success.segments[0].loss_weight for success in filled.successes] == [[0.0, 1.0, 1.0]] * 2


def test_responses_that_earned_nothing_are_not_learned_as_observations():
    filled = evolving(thresholds={"counter": -1.0})
    filled.keep(1, rollouts([episode("a", ["x"], reward=0.0)]))
    assert filled.rows(0.5)[0].streams == {"cross_entropy": (0.0, 0.0, 0.0)}


@pytest.mark.parametrize(("accumulate", "rounds"), [(True, [1, 2]), (False, [2])])
def test_the_pool_accumulates_or_forgets_and_survives_a_file(accumulate, rounds):
    filled = evolving(accumulate)
    filled.keep(1, [rollout(episode("a", ["x"]), 7)])
    filled.keep(2, [rollout(episode("b", ["x"]), 8)])
    assert [success.round for success in filled.successes] == rounds
    assert filled.solved == {"a", "b"}
    again = evolving(accumulate)
    again.load_state_dict(json.loads(json.dumps(filled.state_dict())))
    assert again.successes == filled.successes
    assert again.solved == filled.solved


def test_a_trajectory_found_again_is_learnt_once():
    filled = evolving()
    for number in (1, 2):
        filled.keep(number, [rollout(episode("a", ["x"]), 7)])
    assert len(filled.successes) == 1
    forgetful = evolving(accumulate=False)
    for number in (1, 2):
        forgetful.keep(number, [rollout(episode("a", ["x"]), 7)])
    assert [success.round for success in forgetful.successes] == [2]


def test_what_a_round_logs():
    filled = evolving()
    filled.keep(1, [rollout(episode("a", ["x"]), 7)])
    played = [
        episode("a", ["x", "y"]),
        episode("a", ["x"], success=False),
        episode("b", ["x"]),
        episode("c", ["x"], env="other", success=False),
    ]
    rollouts_kept, metrics = filled.keep(2, rollouts(played))
    assert [rollout.episode for rollout in rollouts_kept] == [played[0], played[2]]
    assert metrics == {
        "agentevol/kept": 2,
        "agentevol/pool": 3,
        "agentevol/counter/explored": 3,
        "agentevol/counter/kept": 2,
        "agentevol/counter/new_tasks": 1,
        "agentevol/counter/tokens": 12,
        "agentevol/counter/seconds": 6.0,
        "agentevol/other/explored": 1,
        "agentevol/other/kept": 0,
        "agentevol/other/new_tasks": 0,
        "agentevol/other/tokens": 3,
        "agentevol/other/seconds": 1.5,
    }
    assert [success.item_id for success in filled.successes if success.round == 2] == ["a", "b"]
