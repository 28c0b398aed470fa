"""Which episodes become pairs."""

from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.dpo import pairs
from agentgym_rl.data.episode import Ending, Episode, Turn


def episode(item_id, turns, success, ending=Ending.TERMINATED):
    turn = Turn(response="r", action="r", observation="", reward=0.0, invalid=False)
    return Episode(
        env="e",
        item_id=item_id,
        ending=ending,
        reward=float(success),
        success=success,
        max_turns=9,
        turns=[turn] * turns,
    )


PLAYED = [
    episode("a", 3, True),
    episode("a", 2, True),
    episode("a", 2, True),
    episode("a", 1, False),
    episode("a", 9, False, Ending.TURN_LIMIT),
    episode("b", 1, True),  # nobody failed
    episode("c", 1, False),  # nobody succeeded
    episode("d", 1, True),
    episode("d", 1, False, Ending.TIMEOUT),  # says nothing about the agent
]


def test_the_shortest_success_and_failures_of_the_same_task():
    assert sorted(pairs(PLAYED, 5, "s")) == [(1, 3), (1, 4)]
    assert pairs(PLAYED, 1, "s") in ([(1, 3)], [(1, 4)])
    assert pairs([], 3, "s") == pairs(PLAYED, 0, "s") == []


def test_the_seed_decides_which_failures():
    assert pairs(PLAYED, 1, "s") == pairs(PLAYED, 1, "s")
    assert {pairs(PLAYED, 1, str(seed))[0] for seed in range(20)} == {(1, 3), (1, 4)}


@given(
    st.lists(
        st.builds(episode, st.sampled_from("ab"), st.integers(1, 4), st.booleans(), st.sampled_from(Ending)),
        max_size=10,
    ),
    st.integers(0, 3),
)
def test_every_pair_is_one(played, most):
    indices = pairs(played, most, "s")
    assert len(indices) == len(set(indices))
    for won, lost in indices:
        better, worse = played[won], played[lost]
        assert better.success and not worse.success and better.item_id == worse.item_id
        assert better.ending.counts and worse.ending.counts
    for task in "ab":
        counting = [episode for episode in played if episode.item_id == task and episode.ending.counts]
        failures = sum(not episode.success for episode in counting)
        expected = min(most, failures) if any(episode.success for episode in counting) else 0
        assert sum(played[won].item_id == task for won, _ in indices) == expected
