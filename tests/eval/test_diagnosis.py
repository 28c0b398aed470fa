"""What says that a run is dead, and what does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.eval.diagnosis import RULES, Finding, diagnose


def units(*metrics, stage="grpo"):
    """The rows of a stage, one a unit, each followed by an evaluation."""
    rows = []
    for number, values in enumerate(metrics, start=1):
        rows.append({"step": number, f"stage/{stage}": number, "run/units": 9, **values})
        rows.append({"step": number, f"stage/{stage}": number, "val/new/toy/success": 0.0})
    return rows


def rules(*metrics):
    return [finding.rule for finding in diagnose(units(*metrics))]


def advantages(size, share=0.0, reward=0.0, success=0.0):
    return {"diagnostics/advantage_first": size, "diagnostics/advantage_last": size, "env/toy/reward": reward,
            "diagnostics/gradient_share": share, "env/toy/success": success}  # fmt: skip


DEAD = {
    "no gradient": {"diagnostics/gradient_share": 0.0, "diagnostics/advantage_first": 0.0},
    "invalid responses": {"env/toy/invalid_turns": 1.0},
    "entropy": {"actor/entropy": 0.001},
    "ratio": {"diagnostics/ratio_low": 0.1, "diagnostics/ratio_high": 1.0},
    "context limit": {"env/toy/context_share": 0.96},
    "mixture": {"mixture/floor": 0.05, "env/toy/share": 0.05, "env/other/share": 0.95, "env/other/success": 0.5},
    "gradient": {"actor/grad_norm": float("nan")},
}
ALIVE = {
    "no gradient": {"diagnostics/gradient_share": 0.1, "diagnostics/advantage_first": 0.0},
    "invalid responses": {"env/toy/invalid_turns": 0.6},
    "entropy": {"actor/entropy": 0.3},
    "ratio": {"diagnostics/ratio_low": 0.8, "diagnostics/ratio_high": 1.3},
    "context limit": {"env/toy/context_share": 0.4},
    "mixture": DEAD["mixture"] | {"env/toy/success": 0.0},
    "gradient": {"actor/grad_norm": 1.0},
}


def test_every_rule_has_its_case():
    assert set(DEAD) == set(ALIVE) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_run_is_dead_after_two_units_that_show_it(rule):
    dead, alive = DEAD[rule], ALIVE[rule]
    assert rules(dead, dead) == rules(alive, dead, dead) == rules(dead, {}, dead) == [rule]
    assert (
        rules(dead) == rules(alive, alive) == rules(dead, alive) == rules(alive, dead) == rules(dead, dead, alive) == []
    )


def test_what_is_no_number_shows_nothing_but_that():
    broken = dict.fromkeys(
        ("actor/grad_norm", "actor/entropy", "diagnostics/ratio_low", "diagnostics/ratio_high",
         "diagnostics/advantage_first"), float("nan"),
    )  # fmt: skip
    assert rules(broken, broken) == ["gradient"]


def test_a_finding_says_cause_and_remedy():
    (finding,) = diagnose(units(DEAD["context limit"], DEAD["context limit"]))
    assert (finding.stage, finding.cause) == ("grpo", "nearly all episodes are cut at the context limit (toy 96%)")
    assert str(finding) == (
        "grpo is not learning: nearly all episodes are cut at the context limit (toy 96%); raise "
        "model.response_tokens, set rollout.context=window or fold, or lower rollout.max_new_tokens"
    )


def test_each_stage_is_diagnosed_by_its_own_units():
    dead = DEAD["entropy"]
    rows = [*units(dead, dead, stage="bc"), *units(dead, stage="grpo"), *units({}, {}, stage="control")]
    assert [finding.stage for finding in diagnose(rows)] == ["bc"]


@pytest.mark.parametrize(
    ("metrics", "cause"),
    [
        (advantages(0.0), "no episode succeeds"),
        (advantages(0.0, reward=1.0, success=1.0), "every episode succeeds"),
        (advantages(0.0, reward=0.5, success=0.5), "no group has episodes of unequal reward"),
        (advantages(0.4), "no episode succeeds"),  # a critic's advantages, which are of its own errors
        ({"batch/filtered_groups": 8.0}, "no group has episodes of unequal reward"),  # all of them
        ({"agentevol/kept": 0, "env/toy/success": 0.0, "env/toy/reward": 0.1}, "no episode succeeds"),
        ({"dpo/pairs": 0.0, "env/toy/success": 0.5, "env/toy/reward": 0.5}, "no group has episodes of unequal reward"),
    ],
)
def test_nothing_to_learn_from(metrics, cause):
    (finding,) = diagnose(units(metrics, metrics))
    assert (finding.rule, finding.cause) == ("no gradient", cause)


@pytest.mark.parametrize(
    "metrics",
    [
        advantages(0.004, share=0.01, reward=0.5, success=0.5),
        advantages(0.3, reward=0.4, success=0.4) | {"env/other/reward": 0.1},  # one episode a task, with a baseline
        {"agentevol/kept": 3, "env/toy/reward": 0.5, "env/toy/success": 0.5},  # each task always solved or never
        {"env/toy/reward": 0.0, "env/toy/success": 0.0},  # cloning, or an algorithm of another package
    ],
)
def test_something_to_learn_from_or_nobody_knows(metrics):
    assert rules(metrics, metrics) == []


def test_only_the_environments_that_show_it_are_named():
    shares = {"env/a/invalid_turns": 0.98, "env/b/invalid_turns": 0.2, "env/c/invalid_turns": 1.0}
    (finding,) = diagnose(units(shares, shares | {"env/c/invalid_turns": 0.5}, {"env/b/invalid_turns": 1.0}))
    assert finding.cause == "nearly all responses are invalid (a 98%)"


def test_an_environment_that_is_solved_rightly_has_the_least_share():
    solved = DEAD["mixture"] | {"env/toy/estimate": 0.95}
    assert rules(solved, solved) == []
    above = DEAD["mixture"] | {"env/toy/share": 0.06}
    assert rules(above, DEAD["mixture"]) == []
    rounded = DEAD["mixture"] | {"env/toy/share": 0.051}
    assert rules(rounded, rounded) == ["mixture"]


@given(st.lists(st.dictionaries(st.sampled_from(sorted({key for keys in DEAD.values() for key in keys})),
                                st.floats(0, 1e9)), max_size=5))  # fmt: skip
def test_any_metrics_can_be_diagnosed(rows):
    partly = [row | {"diagnostics/ratio_high": 1.0} if "diagnostics/ratio_low" in row else row for row in rows]
    assert all(isinstance(finding, Finding) and str(finding) for finding in diagnose(units(*partly)))
