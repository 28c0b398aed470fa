"""Shares follow what there is to learn: simulated learners with known success rates."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.mixture import Dynamic, DynamicConfig, Mixture, Pools
from agentgym_rl.algorithms.mixture.dynamic import Value
from agentgym_rl.algorithms.mixture.posterior import Posterior
from agentgym_rl.data.episode import Ending, Episode

RATES = {"hard": 0.02, "middle": 0.5, "easy": 0.97}


def mixture(envs=RATES, shares=None, value="variance", **keys) -> Mixture:
    tasks = {env: range(1000) for env in envs}
    pools = Pools(tasks=tasks, shares=shares or dict.fromkeys(envs, 1.0), seed=0, difficulty=str)
    return Dynamic(DynamicConfig(value=Value(value), **keys), pools)


def rewarded(env: str, rewards: list[float], task: int = 0) -> list[Episode]:
    return [
        Episode(
            env=env, item_id=f"{env}_{task}", ending=Ending.TERMINATED, reward=reward, success=reward == 1, max_turns=9
        )
        for reward in rewards
    ]


def outcomes(env: str, wins: int, losses: int, task: int = 0) -> list[Episode]:
    return rewarded(env, [1.0] * wins + [0.0] * losses, task)


def step(mixture: Mixture, number: int, rates: dict[str, float], rng: Random, tasks=24, samples=4) -> dict[str, float]:
    """Roll out and observe a step; the shares after it."""
    episodes = []
    for draw in mixture.draw(number, tasks, samples):
        wins = sum(rng.random() < rates[draw.task.env] for _ in range(draw.samples))
        episodes += outcomes(draw.task.env, wins, draw.samples - wins, draw.task.index)
    mixture.observe(episodes)
    return {env: mixture.metrics()[f"env/{env}/share"] for env in rates}


def settled(mixture: Mixture, steps: int = 120) -> dict[str, float]:
    """Mean shares over the second half of a run on fixed success rates."""
    rng = Random(1)
    history = [step(mixture, number, RATES, rng) for number in range(steps)][steps // 2 :]
    return {env: sum(shares[env] for shares in history) / len(history) for env in RATES}


def test_without_an_episode_there_is_no_estimate():
    mixed = mixture()
    mixed.observe(outcomes("hard", 0, 4))
    logged = mixed.metrics()
    assert 0 < logged["env/hard/estimate"] < 0.5
    assert {"env/easy/estimate", "env/easy/uncertainty"}.isdisjoint(logged) and "env/easy/value" in logged


@pytest.mark.parametrize(
    ("value", "worth"), [("variance", lambda p: p * (1 - p)), ("failure", lambda p: 1 - p)], ids=["variance", "failure"]
)
@pytest.mark.parametrize(("floor", "temperature"), [(0.1, 1.0), (0.3, 1.0), (0.1, 0.5), (0.1, 3.0)])
def test_shares_settle_where_the_equation_says(value, worth, floor, temperature):
    shares = settled(mixture(value=value, floor=floor, temperature=temperature, decay=0.98))
    weights = {env: worth(rate) ** (1 / temperature) for env, rate in RATES.items()}
    for env, weight in weights.items():
        expected = floor / 3 + (1 - floor) * weight / sum(weights.values())
        assert shares[env] == pytest.approx(expected, abs=0.04)
        assert shares[env] >= floor / 3


REWARDS: dict[str, Callable[[int, Random], float]] = {
    "split": lambda task, rng: float(task % 2),  # tasks that are always solved, and tasks that never are
    "even": lambda task, rng: float(rng.random() < 0.5),
    "graded": lambda task, rng: rng.choice([0.0, 0.5]),  # never a success
}


@pytest.mark.parametrize(
    ("samples", "variances"),
    [(4, {"split": 0, "even": 0.25, "graded": 0.0625}), (1, {"split": 0.25, "even": 0.25, "graded": 0.0625})],
    ids=["groups tell tasks apart", "single episodes do not"],
)
def test_shares_follow_the_variance_within_tasks(samples, variances):
    mixed, rng, steps = mixture(REWARDS, decay=0.98), Random(6), 120
    seen = dict.fromkeys(REWARDS, 0.0)
    for number in range(steps):
        episodes = []
        for draw in mixed.draw(number, 24, samples):
            env, task = draw.task.env, draw.task.index
            episodes += rewarded(env, [REWARDS[env](task, rng) for _ in range(draw.samples)], task)
        mixed.observe(episodes)
        if number >= steps // 2:
            seen = {env: seen[env] + share / (steps - steps // 2) for env, share in mixed.shares.items()}
    metrics = mixed.metrics()
    assert [metrics[f"env/{env}/estimate"] for env in REWARDS] == pytest.approx([0.5, 0.5, 0], abs=0.15)
    for env, variance in variances.items():
        assert metrics[f"env/{env}/value"] == pytest.approx(variance, abs=0.04)
        assert seen[env] == pytest.approx(0.1 / 3 + 0.9 * variance / sum(variances.values()), abs=0.06)


def test_estimates_settle_at_the_success_rates():
    mixed, rng = mixture(), Random(2)
    first = Posterior().variance ** 0.5
    for number in range(60):
        step(mixed, number, RATES, rng)
    metrics = mixed.metrics()
    for env, rate in RATES.items():
        assert abs(metrics[f"env/{env}/estimate"] - rate) < 4 * metrics[f"env/{env}/uncertainty"]
        assert metrics[f"env/{env}/uncertainty"] < first / 4


def test_an_environment_being_learned_gains_and_a_learned_one_loses():
    mixed, rng = mixture(("learned", "stuck")), Random(3)
    shares = []
    for number in range(160):
        rate = min(0.98, max(0.01, (number - 20) / 80))  # from hopeless at step 20 to solved at step 100
        shares.append(step(mixed, number, {"learned": rate, "stuck": 0.02}, rng)["learned"])
    assert shares[20] < 0.65
    assert max(shares[50:80]) > 0.8
    assert sum(shares[-20:]) / 20 < 0.65


def test_progress_prefers_the_environment_that_moves():
    mixed, rng = mixture(("moving", "still"), value="progress"), Random(4)
    shares = []
    for number in range(260):
        rate = min(0.9, max(0.1, (number - 40) / 50))
        shares.append(step(mixed, number, {"moving": rate, "still": 0.5}, rng)["moving"])
    assert sum(shares[60:90]) / 30 > 0.75  # moves from step 45 to 85
    assert sum(shares[-20:]) / 20 < 0.6


@pytest.mark.parametrize("value", ["variance", "progress"])
def test_an_environment_without_episodes_keeps_weight(value):
    mixed = mixture(("known", "unknown"), value=value)
    for _ in range(30):
        mixed.observe(outcomes("known", 2, 62))
    assert mixed.metrics()["env/unknown/share"] > 0.6


@given(
    steps=st.lists(
        st.fixed_dictionaries({env: st.tuples(st.integers(0, 40), st.integers(0, 40)) for env in RATES}), max_size=8
    ),
    shares_given=st.fixed_dictionaries({env: st.floats(1e-6, 10) for env in RATES}),
    value=st.sampled_from(["variance", "failure", "progress"]),
    floor=st.floats(0.001, 1),
    temperature=st.floats(0.001, 100),
    smoothing=st.floats(0, 0.99),
    decay=st.floats(0, 0.99),
)
def test_floor_sum_and_the_size_of_a_jump(steps, shares_given, value, floor, temperature, smoothing, decay):
    mixed = mixture(
        shares=shares_given, value=value, floor=floor, temperature=temperature, smoothing=smoothing, decay=decay
    )
    before = mixed.shares
    for played in [{}, *steps]:
        if played:
            mixed.observe([episode for env, result in played.items() for episode in outcomes(env, *result)])
        shares = mixed.shares
        assert sum(shares.values()) == pytest.approx(1)
        assert min(shares.values()) >= floor / 3 * (1 - 1e-9)
        assert max(abs(shares[env] - before[env]) for env in shares) <= (1 - smoothing) * (1 - floor) + 1e-9
        before = shares


@pytest.mark.parametrize("tasks", [1, 3, 8])
def test_the_floor_holds_in_tasks_over_steps(tasks):
    mixed, rng, steps = mixture(floor=0.1, temperature=0.1), Random(5), 600
    got, due = dict.fromkeys(RATES, 0), dict.fromkeys(RATES, 0.0)
    for number in range(steps):
        for env, share in mixed.shares.items():
            due[env] += share * tasks
        for draw in mixed.draw(number, tasks, 1):
            got[draw.task.env] += 1
        step(mixed, number, RATES, rng, tasks=tasks, samples=1)
    assert min(due.values()) >= steps * tasks * 0.1 / 3
    assert got == pytest.approx(due, rel=0.1)


@given(st.integers(0, 100), st.integers(0, 100))
def test_posterior(wins, losses):
    posterior = Posterior(3.0, 5.0)
    posterior.add(wins, losses, 0.5)
    assert posterior.state_dict() == [1.5 + wins, 2.5 + losses]
    assert posterior.outcome_variance + posterior.variance == pytest.approx(
        posterior.mean * (1 - posterior.mean)
    )  # E[p(1-p)] + var p
    few, many = Posterior(3.0, 5.0), Posterior(3.0, 5.0)
    few.add(2, 0, 1.0)
    many.add(200, 0, 1.0)
    assert 4 / 10 < few.mean < 0.6 < 0.95 < many.mean
    assert many.variance < few.variance


def test_what_is_known_before_any_episode():
    assert (Posterior().mean, Posterior().outcome_variance) == (0.5, pytest.approx(1 / 6))
