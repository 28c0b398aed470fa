"""The pages of benchmarks/evidence.py, from made-up results."""

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

pytest.importorskip("verl")

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import evidence  # noqa: E402
import evidence_page as pages  # noqa: E402
from claims import DESIGNS, designed, on_page  # noqa: E402
from power import power  # noqa: E402
from staleness import remarks, why  # noqa: E402
from studies import ALGORITHMS, ALONE, HORIZONS, SINGLE, STUDIES  # noqa: E402
from sweep import some  # noqa: E402

from agentgym_rl.data.files import write_jsonl  # noqa: E402
from agentgym_rl.engine.recipe.digest import code  # noqa: E402
from agentgym_rl.engine.recipe.resolved import Resolved  # noqa: E402
from agentgym_rl.eval.by_seed import value  # noqa: E402


def row(arm, seed, textcraft, babyai, maze, control=None):
    def envs(numbers):
        return {env: [number, 100] for env, number in zip(ALGORITHMS.columns, numbers, strict=True)}

    return {
        "arm": arm, "seed": seed, "success": envs((textcraft, babyai, maze)), "episodes": 960, "minutes": 2.0,
        "control": None if control is None else envs((control,) * 3),
    }  # fmt: skip


ENVS = list(ALGORITHMS.columns)
CURRENT = {"panels": {env: {} for env in ENVS}, "commit": "c0ffee", "code": code(ENVS)}
"""What a row has that the present code made."""

ROWS = [
    row("bc", 0, 0.1, 0.4, 0.7),
    row("bc", 1, 0.2, 0.4, 0.9),
    row("evol", 0, 0.3, 0.5, 0.7, control=0.4),
    row("evol", 1, 0.4, 0.5, 0.9, control=0.6),
    row("evol_textcraft", 0, 0.2, 0.0, 0.0),
    row("evol_babyai", 0, 0.0, 0.6, 0.0),
    row("evol_maze", 0, 0.0, 0.0, 0.7),
]


def every(rows, name="algorithms"):
    return {study: rows if study == name else [] for study in STUDIES}


def percents(found):
    return {seed: pytest.approx(100 * value(panels)) for seed, panels in found.items()}


def test_success_by_seed():
    def average(side):
        return percents(pages.seeds_of(ALGORITHMS, ROWS, side, list(ALGORITHMS.columns)))

    assert percents(pages.seeds_of(ALGORITHMS, ROWS, "bc", ["textcraft"])) == {0: 10.0, 1: 20.0}
    assert average("bc") == {0: 40.0, 1: 50.0}
    assert average("evol/control") == {0: 40.0, 1: 60.0}
    assert average("bc/control") == {}
    # alone: each environment from its own arm, on the seeds that have all three
    assert average(SINGLE) == {0: 50.0}


def test_cells_have_the_interval_over_seeds_and_tasks():
    def found(*success, by_task=None):
        panels = [pages._panel([score, 200, *([] if by_task is None else [by_task])], 2, 1.0) for score in success]
        return {seed: (panel,) for seed, panel in enumerate(panels)}

    # seeds alike, 100 tasks of which it is not known which succeed: 1.96 * sqrt(0.25 / 100)
    assert pages.cell(found(0.5, 0.5)) == "50.0 ±9.8"
    # all tasks alike: 3.84 / (100 + 3.84), as Wilson has it
    assert pages.cell(found(0.5, 0.5, by_task=[0.5] * 100)) == "50.0 ±3.7"
    assert pages.cell(found(0.1), signed=True) == "+10.0" and pages.cell({}) == ""


def test_only_claims_of_the_design_get_a_verdict_and_are_corrected_together():
    same = (0.9, 0.9, 0.9)
    seeds = [
        claim | CURRENT
        for seed in DESIGNS["algorithms"].seeds
        for claim in (
            row("evol", seed, *same, control=0.2),
            row("bc", seed, 0.1, 0.1, 0.1),
            row("grpo", seed, *same, control=0.9),
        )
    ]
    found = {claim: said for (_, claim), said in pages.verdicts(ALGORITHMS, every(seeds)).items()}
    assert {claim: str(said) for claim, said in found.items()} == {
        "AgentEvol > its control": "holds", "grpo > GRPO's control": "not shown", "AgentEvol > GRPO": "not shown",
    }  # fmt: skip
    aged = [{**claim, "code": "before"} if (claim["arm"], claim["seed"]) == ("grpo", 20) else claim for claim in seeds]
    older = {claim: str(said) for (_, claim), said in pages.verdicts(ALGORITHMS, every(aged)).items()}
    assert older == {
        "AgentEvol > its control": "holds", "grpo > GRPO's control": "not shown, by older code",
        "AgentEvol > GRPO": "not shown, by older code",
    }  # fmt: skip
    text = pages.page(ALGORITHMS.page, ALGORITHMS.page.read_text(), every(seeds))
    assert re.search(r"\|AgentEvol > its control\|.*\|<0.001\|holds\|", text)
    assert re.search(r"\|AgentEvol > BC\|.*\|\|exploratory\|", text)
    first = {claim: str(said) for (_, claim), said in pages.verdicts(ALGORITHMS, every(seeds[:-3])).items()}
    assert set(first.values()) == {"too few seeds of the design"}, "to look earlier would be another test"
    before = [{**claim, "seed": claim["seed"] - 20} for claim in seeds]
    known = {str(said) for said in pages.verdicts(ALGORITHMS, every(before)).values()}
    assert known == {"too few seeds of the design"}, "the claim was written after these rows"


def test_claims_of_two_studies_on_one_page_are_corrected_together():
    names = [name for name, _ in on_page(STUDIES["pretrained_curriculum"])]
    assert names == ["pretrained"] * 3 + ["pretrained_curriculum"]
    rows = {name: evidence.results(study) for name, study in STUDIES.items()}
    plain, curriculum = (pages.verdicts(STUDIES[name], rows) for name in ("pretrained", "pretrained_curriculum"))
    assert plain == curriculum


def test_the_page_keeps_what_stands_around_its_tables():
    text = ALGORITHMS.page.read_text().replace("## Orderings", "## Orderings\n\nReasons.")
    renewed = pages.page(ALGORITHMS.page, text, every(ROWS))
    assert "Reasons." in renewed
    assert "|evol|2|35.0 ±63.5|50.0 ±9.8|" in renewed
    # +20, +10, 0 on both seeds; 100 tasks, of which either side may have solved others: 1.96 * sqrt(0.35 / 100)
    assert "|AgentEvol > BC|+20.0 ±11.6|+10.0 ±13.7|+0.0 ±10.7|" in renewed
    assert pages.page(ALGORITHMS.page, renewed, every(ROWS)) == renewed
    with pytest.raises(ValueError, match="no block '<!-- table arms -->'"):
        pages.page(ALGORITHMS.page, "nothing here", every(ROWS))


def test_all_claims_are_listed_with_their_verdicts():
    halves = DESIGNS["algorithms"].seeds[::2]
    own = [{**row, **CURRENT, "seed": seed + row["seed"]} for seed in halves for row in ROWS]
    *listed, _, count = pages.claims_table(every(own))
    assert "| algorithms | AgentEvol > its control | +5.0 ±8.5 | 0.740 | not shown |" in listed
    number = sum(len(design.claims) for design in DESIGNS.values())
    assert len(listed) == 2 + number and count.startswith(f"Of {number} claims: {number - 1} *too few seeds")
    *_, count = pages.claims_table(every(ROWS))
    assert count == f"Of {number} claims: {number} *too few seeds of the design*.", "none of its seeds was tried"


def test_arms_of_two_engines_are_not_compared():
    other = [{**row, "engine": "one_gpu"} if row["arm"] == "evol" and row["seed"] == 1 else row for row in ROWS]
    claim = next(ordering for ordering in ALGORITHMS.orderings["evolution"] if ordering.claim == "AgentEvol > BC")
    assert list(pages.differences(ALGORITHMS, other, claim, list(ALGORITHMS.columns))) == [0]


def test_rows_of_the_design_stand_alone():
    design = DESIGNS["algorithms"]
    own = [row("bc", seed, 0.1, 0.1, 0.1) for seed in design.seeds]
    assert design.reported([*ROWS, *own[:3]]) == own[:3] and design.reported(ROWS) == ROWS
    assert design.older([*ROWS, *own]) == ROWS
    with_tasks = [{**row, "success": {env: [0.1, 2, [0.0, 0.2]] for env in ALGORITHMS.columns}} for row in own]
    assert not any("design" in line or "tasks" in line for line in pages.notes("algorithms", with_tasks))
    assert "3 of the design's 8 seeds." in pages.notes("algorithms", own[:3])
    assert any("older than the design" in line for line in pages.notes("algorithms", ROWS))
    later = [{**row, "seed": row["seed"] + 40} for row in ROWS]
    assert "They are not of the design, with other seeds than its 8." in pages.notes("algorithms", later)


def test_panels_of_the_design_are_those_of_its_seeds_alone():
    ours, older = (evidence.composed(STUDIES["pretrained"], "bc", seed, Path("a")) for seed in (20, 0))
    assert [config.envs["textcraft"].panels["unseen_goals"].samples for config in (ours, older)] == [6, 2]
    design = DESIGNS["pretrained"]
    assert design.size(STUDIES["pretrained"], "unseen_goals", 200) == (100, 6)
    assert design.size(STUDIES["pretrained"], "new_mazes", 40) == (20, 2)


def test_a_study_whose_settings_some_seeds_chose_begins_after_them():
    block = {"seeds": 2, "claims": []}
    assert designed("distillation", 20, block).seeds == range(20, 22)
    assert designed("distillation", 20, {**block, "first_seed": 22}).seeds == range(22, 24)


def simulated(name, claim, draws):
    design = DESIGNS[name]
    rows = DESIGNS[design.rows].older(evidence.results(STUDIES[design.rows]))
    return power(STUDIES[name], design, claim, rows, len(design.seeds), draws)


def test_the_power_of_a_claim_is_what_its_design_says():
    (claim,) = DESIGNS["pretrained_curriculum"].claims
    assert simulated("pretrained_curriculum", claim, draws=200) == pytest.approx(claim.power, abs=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_designs_have_power(name):
    assert len(DESIGNS[name].claims) <= 3
    for claim in DESIGNS[name].claims:
        assert claim.power >= 0.8 or DESIGNS[name].own(evidence.results(STUDIES[name])), "such a design does not run"
        assert simulated(name, claim, draws=400) == pytest.approx(claim.power, abs=0.03)


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
@pytest.mark.parametrize("name", STUDIES)
def test_every_arm_of_a_study_composes_with_its_panels(name):
    for arm in STUDIES[name].arms:
        evidence.composed(STUDIES[name], arm, DESIGNS[name].seeds[0], Path("a"))


@pytest.mark.slow
def test_every_arm_without_a_piece_plays_as_many_episodes_and_lacks_that_piece_alone():
    arms = [arm for arm in STUDIES["pieces"].arms if arm != "bc"]
    assert {episodes_of("pieces", arm) for arm in arms} == {960}
    whole = {"algorithm": composed("pieces", "whole").algorithm, "mixture": composed("pieces", "whole").mixture}
    for arm in set(arms) - {"whole"}:
        config = composed("pieces", arm)
        changed = [
            name for name in vars(whole["algorithm"])
            if getattr(config.algorithm, name) != getattr(whole["algorithm"], name)
        ]  # fmt: skip
        assert len(changed) + (config.mixture != whole["mixture"]) == 1, arm


@pytest.mark.slow
def test_every_credit_for_steps_has_as_many_episodes_and_updates():
    arms = [arm for arm in STUDIES["credit"].arms if arm != "bc"]
    assert {episodes_of("credit", arm) for arm in arms} == {960}
    configs = [composed("credit", arm) for arm in arms]
    algorithms = [config.algorithm for config in configs]
    assert len({(own.tasks_per_step, own.mini_batch_tasks, own.epochs, own.lr) for own in algorithms}) == 1
    assert {frozenset(Resolved(config).mixture.shares) for config in configs} == {frozenset({"textcraft", "maze"})}


def test_a_plan_says_what_is_left_and_how_long_it_takes(monkeypatch):
    known = [
        {"arm": "bc", "minutes": 2.0, "episodes": 0},
        *({"arm": "grpo", "minutes": minutes, "episodes": 960} for minutes in (3.0, 5.0)),
    ]
    monkeypatch.setattr(evidence, "results", lambda study: known if study is ALGORITHMS else [])
    todo = [(arm, seed, None) for arm in ("grpo", "pace") for seed in range(10)]
    assert list(evidence.plan("credit", todo)) == [
        "grpo: 10 runs of 4.0 min", "pace: 10 runs of 4.0 min as other arms take", "20 runs, about 1.3 hours"
    ]  # fmt: skip
    assert next(evidence.plan("starts", [("exit", 0, None)])) == "exit: 1 runs of 0.0 min: no run is known"


def test_every_horizon_composes_with_the_same_number_of_episodes():
    assert {episodes_of("curriculum", name) for name in HORIZONS} == {1440}


@pytest.mark.slow
def test_every_mixture_composes_with_the_same_number_of_episodes():
    assert {episodes_of("mixture", arm) for arm in STUDIES["mixture"].arms if arm != "bc"} == {960}


@pytest.mark.slow
def test_every_mixture_of_settings_plays_as_many_episodes_and_none_that_is_held_out():
    arms = [arm for arm in STUDIES["frontier"].arms if arm != "bc"]
    assert {episodes_of("frontier", arm) for arm in arms} == {960}
    resolved = [Resolved(composed("frontier", arm)) for arm in arms]
    algorithms = [run.config.algorithm for run in resolved]
    assert all(algorithm == algorithms[0] for algorithm in algorithms)
    for run in resolved:
        trained = {run.whole(env) for env, share in run.mixture.shares.items() if share}
        assert trained == {"maze-rooms", "maze-perfect", "maze-tee"}


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_measures_of_a_run_stand_beside_success(tmp_path):
    """Turns that an episode played and groups without a gradient, by arm and as paired differences over seeds."""
    study = STUDIES["curation"]
    metrics = [{"env/maze-far/turns": turns, "diagnostics/gradient_share": 0.25} for turns in (12.0, 10.0)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in [*metrics, {"step": 3}]))
    assert evidence.measured(study, tmp_path) == {"turns an episode": 11.0, "dead groups, %": 75.0}
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 3}))
    assert evidence.measured(study, tmp_path) == {}
    success = {column: [0.5, 10, [0.5] * 10] for column in study.columns}
    rows = [
        {
            "arm": arm, "seed": seed, "success": success, "control": None, "episodes": 960, "minutes": 1.0,
            "measures": {"turns an episode": turns + seed, "dead groups, %": dead} if arm != "bc" else {},
        }
        for seed in (20, 21)
        for arm, turns, dead in (("bc", 0, 0), ("grpo", 12, 75), ("dart", 8, 20))
    ]  # fmt: skip
    arms = list(pages.arms_table(study, rows))
    assert arms[0] == "| arm | seeds | near | far | average | turns an episode | dead groups, % | episodes | minutes |"
    assert "| 32.5 ±6.4 | 75.0 ±0.0 | 960 | 1.0 |" in arms[3] and "|  |  | 960 | 1.0 |" in arms[2]
    claims = list(pages.orderings_table(study, rows, "curation", {}))
    assert "| DART > GRPO | +0.0 ±27.8 | +0.0 ±27.8 | +0.0 ±19.6 | 0 of 2 | -4.0 ±0.0 | -55.0 ±0.0 |" in claims[2]
    assert "| 0 of 2 |  |  |" in claims[3]
    alone = [row for row in rows if row["arm"] != "dart"]
    assert "dead groups" not in next(pages.orderings_table(study, alone, "curation", {})), "no claim differs in it"


def test_a_measure_can_be_of_some_steps(tmp_path):
    aucs = "".join(f"{json.dumps({'prm/step_auc': auc})}\n" for auc in [0.5, 0.6, 0.7, 0.8, 1.0])
    (tmp_path / "metrics.jsonl").write_text(aucs)
    assert [*evidence.measured(STUDIES["credit"], tmp_path).values()] == pytest.approx([65, 90])


def test_growing_takes_a_round_for_each_of_its_limits():
    limit = Resolved(composed("curriculum", "growing")).curriculum
    assert [limit.max_turns("maze", step) for step in (1, 2, 3)] == [5, 10, 20]


@pytest.mark.slow
def test_results_belong_to_their_settings_wherever_they_were_run():
    def of(arm, folder="b", seed=0):
        return evidence.settings(evidence.composed(ALGORITHMS, arm, seed, Path(folder)))

    assert of("grpo") == evidence.settings(composed("algorithms", "grpo"))
    assert len({of("grpo"), of("rloo"), of("grpo", seed=1)}) == 3


def test_weights_evaluated_again_are_one_point_of_the_curve(tmp_path):
    found = [(0, 0, 0.1), (480, 900, 0.3), (960, 1900, 0.4), (960, 1900, 0.5)]
    rows = [
        {
            "run/episodes": episodes, "run/tokens": tokens, "val/validation/maze/success": success,
            "run/stage_updates": tokens // 100, "run/stage_training_s": 90.0 * number,
        }
        for number, (episodes, tokens, success) in enumerate(found)
    ]  # fmt: skip
    control = {**rows[-1], "val/validation/maze/success": 0.2, "run/stage_training_s": 900.0, "stage/control": 1}
    lines = [*rows[:2], {"run/episodes": 700, "run/tokens": 1500}, *rows[2:], control]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    curve = [[0, 0, 0.1], [480, 900, 0.3], [960, 1900, 0.5]]
    spent = [[0, 0.0], [9, 1.5], [19, 4.5]]
    assert evidence.learning(tmp_path, "validation", "maze") == {"tokens": 1900, "curve": curve, "curve_spent": spent}


def test_rows_of_older_code_are_stale():
    old, own = dict(row("bc", 0, 0, 0, 0)), {"panels": {"maze": {}}, "commit": "c0ffee5eed"}
    present = row("bc", 1, 0, 0, 0) | own | {"code": code(["maze"])}
    other = row("bc", 2, 0, 0, 0) | own | {"code": "another"}
    reasons = [why(row) for row in (old, present, other)]
    assert reasons == [
        "made before rows carried a code digest", None, "made by other code (commit c0ffee5)",
    ]  # fmt: skip
    text = pages.page(ALGORITHMS.page, ALGORITHMS.page.read_text(), every([old, present, other]))
    assert "\n\n1 of 3 rows are stale: made before rows carried a code digest.\n1 of 3 rows are stale: made by" in text
    assert "stale" not in "\n".join(remarks([present]))


def test_rows_that_the_present_code_makes_alike_are_confirmed(tmp_path, monkeypatch):
    """With those of their arm and code; another arm's, and other numbers, are not."""
    present = code(["maze"])

    def made(arm, seed, by, success=0.5, **more):
        own = {"panels": {"maze": {}}, "commit": "c0ffee5eed", "code": by, "minutes": 1.0, "episodes": 9}
        return {"arm": arm, "seed": seed, "success": {"maze": [success, 2, [0, 1]]}, "control": None, **own, **more}

    rows = [
        made("bc", 20, "b"),
        made("bc", 21, "b"),
        made("grpo", 20, "b", tokens=8),
        made("bc", 22, "a"),
        made("bc", 23, "b"),
        made("bc", 24, "b", engine="one_gpu"),
    ]
    study = replace(ALGORITHMS, raw=tmp_path / "rows.json")
    monkeypatch.setattr(evidence, "composed", lambda *_: None)

    def todo(seeds=range(20, 25), engine=None):
        return [(arm, seed) for arm, seed, _ in evidence.unconfirmed(study, seeds, ["bc", "grpo"], tmp_path, engine)]

    evidence.write(study, rows[:1] + rows[2:3])
    assert todo() == [("bc", 20), ("grpo", 20)], "cloning is first: the other begins with its weights"
    evidence.write(study, rows)
    assert todo() == [("bc", 20), ("grpo", 20), ("bc", 22)] and todo([21]) == [("bc", 21)]
    assert todo(engine="one_gpu") == [("bc", 24)], "another engine gives other numbers"
    assert evidence.confirm(study, made("bc", 20, present, success=0.6), tmp_path) == ["success"]
    assert evidence.confirm(study, made("grpo", 20, present, tokens=9), tmp_path) == ["tokens"]
    assert evidence.confirm(study, {**made("grpo", 20, present), "tokens": None}, tmp_path) == ["tokens"]
    assert evidence.results(study) == sorted(rows, key=lambda row: row["seed"]), "nothing is confirmed"
    assert evidence.confirm(study, made("bc", 21, present, minutes=2.0, tokens=9), tmp_path) == [], (
        "what is new is not compared"
    )
    known = {(row["arm"], row["seed"]): row for row in evidence.results(study)}
    assert known["bc", 21]["minutes"] == 2.0 and [seed for (_, seed), row in known.items() if why(row)] == [20, 22, 24]
    assert list(remarks(evidence.results(study))) == [
        "3 of 6 rows are stale: made by other code (c0ffee5).",
        "2 of 6 rows are of older code; the present one gave another seed of their arms the same numbers, to the bit.",
    ]
    monkeypatch.setattr("staleness.present", lambda envs: "later")
    assert todo() == [("bc", 20), ("grpo", 20), ("bc", 22)], "rows of two codes with the same numbers are as one"


def test_a_study_that_is_not_confirmed_fails(tmp_path, monkeypatch):
    """The numbers of the row that was made again are nowhere, and the message says how to have them all anew."""
    rows = [{**row("bc", 20, 0.5, 0.5, 0.5), "panels": {"maze": {}}, "commit": "c0ffee5", "code": "older"}]
    study = replace(ALGORITHMS, raw=tmp_path / "rows.json", page=tmp_path / "page.md")
    study.page.write_text(ALGORITHMS.page.read_text())
    evidence.write(study, rows)
    monkeypatch.setitem(STUDIES, "algorithms", study)
    for module in (evidence, pages):
        monkeypatch.setattr(module, "OVERVIEW", study.page)
    monkeypatch.setattr(evidence, "composed", lambda *_: None)
    monkeypatch.setattr(evidence, "run", lambda *_: iter([{**rows[0], "episodes": 9, "code": code(["maze"])}]))
    monkeypatch.setattr(sys, "argv", ["evidence.py", "algorithms", "--confirm"])
    shown = StringIO()
    monkeypatch.setattr(sys, "stdout", shown)
    with pytest.raises(SystemExit) as ended:
        evidence.main()
    assert ended.value.code == 1 and "bc, seed 20: episodes differ; --renew --arms bc" in shown.getvalue()
    assert evidence.results(study) == rows


def test_a_confirmation_is_of_one_engine(tmp_path, monkeypatch, capsys):
    """Rows of another one would be passed over in silence."""
    study = replace(STUDIES["pretrained"], raw=tmp_path / "rows.json")
    evidence.write(study, [{**row("bc", 20, 0.5, 0.5, 0.5), "engine": "one_gpu"}])
    monkeypatch.setitem(STUDIES, "pretrained", study)
    monkeypatch.setattr(sys, "argv", ["evidence.py", "pretrained", "--confirm"])
    with pytest.raises(SystemExit, match=r"^2$"):
        evidence.main()
    assert "bc, seed 20 was made with --engine one_gpu" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["evidence.py", "pretrained", "--stale"])
    evidence.main()
    assert capsys.readouterr().out == "bc, seed 20: made before rows carried a code digest\n"


def test_a_run_that_is_asked_for_twice_is_made_once(tmp_path, monkeypatch):
    study = replace(ALGORITHMS, raw=tmp_path / "rows.json")
    monkeypatch.setattr(evidence, "composed", lambda *_: None)
    monkeypatch.setattr(evidence, "settings", lambda _: "new")
    found = evidence.missing(study, [20, 21, 20], ["bc", "bc"], tmp_path, renew=False)
    assert [(arm, seed) for arm, seed, _ in found] == [("bc", 20), ("bc", 21)]


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_arms_train_the_controls_that_claims_compare_with(name):
    orderings = [ordering for table in STUDIES[name].orderings.values() for ordering in table]
    sides = [side for ordering in orderings for side in (ordering.better, ordering.worse)]
    for arm in {side.removesuffix("/control") for side in sides if isinstance(side, str) and side.endswith("/control")}:
        assert composed(name, arm).run.control


@pytest.mark.slow
def test_an_engine_of_the_command_line_changes_no_settings_and_is_told(tmp_path):
    study = STUDIES["pretrained"]
    ours, gpu = (evidence.composed(study, "bc", 20, tmp_path, engine) for engine in (None, "one_gpu"))
    assert (ours.engine.device, gpu.engine.device) == ("cpu", "cuda")
    place = tmp_path / "run"
    panels = {
        label: {env: {"sampled": {"success": 1.0, "n": 1, "by_task": {}}}} for label, env in study.columns.values()
    }
    stage = {"name": "bc", "panels": panels, "episodes": 0, "wall_s": 60}
    versions = {"agentgym-rl": "1", "verl": "1", "torch": "1"}
    summary = {"stages": [stage], "algorithm": "bc", "panels": {}, "versions": versions, "code": "c0ffee"}
    place.mkdir()
    (place / "summary.json").write_text(json.dumps(summary))
    played = {"run/episodes": 0, "run/tokens": 0, "run/stage_updates": 0}
    lines = [
        {"stage/bc": 1, "supervised/loss": 0.5},
        {"stage/bc": 2, "supervised/loss": 0.25},
        {"stage/bc": 2, "val/unseen_goals/textcraft/success": 0.5},
        {"stage/control": 1, "supervised/loss": 0.125},
    ]
    write_jsonl(place / "metrics.jsonl", [{**line, **played} for line in lines])
    own = replace(study, raw=tmp_path / "rows.json")
    evidence.record(own, evidence.row_of(own, "bc", 20, evidence.settings(ours), place, "one_gpu"))
    rows = evidence.results(own)
    assert (rows[0]["engine"], rows[0]["cloned"]) == ("one_gpu", 0.25)
    assert "1 of 1 rows were made with engine=one_gpu." in list(pages.notes("pretrained", rows))


def test_a_seed_is_of_one_engine(tmp_path):
    own = replace(STUDIES["pretrained"], raw=tmp_path / "rows.json")
    evidence.write(own, [{"arm": "bc", "seed": 20, "engine": "one_gpu"}])
    evidence.check_engine(own, [20, 21], "one_gpu")
    evidence.check_engine(own, [21], None)
    with pytest.raises(ValueError, match="bc, seed 20 was made with --engine one_gpu: choose the same"):
        evidence.check_engine(own, [20, 21], None)


@pytest.mark.slow
def test_arms_of_a_seed_that_clone_alike_begin_with_the_same_weights(tmp_path, monkeypatch):
    own = replace(ALGORITHMS, raw=tmp_path / "rows.json")
    monkeypatch.setitem(STUDIES, "algorithms", own)

    def begun(arm, cloned, **more):
        config = evidence.composed(own, arm, 20, tmp_path)
        panels = {env: {} for env in config.envs}
        settled = {"settings": evidence.settings(config), "panels": panels, "code": code(panels)}
        return {"arm": arm, "seed": 20, "cloned": cloned, **settled, **more}

    stale = begun("evol", 0.5, code="0" * 12, commit="0" * 12)
    evidence.write(own, [begun("bc", 0.25), stale, begun("rloo", 0.5, settings="older")])
    known = evidence.results(own)
    evidence.check_clone(own, begun("grpo", 0.25), known, tmp_path)
    evidence.check_clone(own, begun("bc_large", 0.5), known, tmp_path)  # of more demonstrations
    evidence.check_clone(own, begun("grpo", 0.5, seed=21), known, tmp_path)
    for engine in ({}, {"engine": "one_gpu"}):
        with pytest.raises(
            evidence.OtherClone, match=r"seed 20: grpo began with other cloned weights than bc.*rows\.json"
        ):
            evidence.check_clone(own, begun("grpo", 0.25 + 1e-9, **engine), [begun("bc", 0.25, **engine)], tmp_path)
    older = {"code": "older", "commit": "c0ffee5"}
    evidence.write(own, [begun("bc", 0.25, **older), begun("grpo", 0.5), begun("bc", 0.25, seed=21, **older)])
    known = evidence.results(own)
    with pytest.raises(evidence.OtherClone, match="seed 20: bc began with other cloned weights than grpo"):
        evidence.confirm(own, begun("bc", 0.25, seed=21), tmp_path)  # that of seed 20 was stale when grpo came
    assert evidence.results(own) == known


def test_seeds_side_by_side_lose_no_row(tmp_path):
    own = replace(STUDIES["pretrained"], raw=tmp_path / "rows.json")

    def finished(seed):
        with evidence.in_turn(own):
            evidence.record(own, {"arm": "bc", "seed": seed})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(finished, range(40)))
    assert [row["seed"] for row in evidence.results(own)] == list(range(40))


@pytest.mark.slow
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


def test_numbers_with_an_interval_are_those_of_the_tables():
    """In README and on the studies' pages, whose tables are written from the raw results."""
    block, number = re.compile(r"<!-- table .*?<!-- end -->", re.DOTALL), r"(\d+\.\d)(?: points)? \(?±(\d+\.\d)"
    texts = {page: page.read_text() for page in {study.page for study in STUDIES.values()}}
    known = {found for text in texts.values() for table in block.findall(text) for found in re.findall(number, table)}
    texts[ROOT / "README.md"] = (ROOT / "README.md").read_text()
    said = {(page.name, found) for page, text in texts.items() for found in re.findall(number, block.sub("", text))}
    assert len(said) > 10
    assert {(page, found) for page, found in said if found not in known} == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_pages_and_raw_results_in_the_repository_are_of_its_settings(name):
    study = STUDIES[name]
    rows, text = evidence.results(study), study.page.read_text()
    known = {key: evidence.results(own) for key, own in STUDIES.items()}
    assert pages.page(study.page, text, known) == text, f"python benchmarks/evidence.py {name} --page renews it"
    drawn = any(len(row["curve"]) > 1 for row in DESIGNS[name].reported(rows) if study.curves and "curve" in row)
    assert [f"images/{picture}.png" in text for picture in study.curves] == [drawn] * len(study.curves)
    for row in some(rows):
        config = evidence.composed(study, row["arm"], row["seed"], Path("a"))
        if not (config.run.control and row["control"] is None):  # a control that came later
            assert row["settings"] == evidence.settings(config), (row["arm"], row["seed"])


@pytest.mark.slow
def test_an_arm_begins_with_the_weights_of_another(tmp_path, monkeypatch):
    """They are made once, and where they lie is no part of its settings."""
    study, made = STUDIES["early_experience"], []
    monkeypatch.setattr(evidence, "train", lambda run, console, session: Path(run.config.run.dir))
    monkeypatch.setattr(evidence, "find", lambda place: place)
    monkeypatch.setattr(evidence, "export", lambda place, out: (made.append((place, out)), out.mkdir(parents=True)))
    for arm in ("grpo", "early_grpo", "early_grpo"):
        evidence.begin(study, arm, 20, tmp_path, None, None)
    before = evidence.composed(study, "early", 20, tmp_path).run.dir
    assert made == [(before, Path(f"{before}-weights"))]
    ours, others = (evidence.composed(study, "early_grpo", 20, place) for place in (tmp_path, Path("b")))
    assert ours.model.path == f"{before}-weights" != others.model.path
    assert evidence.settings(ours) == evidence.settings(others)


@pytest.mark.slow
def test_hindsight_has_as_many_episodes_and_at_most_the_updates_of_its_control():
    arms = ("evol", "evol_long", "hindsight")
    assert {episodes_of("hindsight", arm) for arm in arms} == {960}
    once, twice, ours = (composed("hindsight", arm).algorithm for arm in arms)
    assert ours.epochs * (1 + ours.hindsight.share) <= twice.epochs == 2 * once.epochs
    assert (ours.lr, ours.mini_batch_trajectories) == (twice.lr, twice.mini_batch_trajectories)


@pytest.mark.slow
def test_early_experience_makes_as_many_updates_as_cloning():
    bc, early = (composed("early_experience", arm) for arm in ("bc", "early"))
    assert early.cloning.epochs + early.algorithm.epochs == bc.cloning.epochs
    assert early.algorithm.mini_batch_trajectories == bc.cloning.mini_batch_trajectories
    assert episodes_of("early_experience", "grpo") == episodes_of("early_experience", "early_grpo")


@pytest.mark.slow
def test_seeds_of_the_design_are_followed_in_training():
    """Their validation panels change no settings of older rows."""
    followed, older = (evidence.composed(ALGORITHMS, "grpo", seed, Path("a")) for seed in (20, 0))
    assert followed.run.eval_every == 1 and older.run.eval_every == 0
    for name, env in followed.envs.items():
        assert env.panels["validation"].role == "validation" and env.panels["validation"].difficulty == env.difficulty
        assert list(older.envs[name].panels) == ["new_variants"]


@pytest.mark.slow
def test_a_teacher_is_the_run_of_another_arm(tmp_path, monkeypatch):
    """It is trained first, and where it lies is no part of the settings."""
    study, trained = STUDIES["distillation"], []
    monkeypatch.setattr(evidence, "train", lambda run, console, session: trained.append(run.config.run.dir))
    for arm in ("grpo", "distill"):
        evidence.begin(study, arm, 20, tmp_path, None, None)
    ours, others = (evidence.composed(study, "distill", 20, place) for place in (tmp_path, Path("b")))
    assert trained == [evidence.composed(study, "teacher", 20, tmp_path).run.dir] == [ours.algorithm.teacher]
    assert ours.algorithm.teacher != others.algorithm.teacher
    assert evidence.settings(ours) == evidence.settings(others)
    assert len({episodes_of("distillation", arm) for arm in ("grpo", "distill", "own_plan")}) == 1


def test_a_page_has_success_at_equal_budgets():
    """On the seeds that all arms have; updates and minutes count from the cloned weights on."""
    study = STUDIES["curation"]

    def made(arm, seed, gains, updates, minutes):
        curve = [[480 * place, 1000 * place, gain] for place, gain in enumerate(gains)]
        spent = [[99 if place == 0 else updates * place, 7.0 + minutes * place] for place in range(len(gains))]
        return {"arm": arm, "seed": seed, "curve": curve, "curve_spent": spent}

    rows = [
        made("grpo", 20, [0.2, 0.4, 0.6], 10, 1.0),
        made("grpo", 21, [0.0, 0.2, 0.8], 10, 1.0),
        made("grpo", 22, [1.0, 1.0, 1.0], 10, 1.0),
        *(made("dart", seed, [0.1, 0.3], 30, 0.5) for seed in (20, 21)),
    ]
    assert list(pages.equal_table(study, rows)) == [
        "| arm | at 480 episodes | at 20 updates | at 1,000 tokens | at 0.5 minutes |",
        "|---|---|---|---|---|",
        "| grpo | 30.0 | 70.0 | 30.0 | 10.0 |",
        "| dart | 30.0 | 10.0 | 30.0 | 30.0 |",
    ]
    older = [{key: value for key, value in row.items() if key != "curve_spent"} for row in rows]
    assert list(pages.equal_table(study, older)) == list(pages.equal_table(study, [])) == ["No results yet."]
