"""The pages of benchmarks/evidence.py, from made-up results."""

import json
import sys
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("verl")

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import evidence  # noqa: E402
import evidence_page as pages  # noqa: E402
from staleness import told, why  # noqa: E402
from studies import ALGORITHMS, ALONE, DOCS, HORIZONS, SINGLE, STUDIES  # noqa: E402

from agentgym_rl.engine.recipe.digest import code  # noqa: E402
from agentgym_rl.engine.recipe.resolved import Resolved  # noqa: E402


def row(arm, seed, textcraft, babyai, maze, control=None):
    def envs(numbers):
        return {env: [number, 100] for env, number in zip(ALGORITHMS.columns, numbers, strict=True)}

    return {
        "arm": arm, "seed": seed, "success": envs((textcraft, babyai, maze)), "episodes": 960, "minutes": 2.0,
        "control": None if control is None else envs((control,) * 3),
    }  # fmt: skip


ROWS = [
    row("bc", 0, 0.1, 0.4, 0.7),
    row("bc", 1, 0.2, 0.4, 0.9),
    row("evol", 0, 0.3, 0.5, 0.7, control=0.4),
    row("evol", 1, 0.4, 0.5, 0.9, control=0.6),
    row("evol_textcraft", 0, 0.2, 0.0, 0.0),
    row("evol_babyai", 0, 0.0, 0.6, 0.0),
    row("evol_maze", 0, 0.0, 0.0, 0.7),
]


def test_values_and_averages():
    def averages(side):
        return pages.averages(ROWS, side, list(ALGORITHMS.columns))

    assert pages.values(ROWS, "bc", "textcraft") == {0: 10.0, 1: 20.0}
    assert averages("bc") == pytest.approx({0: 40.0, 1: 50.0})
    assert averages("evol/control") == pytest.approx({0: 40.0, 1: 60.0})
    assert averages("bc/control") == {}
    # alone: each environment from its own arm, on the seeds that have all three
    assert averages(SINGLE) == pytest.approx({0: 50.0})


def test_cells_and_verdicts():
    # mean 11, sd sqrt(2), half width 12.706 * 1 = 12.706
    assert pages.cell([10.0, 12.0]) == "11.0 ±12.7"
    assert pages.cell([10.0], signed=True) == "+10.0"
    differences = ([9.0, 10.0, 9.5], [-9.0, -10.0, -9.5], [-1.0, 1.0, 0.0], [5.0, 5.1])
    assert [pages.verdict(found) for found in differences] == [
        "holds", "reversed", "not shown", "too few seeds",
    ]  # fmt: skip


def test_the_page_keeps_what_stands_around_its_tables():
    text = ALGORITHMS.page.read_text().replace("## Orderings", "## Orderings\n\nReasons.")
    renewed = pages.page(ALGORITHMS, text, ROWS)
    assert "Reasons." in renewed
    assert "| evol | 2 | 35.0 ±63.5 | 50.0 ±0.0 |" in renewed
    # +20, +10, 0 on both seeds
    assert "| AgentEvol > BC | +20.0 ±0.0 | +10.0 ±0.0 | +0.0 ±0.0 |" in renewed
    assert "| 2 of 2 | 0.500 | too few seeds |" in renewed
    assert pages.page(ALGORITHMS, renewed, ROWS) == renewed
    with pytest.raises(ValueError, match="no block '<!-- table arms -->'"):
        pages.page(ALGORITHMS, "nothing here", ROWS)


def test_claims_that_do_not_hold_are_listed():
    # evolution against its control: +10, 0, -26.7; sd 18.95, half width 4.303 * 18.95 / sqrt(3) = 47.1
    third = [row("bc", 2, 0.1, 0.5, 0.8), row("evol", 2, 0.4, 0.6, 0.9, control=0.9)]
    assert list(pages.doubts({"algorithms": ALGORITHMS}, {"algorithms": [*ROWS, *third]})) == [
        "algorithms | AgentEvol > its control | -5.6 ±47.1 | 1 of 3 | not shown",
        "algorithms | all environments together > each alone | +0.0 | 0 of 1 | too few seeds",
    ]


@cache
def composed(name, arm):
    return evidence.composed(STUDIES[name], arm, 0, Path("a"))


def episodes_of(name, arm):
    config = composed(name, arm)
    algorithm, mixture = config.algorithm, Resolved(config).mixture
    return sum(
        draw.samples
        for step in range(algorithm.steps)
        for draw in mixture.draw(step, algorithm.tasks_per_step, algorithm.samples_per_task)
    )


@pytest.mark.slow
@pytest.mark.parametrize("arm", [arm for arm in ALGORITHMS.arms if not arm.startswith("bc")])
def test_every_arm_composes_with_the_same_number_of_episodes(arm):
    assert episodes_of("algorithms", arm) == (960 // 3 if arm in SINGLE.values() else 960)


@pytest.mark.slow
def test_every_credit_for_steps_has_as_many_episodes_and_updates():
    arms = [arm for arm in STUDIES["credit"].arms if arm != "bc"]
    assert {episodes_of("credit", arm) for arm in arms} == {960}
    configs = [composed("credit", arm) for arm in arms]
    algorithms = [config.algorithm for config in configs]
    assert len({(one.tasks_per_step, one.mini_batch_tasks, one.epochs, one.lr) for one in algorithms}) == 1
    assert {frozenset(Resolved(one).mixture.shares) for one in configs} == {frozenset({"textcraft", "maze"})}


def test_every_horizon_composes_with_the_same_number_of_episodes():
    assert {episodes_of("curriculum", name) for name in HORIZONS} == {1440}


@pytest.mark.slow
def test_every_mixture_composes_with_the_same_number_of_episodes():
    assert {episodes_of("mixture", arm) for arm in STUDIES["mixture"].arms if arm != "bc"} == {960}


def test_every_algorithm_of_the_pretrained_model_plays_as_many_episodes():
    assert {episodes_of("pretrained", arm) for arm in ("agentevol", "grpo")} == {560}


def test_every_horizon_of_the_pretrained_model_plays_as_many_episodes():
    assert {episodes_of("pretrained_curriculum", name) for name in HORIZONS} == {240}
    limit = Resolved(composed("pretrained_curriculum", "growing")).curriculum
    assert [limit.max_turns("maze", step) for step in (1, 2, 3)] == [6, 12, 20]


@pytest.mark.slow
def test_every_arm_of_the_transfer_plays_as_many_episodes():
    arms = [arm for arm in STUDIES["transfer"].arms if arm != "bc"]
    assert {episodes_of("transfer", arm) for arm in arms} == {960}
    for env, arm in ALONE.items():
        assert Resolved(composed("transfer", arm)).mixture.shares == {env: 1.0}


def test_the_oracle_plays_what_can_be_learned():
    shares = Resolved(composed("mixture", "grpo_oracle")).mixture.shares
    assert shares == {"maze-middle-rooms": 0.5, "maze-middle-perfect": 0.5}


def test_a_run_tells_its_groups_with_a_gradient(tmp_path):
    rows = [{"rollout/gradient_groups": 0.5}, {"run/episodes": 3}, {"rollout/gradient_groups": 0.25}]
    place = tmp_path / "metrics.jsonl"
    place.write_text("".join(f"{json.dumps(line)}\n" for line in rows))
    assert evidence.gradient_groups(tmp_path) == 0.375
    place.write_text(json.dumps(rows[1]))
    assert evidence.gradient_groups(tmp_path) is None


def test_growing_takes_a_round_for_each_of_its_limits():
    limit = Resolved(composed("curriculum", "growing")).curriculum
    assert [limit.max_turns("maze", step) for step in (1, 2, 3)] == [5, 10, 20]


def test_results_belong_to_their_settings_wherever_they_were_run():
    def of(arm, folder="b", seed=0):
        return evidence.settings(evidence.composed(ALGORITHMS, arm, seed, Path(folder)))

    assert of("grpo") == evidence.settings(composed("algorithms", "grpo"))
    assert len({of("grpo"), of("rloo"), of("grpo", seed=1)}) == 3


def test_weights_evaluated_again_are_one_point_of_the_curve(tmp_path):
    found = [(0, 0, 0.1), (480, 900, 0.3), (960, 1900, 0.4), (960, 1900, 0.5)]
    rows = [
        {"run/episodes": episodes, "run/tokens": tokens, "val/validation/maze/success": success}
        for episodes, tokens, success in found
    ]
    lines = [*rows[:2], {"run/episodes": 700, "run/tokens": 1500}, *rows[2:]]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    curve = [[0, 0, 0.1], [480, 900, 0.3], [960, 1900, 0.5]]
    assert evidence.learning(tmp_path, "validation", "maze") == {"tokens": 1900, "curve": curve}


def test_rows_of_older_code_are_stale():
    old, own = dict(row("bc", 0, 0, 0, 0)), {"panels": {"maze": {}}, "commit": "c0ffee5eed"}
    present = row("bc", 1, 0, 0, 0) | own | {"code": code(["maze"])}
    other = row("bc", 2, 0, 0, 0) | own | {"code": "another"}
    reasons = [why(one) for one in (old, present, other)]
    assert reasons == [
        "made before rows carried a code digest", None, "made by other code (commit c0ffee5)",
    ]  # fmt: skip
    text = pages.page(ALGORITHMS, ALGORITHMS.page.read_text(), [old, present, other])
    assert "\n\n1 of 3 rows are stale: made before rows carried a code digest.\n1 of 3 rows are stale: made by" in text
    assert "stale" not in "\n".join(told([present]))


def test_only_the_stale_rows_that_are_asked_for_are_run_again(tmp_path, monkeypatch):
    def of(seed, **more):
        return {"arm": "bc", "seed": seed, "settings": evidence.settings(composed_of(seed)), **more}

    @cache
    def composed_of(seed):
        return evidence.composed(ALGORITHMS, "bc", seed, tmp_path)

    envs = composed_of(0).envs
    fresh = {"panels": {env: {} for env in envs}, "commit": "c0ffee", "code": code(envs)}
    monkeypatch.setattr(evidence, "results", lambda study: [of(0), of(1, **fresh)])

    def missing(seeds, renew):
        return [seed for _, seed, _ in evidence.missing(ALGORITHMS, seeds, ["bc"], tmp_path, renew)]

    assert missing([0, 1, 2], renew=False) == [2]
    assert missing([0, 1], renew=True) == [0]
    assert missing([1], renew=True) == []
    assert composed_of(0).run.dir == f"{tmp_path}/{code(envs)}/evidence-bc-seed0", "older runs are not found again"


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_pages_and_raw_results_in_the_repository_are_of_its_settings(name):
    study = STUDIES[name]
    rows, text = evidence.results(study), study.page.read_text()
    assert pages.page(study, text, rows) == text, f"python benchmarks/evidence.py {name} --page renews it"
    assert not rows or all((DOCS / "images" / f"{picture}.png").is_file() for picture in study.curves)
    for row in rows:
        if row["seed"] == 0:
            assert row["settings"] == evidence.settings(composed(name, row["arm"]))
