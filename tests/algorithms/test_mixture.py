"""Tasks of a step: the right shares, and the same tasks wherever a run resumes."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.mixture import (
    By,
    Draw,
    DynamicConfig,
    Mixture,
    MixtureConfig,
    Pools,
    SequentialConfig,
    mixtures,
)
from agentgym_rl.algorithms.mixture.dynamic import Value
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs import Task

POOLS = {"textcraft": range(1000, 1007), "babyai": range(50), "counter": [3]}
SHARES = st.fixed_dictionaries({env: st.floats(0, 10) for env in POOLS}).filter(lambda shares: sum(shares.values()) > 0)
OF_TASKS = {
    "floor": st.floats(0.01, 1),
    "temperature": st.floats(0.1, 10),
    "decay": st.floats(0, 0.99),
    "tasks": st.sampled_from(By),
    "min_samples": st.integers(1, 2),
    "max_samples": st.sampled_from([None, 4, 9]),
}
SETTINGS = st.one_of(
    st.builds(MixtureConfig, type=st.sampled_from(["uniform", "proportional", "fixed"]), **OF_TASKS),
    st.builds(
        DynamicConfig,
        type=st.just("dynamic"),
        value=st.sampled_from(Value),
        smoothing=st.floats(0, 0.99),
        **OF_TASKS,
    ),
    st.builds(SequentialConfig, type=st.just("sequential"), steps=st.integers(1, 3), **OF_TASKS),
)


def label(task: Task) -> str:
    return f"depth {task.index % 3}"


EVEN = {"babyai": 1.0, "textcraft": 1.0}


def build(config: MixtureConfig, pools, shares, seed, label) -> Mixture:
    return mixtures()[config.type](config, Pools(tasks=pools, shares=shares, seed=seed, difficulty=label))


def mixture(shares=EVEN, seed=0, pools=POOLS, type="fixed", **keys) -> Mixture:
    return build(mixtures()[type].Config(type=type, **keys), pools, shares, seed, label)


def outcomes(draws: list[Draw], rng: Random, rates: dict[str, float] | None = None) -> list[Episode]:
    """Episodes of a step; one in ten fails outside the agent."""
    episodes = []
    for draw in draws:
        for _ in range(draw.samples):
            success = rng.random() < (rates or {}).get(draw.task.env, 0.5)
            ending = Ending.ENV_ERROR if rng.random() < 0.1 else Ending.TERMINATED
            episodes.append(
                Episode(
                    env=draw.task.env,
                    item_id=str(draw.task),
                    ending=ending,
                    reward=float(success),
                    success=success,
                    max_turns=9,
                )
            )
    return episodes


@given(
    settings=SETTINGS,
    shares=SHARES,
    seed=st.integers(),
    step=st.integers(0, 10**6),
    tasks=st.integers(0, 60),
    samples=st.integers(2, 4),
    learned=st.integers(0, 3),
)
def test_a_step(settings, shares, seed, step, tasks, samples, learned):
    mixture, rng = build(settings, POOLS, shares, seed, label), Random(seed)
    for earlier in range(learned):
        mixture.observe(outcomes(mixture.draw(earlier, 20, samples), rng))
    draws = mixture.draw(step, tasks, samples)
    assert mixture.draw(step, tasks, samples) == draws
    assert len(draws) == tasks
    assert sum(draw.samples for draw in draws) == tasks * samples
    low, high = mixture.bounds(samples)
    assert all(low <= draw.samples <= high for draw in draws)
    metrics = mixture.metrics()
    assert sum(metrics.get(f"env/{env}/share", 0) for env in POOLS) == pytest.approx(1)
    for env, pool in POOLS.items():
        of_env = [draw for draw in draws if draw.task.env == env]
        share = metrics.get(f"env/{env}/share", 0)
        assert (share > 0) <= (shares[env] > 0)
        assert abs(len(of_env) - share * tasks) < 1 + 1e-9
        assert sum(draw.samples for draw in of_env) == samples * len(of_env)
        drawn = [draw.task.index for draw in of_env]
        assert set(drawn) <= set(pool)
        most, least = max(drawn.count(index) for index in pool), min(drawn.count(index) for index in pool)
        assert most - least <= 1  # no task again before all others of the pool had their turn


@given(settings=SETTINGS, seed=st.integers(), steps=st.integers(0, 5))
def test_a_run_goes_on_from_its_state_as_if_never_stopped(settings, seed, steps):
    shares = {"babyai": 1.0, "textcraft": 3.0}
    mixed, rng = build(settings, POOLS, shares, seed, label), Random(seed)
    for step in range(steps):
        mixed.observe(outcomes(mixed.draw(step, 8, 3), rng))
    other = build(settings, POOLS, shares, seed, label)
    other.load_state_dict(json.loads(json.dumps(mixed.state_dict())))
    for step in range(steps, steps + 3):
        draws = mixed.draw(step, 8, 3)
        assert other.draw(step, 8, 3) == draws
        episodes = outcomes(draws, rng)
        mixed.observe(episodes)
        other.observe(episodes)
    assert mixed.state_dict() == other.state_dict()
    assert mixed.metrics() == other.metrics()


def test_shares_by_type():
    shares = {"babyai": 3.0, "textcraft": 1.0, "counter": 0.0}
    expected = {"uniform": 0.5, "proportional": 50 / 57, "fixed": 0.75, "dynamic": 0.1 / 2 + 0.9 * 0.75}
    for kind, share in expected.items():
        metrics = mixture(shares, type=kind).metrics()
        assert metrics["env/babyai/share"] == pytest.approx(share)
        assert metrics["env/textcraft/share"] == pytest.approx(1 - share)
        assert "env/counter/share" not in metrics


def test_one_environment_after_the_other():
    def turns(**keys) -> list[str]:
        mixed = mixture({"babyai": 1.0, "counter": 0.0, "textcraft": 3.0}, type="sequential", **keys)
        turns_taken = []
        for step in range(5):
            draws = mixed.draw(step, 4, 2)
            turns_taken.append("".join({draw.task.env[0] for draw in draws}))
            mixed.observe(outcomes(draws, Random(step)))
        return turns_taken

    assert turns() == ["b", "t", "t", "t", "t"]
    assert turns(steps=2) == ["b", "b", "t", "t", "t"]
    assert turns(steps=2, order=["textcraft", "babyai"]) == ["t", "t", "b", "b", "b"]
    refused = r"mixture\.order=.* must name each environment .* once: babyai, textcraft"
    for order in (["babyai"], ["babyai", "babyai", "textcraft"], ["babyai", "textcraft", "counter"]):
        with pytest.raises(ValueError, match=refused):
            turns(order=order)
    with pytest.raises(ValueError, match=r"mixture\.steps=0 must be at least 1"):
        turns(steps=0)


def test_steps_and_seeds_draw_differently():
    draws = {tuple(mixture({"babyai": 1}, seed).draw(step, 10, 1)) for seed in range(3) for step in range(3)}
    assert len(draws) == 9


def test_an_environment_draws_the_same_tasks_whatever_is_drawn_beside_it():
    alone = mixture({"babyai": 1}).draw(3, 5, 2)
    beside = mixture({"textcraft": 1, "babyai": 1}).draw(3, 10, 2)
    assert [draw for draw in beside if draw.task.env == "babyai"] == alone


def test_nothing_but_dynamic_shares_and_weighted_tasks_learns():
    fixed = mixture()
    before = fixed.state_dict(), fixed.metrics()
    fixed.observe(outcomes(fixed.draw(0, 8, 4), Random(0)))
    assert (fixed.state_dict(), fixed.metrics()) == before == ({"shares": {}, "tasks": {}}, fixed.metrics())


def test_endings_that_do_not_count_teach_nothing():
    mixed, other = (mixture(type="dynamic", tasks=By.TASK) for _ in range(2))
    episodes = outcomes(mixed.draw(0, 8, 4), Random(0))
    counted = [episode for episode in episodes if episode.ending.counts]
    assert len(counted) < len(episodes)
    mixed.observe(episodes)
    other.observe(counted)
    assert mixed.state_dict() == other.state_dict()


def test_an_episode_of_a_stranger_is_refused():
    with pytest.raises(ValueError, match="episodes of counter, but the mixture has babyai, textcraft"):
        mixture().observe(outcomes([Draw(Task("counter", 3), 1)], Random(0)))


@pytest.mark.parametrize(
    "shares", [{"babyai": -1.0, "counter": 2.0}, {"babyai": 0.0, "counter": 0.0}, {"babyai": float("nan")}, {}]
)
def test_bad_shares(shares):
    with pytest.raises(ValueError, match=r"envs\.<name>\.share must be finite, not negative and not all 0"):
        mixture(shares)


@pytest.mark.parametrize("pools", [{"babyai": []}, {}])
def test_a_share_without_tasks_is_refused(pools):
    pools = {"counter": [3], **pools}
    with pytest.raises(ValueError, match="no training tasks for babyai"):
        mixture({"babyai": 1.0, "counter": 1.0}, pools=pools)
    idle = mixture({"babyai": 0.0, "counter": 1.0}, pools=pools)
    assert {draw.task.env for draw in idle.draw(0, 5, 1)} == {"counter"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("floor", 0.0),
        ("floor", 1.5),
        ("floor", float("nan")),
        ("temperature", 0.0),
        ("temperature", float("inf")),
        ("decay", 1.0),
        ("decay", -0.1),
        ("smoothing", 1.0),
        ("smoothing", -0.1),
        ("min_samples", 0),
        ("max_samples", 0),
    ],
)
def test_a_setting_out_of_range_is_named(key, value):
    with pytest.raises(ValueError, match=rf"^mixture\.{key}={value!r} "):
        DynamicConfig(**{key: value})


def test_samples_outside_the_limits():
    mixture(min_samples=4, max_samples=4).draw(0, 4, 2)  # tasks=off: limits do not apply
    with pytest.raises(ValueError, match=r"mixture\.min_samples=4 is more than algorithm\.samples_per_task=2"):
        mixture(tasks=By.TASK, min_samples=4).draw(0, 4, 2)
    with pytest.raises(ValueError, match=r"mixture\.max_samples=4 is less than algorithm\.samples_per_task=8"):
        mixture(tasks=By.TASK, max_samples=4).draw(0, 4, 8)
    with pytest.raises(ValueError, match=r"algorithm\.samples_per_task=0"):
        mixture().draw(0, 4, 0)


ENV = {"share": 0.5, "fast": [1.0, 2.0], "slow": [1.0, 2.0], "rewards": [3.0, 1.0, 1.0, 1.0, 0.25]}
EARLIER = {key: ENV[key] for key in ("share", "fast", "slow")}
ENVS = {"babyai": ENV, "textcraft": ENV}
TASKS = {"babyai": {}, "textcraft": {"textcraft_1000": [0.5, 2.0]}}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "keys shares and tasks"),
        ({"shares": ENVS, "tasks": TASKS, "step": 3}, "keys shares and tasks"),
        ({"shares": {"babyai": ENV}, "tasks": TASKS}, "environments"),
        ({"shares": ENVS | {"counter": ENV}, "tasks": TASKS}, "environments"),
        ({"shares": ENVS | {"babyai": {"share": 0.5}}, "tasks": TASKS}, "babyai needs share, fast, slow and rewards"),
        ({"shares": {"babyai": EARLIER, "textcraft": EARLIER}, "tasks": TASKS}, "earlier version cannot be resumed"),
        ({"shares": ENVS | {"babyai": ENV | {"share": 0.9}}, "tasks": TASKS}, "sum 1"),
        ({"shares": ENVS | {"babyai": ENV | {"fast": [1.0]}}, "tasks": TASKS}, "not a sum each of successes"),
        ({"shares": ENVS | {"babyai": ENV | {"rewards": [1.0, 2.0]}}, "tasks": TASKS}, "not a sum each of episodes"),
        ({"shares": ENVS, "tasks": {"babyai": {}}}, "environments"),
        ({"shares": ENVS, "tasks": TASKS | {"babyai": {"babyai_1": [-1.0, 0.0]}}}, "not a sum"),
    ],
)
def test_a_foreign_state_is_refused(state, message):
    current = mixture(type="dynamic", tasks=By.TASK)
    current.load_state_dict({"shares": ENVS, "tasks": TASKS})
    assert current.state_dict() == {"shares": ENVS, "tasks": TASKS}
    with pytest.raises(ValueError, match=message):
        current.load_state_dict(state)


def test_a_mixture_that_does_not_learn_refuses_what_was_learnt():
    with pytest.raises(ValueError, match="these shares do not learn"):
        mixture().load_state_dict({"shares": ENVS, "tasks": {}})
    with pytest.raises(ValueError, match="the number of steps observed, got None"):
        mixture(type="sequential").load_state_dict({"shares": ENVS, "tasks": {}})
    with pytest.raises(ValueError, match=r"mixture\.tasks=off keeps none"):
        mixture(type="dynamic").load_state_dict({"shares": ENVS, "tasks": TASKS})
