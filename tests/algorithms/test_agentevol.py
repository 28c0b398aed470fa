"""What AgentEvol learns from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.agentevol import Pool, keep_successes
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.rollout.supervised import Example


def episode(item_id, replies, success=True, ending=Ending.TERMINATED):
    turns = [Turn(response=reply, action=reply, observation="", reward=0.0, invalid=False) for reply in replies]
    return Episode(
        env="counter", item_id=item_id, ending=ending, reward=float(success), success=success, horizon=9, turns=turns
    )


def test_successes_shortest_first_no_two_alike():
    played = [
        episode("a", ["x", "y", "z"]),
        episode("a", ["x"], success=False),
        episode("a", ["x", "y"]),
        episode("a", ["x", "y"]),  # the same again
        episode("b", ["x", "y"]),  # the same replies, another task
        episode("b", ["q"], ending=Ending.TIMEOUT),
    ]
    assert keep_successes(played, max_per_task=1) == [2, 4]
    assert keep_successes(played, max_per_task=5) == [0, 2, 4]
    assert keep_successes(played, max_per_task=0) == []
    assert keep_successes([], max_per_task=1) == []


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
    kept = keep_successes(played, most)
    assert kept == sorted(set(kept))
    assert all(played[index].success and played[index].ending.counts for index in kept)
    for item_id in "ab":
        good = [one for one in played if one.item_id == item_id and one.success and one.ending.counts]
        different = {tuple(turn.response for turn in one.turns) for one in good}
        chosen = [tuple(turn.response for turn in played[index].turns) for index in kept if played[index] in good]
        assert len(chosen) == len(set(chosen)) == min(most, len(different))
        assert sorted(map(len, chosen)) == sorted(map(len, different))[:most]


@pytest.mark.parametrize(("accumulate", "left"), [(True, [1, 2]), (False, [2])])
def test_the_pool_accumulates_or_forgets(accumulate, left):
    pool = Pool(accumulate)
    for token in (1, 2):
        pool.add([Example([0, token], [0.0, 1.0])])
    assert [example.input_ids[1] for example in pool.examples] == left
    again = Pool(accumulate)
    again.load_state_dict(pool.state_dict())
    assert again.examples == pool.examples
