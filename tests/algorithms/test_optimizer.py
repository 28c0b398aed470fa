"""The learning rate of each unit, and values that are refused."""

from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.agentevol import AgentEvolConfig
from agentgym_rl.algorithms.bc import CloningConfig
from agentgym_rl.algorithms.groups import GroupsConfig
from agentgym_rl.algorithms.grpo import GRPOConfig
from agentgym_rl.algorithms.losses.base import LossConfig
from agentgym_rl.algorithms.mixture import FrontierConfig
from agentgym_rl.algorithms.optimizer import OptimizerConfig, Schedule
from agentgym_rl.algorithms.search import SearchConfig


def rates(units, **keys):
    """Learning rates of a stage, as shares of the full one."""
    return [OptimizerConfig(**keys).rate(1.0, unit, units) for unit in range(units)]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, [1, 1, 1, 1, 1]),
        ({"warmup_steps": 3}, [0.25, 0.5, 0.75, 1, 1]),
        ({"schedule": Schedule.LINEAR}, [1, 0.775, 0.55, 0.325, 0.1]),
        ({"schedule": Schedule.LINEAR, "min_lr_ratio": 0, "warmup_steps": 2}, [1 / 3, 2 / 3, 1, 0.5, 0]),
        ({"schedule": Schedule.COSINE, "min_lr_ratio": 0.2}, [1, 0.882843, 0.6, 0.317157, 0.2]),
        ({"schedule": Schedule.COSINE, "warmup_steps": 9}, [0.1, 0.2, 0.3, 0.4, 0.5]),
    ],
)
def test_rates_of_five_units(keys, expected):
    assert rates(5, **keys) == pytest.approx(expected, abs=1e-6)


@given(units=st.integers(1, 50), warmup=st.integers(0, 60), schedule=st.sampled_from(Schedule), least=st.floats(0, 1))
def test_a_rate_rises_through_the_warm_up_and_never_after_it(units, warmup, schedule, least):
    lrs = rates(units, schedule=schedule, warmup_steps=warmup, min_lr_ratio=least)
    rising, falling = lrs[: warmup + 1], lrs[warmup:]
    assert rising == sorted(rising) and falling == sorted(falling, reverse=True)
    assert all(0 < rate <= 1 for rate in rising) and all(least - 1e-9 <= rate for rate in falling)


def test_passes_over_trajectories_fall_to_a_tenth_and_training_steps_do_not():
    for config, last in ((CloningConfig(), 0.1), (AgentEvolConfig(), 0.1), (GRPOConfig(), 1.0)):
        assert config.optimizer.rate(1.0, 3, 4) == pytest.approx(last)
        assert config.optimizer.rate(1.0, 0, 1) == 1.0, "a single pass has the full rate"


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"min_lr_ratio": 1.1}, r"optimizer.min_lr_ratio must be in \[0, 1\], got 1.1"),
        ({"warmup_steps": -1}, "optimizer.warmup_steps must not be negative, got -1"),
        ({"weight_decay": -0.1}, "optimizer.weight_decay must not be negative"),
        ({"weight_decay": nan}, "optimizer.weight_decay must not be negative, got nan"),
        ({"betas": [0.9]}, r"optimizer.betas must be two numbers in \[0, 1\), got \[0.9\]"),
        ({"betas": [0.9, 1.0]}, "optimizer.betas must be two numbers"),
        ({"clip_grad": 0}, "optimizer.clip_grad must be greater than 0, got 0; inf clips none"),
    ],
)
def test_values_that_cannot_work(keys, says):
    with pytest.raises(ValueError, match=says):
        OptimizerConfig(**keys)


@pytest.mark.parametrize(
    ("config", "key"),
    [(GRPOConfig, "observation_weight"), (LossConfig, "kl"), (GroupsConfig, "negative_weight"),
     (CloningConfig, "observation_weight"), (FrontierConfig, "novelty"), (SearchConfig, "exploration")],
)  # fmt: skip
def test_what_is_no_number_is_refused(config, key):
    with pytest.raises(ValueError, match=f"{key}.* nan|{key}=nan"):
        config(**{key: nan})
