"""The turn limit is what the paper's schedule says, at every step and after every resume."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.curriculum.fixed import Fixed, FixedConfig
from agentgym_rl.algorithms.curriculum.linear import Linear, LinearConfig
from agentgym_rl.algorithms.curriculum.stepwise import Stepwise, StepwiseConfig
from agentgym_rl.algorithms.curriculum.success_gated import SuccessGated, SuccessGatedConfig
from agentgym_rl.algorithms.curriculum.turn_limit import Curriculum
from agentgym_rl.data.episode import Ending, Episode, Turn

TURN = Turn(response="up", action="up", observation="", reward=0.0, invalid=False)
ROUNDS = st.lists(st.integers(1, 50), min_size=2, max_size=6)


def test_the_published_schedule():
    textcraft = Stepwise(StepwiseConfig(rounds=[10, 20, 30], steps=100))
    limits = [textcraft.max_turns(step) for step in (1, 100, 101, 200, 201, 300, 301, 10_000)]
    assert limits == [10, 10, 20, 20, 30, 30, 30, 30]


@given(rounds=ROUNDS, steps=st.integers(1, 200), step=st.integers(1, 2000))
def test_stepwise_is_the_formula(rounds, steps, step):
    assert (
        Stepwise(StepwiseConfig(rounds=rounds, steps=steps)).max_turns(step)
        == rounds[min((step - 1) // steps, len(rounds) - 1)]
    )


@given(rounds=ROUNDS, steps=st.integers(1, 200), step=st.integers(1, 2000))
def test_linear_meets_the_rounds_and_stays_between_them(rounds, steps, step):
    schedule = Linear(LinearConfig(rounds=sorted(rounds), steps=steps))
    for position, turns in enumerate(sorted(rounds)):
        assert schedule.max_turns(1 + position * steps) == turns
    assert schedule.max_turns(step) <= schedule.max_turns(step + 1) <= max(rounds)


def test_linear_in_numbers():
    schedule = Linear(LinearConfig(rounds=[5, 15], steps=4))
    assert [schedule.max_turns(step) for step in range(1, 7)] == [5, 7, 10, 12, 15, 15]


def test_fixed_is_one_number_or_the_environments_own():
    assert Fixed(FixedConfig(rounds=[7])).max_turns(500) == 7
    assert Fixed(FixedConfig()).max_turns(1) is None


def test_the_gate_opens_by_success_or_when_it_stalls():
    gate = SuccessGated(SuccessGatedConfig(rounds=[4, 8, 12], threshold=0.6, patience=3))
    gate.observe(0.5)
    assert gate.max_turns(2) == 4
    gate.observe(0.6)
    assert gate.max_turns(3) == 8
    for success in (0.1, 0.2, 0.2, 0.1):
        gate.observe(success)
        assert gate.max_turns(4) == 8
    gate.observe(0.2)  # the third step without a rise
    assert gate.max_turns(9) == 12
    gate.observe(1.0)
    assert gate.max_turns(10) == 12


def test_a_gate_that_opens_because_it_stalled_waits_anew():
    gate = SuccessGated(SuccessGatedConfig(rounds=[4, 8, 12], patience=2))
    limits = []
    for _ in range(4):
        gate.observe(0.0)
        limits.append(gate.max_turns(1))
    assert limits == [4, 8, 8, 12]


@given(successes=st.lists(st.floats(0, 1), max_size=60), cut=st.integers(0, 60))
def test_a_gate_resumed_anywhere_is_the_same_gate(successes, cut):
    uninterrupted = SuccessGated(SuccessGatedConfig(rounds=[2, 4, 6, 8], threshold=0.8, patience=5))
    first = SuccessGated(SuccessGatedConfig(rounds=[2, 4, 6, 8], threshold=0.8, patience=5))
    second = SuccessGated(SuccessGatedConfig(rounds=[2, 4, 6, 8], threshold=0.8, patience=5))
    for success in successes:
        uninterrupted.observe(success)
    for success in successes[:cut]:
        first.observe(success)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for success in successes[cut:]:
        second.observe(success)
    assert second.state_dict() == uninterrupted.state_dict()


@pytest.mark.parametrize(
    ("config", "keys", "says"),
    [
        (FixedConfig, {"rounds": [0]}, r"rounds=\[0\] must be turn limits"),
        (FixedConfig, {"rounds": [1, 2]}, "a fixed turn limit is one number"),
        (LinearConfig, {"rounds": [3]}, "two or more"),
        (StepwiseConfig, {"steps": 0}, "steps=0"),
        (SuccessGatedConfig, {"patience": 0}, "patience=0"),
        (SuccessGatedConfig, {"threshold": 0.0}, "threshold=0.0"),
    ],
)
def test_keys_out_of_range(config, keys, says):
    with pytest.raises(ValueError, match=says):
        config(**keys)
    with pytest.raises(ValueError, match="step is 0"):
        Curriculum({"maze": Fixed(FixedConfig(rounds=[3]))}).max_turns("maze", 0)


def test_environments_have_their_own_gates():
    def gate():
        return SuccessGated(SuccessGatedConfig(rounds=[2, 4], threshold=0.5, patience=9))

    def episode(env, success, ending=Ending.TERMINATED):
        return Episode(env=env, item_id=f"{env}_1", ending=ending, reward=0.0, success=success, max_turns=2)

    curriculum = Curriculum({"maze": gate(), "todo": gate()})
    curriculum.observe([episode("maze", True), episode("maze", False), episode("todo", False)])
    assert (curriculum.max_turns("maze", 2), curriculum.max_turns("todo", 2)) == (4, 2)
    curriculum.observe([episode("todo", True, Ending.TIMEOUT), episode("todo", False)])
    assert curriculum.max_turns("todo", 3) == 2
    replayed = replace(episode("todo", True), turns=[replace(TURN, calls=0), TURN])
    curriculum.observe([replayed, episode("todo", False)])
    assert curriculum.max_turns("todo", 4) == 2
    again = Curriculum({"maze": gate(), "todo": gate()})
    again.load_state_dict(json.loads(json.dumps(curriculum.state_dict())))
    assert (again.max_turns("maze", 2), again.max_turns("todo", 2)) == (4, 2)
