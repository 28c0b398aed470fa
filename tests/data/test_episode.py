"""Episodes survive JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.data.episode import Ending, Episode, Turn

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TURNS = st.builds(
    Turn,
    response=st.text(),
    action=st.none() | st.text(),
    observation=st.text(),
    reward=FLOATS,
    invalid=st.booleans(),
    tokens=st.tuples(st.integers(0, 99), st.integers(0, 99)),
    log_prob=st.none() | FLOATS,
    model_s=FLOATS,
    env_s=FLOATS,
)
EPISODES = st.builds(
    Episode,
    env=st.just("counter"),
    item_id=st.just("counter_1"),
    ending=st.sampled_from(Ending),
    reward=FLOATS,
    success=st.booleans(),
    max_turns=st.integers(1, 99),
    seed=st.integers(),
    model_step=st.integers(0),
    messages=st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": st.text()})),
    turns=st.lists(TURNS, max_size=3),
    prompt_tokens=st.integers(0),
    response_tokens=st.integers(0),
    attempts=st.integers(1, 5),
    error=st.none() | st.text(),
    tags=st.dictionaries(st.text(), st.text() | st.integers()),
)


@given(EPISODES)
def test_round_trip_through_json(episode):
    data = episode.to_dict()
    again = Episode.from_dict(json.loads(json.dumps(data)))
    assert again == episode
    assert type(again.ending) is Ending
    assert Episode.from_dict(data) == episode
    assert data["ending"] == episode.ending.value


@pytest.mark.parametrize("ending", Ending)
def test_only_what_agent_and_model_did_counts(ending):
    infrastructure = {"env_error", "timeout", "aborted", "prompt_limit", "rollout_error"}
    assert ending.counts == (ending.value not in infrastructure)


def test_an_unknown_ending_is_refused():
    data = Episode(
        env="counter", item_id="counter_1", ending=Ending.TIMEOUT, reward=0.0, success=False, max_turns=1
    ).to_dict()
    with pytest.raises(ValueError, match="exploded"):
        Episode.from_dict({**data, "ending": "exploded"})
