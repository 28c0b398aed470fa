"""The horizon is what the paper's schedule says, at every step and after every resume."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.scaling_inter import Curriculum, CurriculumSettings, RoundsControl, ScalingInter
from agentgym_rl.data.episode import Ending, Episode

ROUNDS = st.lists(st.integers(1, 50), min_size=2, max_size=6)


def test_the_published_schedule():
    textcraft = ScalingInter("stepwise", [10, 20, 30], 100)
    horizons = [textcraft.horizon(step) for step in (1, 100, 101, 200, 201, 300, 301, 10_000)]
    assert horizons == [10, 10, 20, 20, 30, 30, 30, 30]


@given(rounds=ROUNDS, steps=st.integers(1, 200), step=st.integers(1, 2000))
def test_stepwise_is_the_formula(rounds, steps, step):
    assert ScalingInter("stepwise", rounds, steps).horizon(step) == rounds[min((step - 1) // steps, len(rounds) - 1)]


@given(rounds=ROUNDS, steps=st.integers(1, 200), step=st.integers(1, 2000))
def test_linear_meets_the_rounds_and_stays_between_them(rounds, steps, step):
    schedule = ScalingInter("linear", sorted(rounds), steps)
    for position, turns in enumerate(sorted(rounds)):
        assert schedule.horizon(1 + position * steps) == turns
    assert schedule.horizon(step) <= schedule.horizon(step + 1) <= max(rounds)


def test_linear_in_numbers():
    schedule = ScalingInter("linear", [5, 15], 4)
    assert [schedule.horizon(step) for step in range(1, 7)] == [5, 7, 10, 12, 15, 15]


def test_fixed_is_one_number_or_the_worlds_own():
    assert ScalingInter("fixed", [7]).horizon(500) == 7
    assert ScalingInter().horizon(1) is None


def test_the_gate_opens_by_success_or_when_it_stalls():
    gate = ScalingInter("success_gated", [4, 8, 12], threshold=0.6, patience=3)
    gate.learn(0.5)
    assert gate.horizon(2) == 4
    gate.learn(0.6)
    assert gate.horizon(3) == 8
    for success in (0.1, 0.2, 0.2, 0.1):
        gate.learn(success)
        assert gate.horizon(4) == 8
    gate.learn(0.2)  # the third step without a rise
    assert gate.horizon(9) == 12
    gate.learn(1.0)
    assert gate.horizon(10) == 12


@given(successes=st.lists(st.floats(0, 1), max_size=60), cut=st.integers(0, 60))
def test_a_gate_resumed_anywhere_is_the_same_gate(successes, cut):
    whole = ScalingInter("success_gated", [2, 4, 6, 8], threshold=0.8, patience=5)
    first = ScalingInter("success_gated", [2, 4, 6, 8], threshold=0.8, patience=5)
    second = ScalingInter("success_gated", [2, 4, 6, 8], threshold=0.8, patience=5)
    for success in successes:
        whole.learn(success)
    for success in successes[:cut]:
        first.learn(success)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for success in successes[cut:]:
        second.learn(success)
    assert second.state_dict() == whole.state_dict()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"type": "steps"}, "type='steps' is unknown; choose fixed, stepwise"),
        ({"rounds": [0]}, r"rounds=\[0\] must be turn limits"),
        ({"rounds": [1, 2]}, "a fixed horizon is one number"),
        ({"type": "linear", "rounds": [3]}, "two or more"),
        ({"steps": 0}, "steps=0"),
        ({"patience": 0}, "patience=0"),
        ({"threshold": 0.0}, "threshold=0.0"),
    ],
)
def test_settings_out_of_range(settings, says):
    with pytest.raises(ValueError, match=says):
        CurriculumSettings(**settings)
    with pytest.raises(ValueError, match="step is 0"):
        ScalingInter("fixed", [3]).horizon(0)


def test_agentgym_rls_keys():
    published = RoundsControl(type="scaling_inter_stepwise", rounds=[6, 13, 20], steps_scaling_inter=80)
    assert published.settings() == CurriculumSettings(type="stepwise", rounds=[6, 13, 20], steps=80)
    assert RoundsControl(type="fixed", rounds=15).settings().rounds == [15]
    assert RoundsControl().settings() is None
    with pytest.raises(ValueError, match="'linear' is unknown; choose fixed, scaling_inter_stepwise"):
        RoundsControl(type="linear", rounds=[1, 2]).settings()
    with pytest.raises(ValueError, match="rounds is missing"):
        RoundsControl(type="fixed").settings()


def test_worlds_have_their_own_gates():
    def gate():
        return ScalingInter("success_gated", [2, 4], threshold=0.5, patience=9)

    def played(env, success, ending=Ending.TERMINATED):
        return Episode(env=env, item_id=f"{env}_1", ending=ending, reward=0.0, success=success, horizon=2)

    curriculum = Curriculum({"maze": gate(), "todo": gate()})
    curriculum.learn([played("maze", True), played("maze", False), played("todo", False)])
    assert (curriculum.horizon("maze", 2), curriculum.horizon("todo", 2)) == (4, 2)
    curriculum.learn([played("todo", True, Ending.TIMEOUT), played("todo", False)])
    assert curriculum.horizon("todo", 3) == 2
    again = Curriculum({"maze": gate(), "todo": gate()})
    again.load_state_dict(json.loads(json.dumps(curriculum.state_dict())))
    assert (again.horizon("maze", 2), again.horizon("todo", 2)) == (4, 2)
