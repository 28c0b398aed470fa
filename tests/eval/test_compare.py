"""Success, paired differences and rates, against numbers worked out by hand."""

import csv
from io import StringIO
from statistics import mean

import pytest
from made_runs import write_run
from rich.console import Console

from agentgym_rl.eval.comparison.compare import compare
from agentgym_rl.eval.comparison.runs import read
from agentgym_rl.eval.comparison.tables import tables, write_csv
from agentgym_rl.eval.intervals import wilson


def runs(tmp_path, algorithm, *rows, **more):
    """A run a seed, with (bc, algorithm, control) each."""
    return [
        read(
            write_run(
                tmp_path / f"{algorithm}{seed}", algorithm=algorithm, seed=seed,
                stages=dict(zip(("bc", algorithm, "control"), row, strict=False)), **more,
            )
        )
        for seed, row in enumerate(rows)
    ]  # fmt: skip


def text(comparison):
    console = Console(width=250, file=StringIO())
    for table in tables(comparison):
        console.print(table)
    return console.file.getvalue()


def arm(comparison, label):
    return [one.label for one in comparison.arms].index(label)


def test_means_and_intervals_over_seeds(tmp_path):
    found = compare(runs(tmp_path, "grpo", (0.1, 0.3), (0.2, 0.4), (0.3, 0.8)))
    cell = found.success[arm(found, "grpo")][0]
    # 0.3, 0.4, 0.8: mean 0.5, sd 0.264575, 4.3027 * sd / sqrt(3) = 0.657242; a success rate lies in [0, 1]
    assert (cell.mean, cell.over, cell.by_seed) == (pytest.approx(0.5), "seeds", {0: 0.3, 1: 0.4, 2: 0.8})
    assert cell.interval == (0.0, 1.0)
    cell = found.success[arm(found, "bc")][0]
    assert cell.interval == (0.0, pytest.approx(0.2 + 4.302653 * 0.1 / 3**0.5, abs=1e-6))


def test_a_single_seed_has_the_interval_over_the_tasks_of_its_panel(tmp_path):
    found = compare(runs(tmp_path, "grpo", (0.1, 0.3)))
    cell = found.success[arm(found, "grpo")][0]
    assert (cell.over, cell.interval) == ("tasks", pytest.approx(wilson(30, 100)))
    assert found.differences[0].cells[0].interval is None
    shown = text(found)
    assert "30.0 [22, 40]†" in shown and "† one seed" in shown and "+20.0 " in shown


def test_a_panel_without_an_episode_that_counts_has_no_success(tmp_path):
    """A mean over seeds says over how many it is; a bound that is not known is a dash."""
    known = runs(tmp_path, "grpo", (0.1, 0.3), (0.2, 0.4), bounds={"random": 0.0})
    empty = {"success": None, "ci95": None, "n": 0, "tasks": 0, "reward": None, "turns": None, "error_rate": 1.0}
    known[1].stages["grpo"]["panels"]["new"]["toy"]["sampled"] = empty
    for run in known:
        run.reference["random"]["new"]["toy"] = empty
    found = compare(known)
    cell = found.success[arm(found, "grpo")][0]
    assert (cell.mean, cell.by_seed, cell.over) == (0.3, {0: 0.3}, "tasks")
    assert found.bounds == {"random": (None,)}
    assert "30.0 [22, 40]† 1 of 2 seeds" in text(found)
    assert [one.cells[0].by_seed for one in found.differences] == [{0: pytest.approx(0.2)}]


def test_several_runs_of_a_seed_have_the_mean_of_their_intervals(tmp_path):
    both = runs(tmp_path / "a", "grpo", (0.2, 0.3)) + runs(tmp_path / "b", "ppo", (0.4, 0.5))
    cell = compare(both).success[0][0]
    bounds = [(one + other) / 2 for one, other in zip(wilson(20, 100), wilson(40, 100), strict=True)]
    assert (cell.mean, cell.interval) == (pytest.approx(0.3), pytest.approx(tuple(bounds)))


def test_differences_are_paired_within_a_run(tmp_path):
    found = compare(runs(tmp_path, "grpo", (0.1, 0.3, 0.2), (0.2, 0.3, 0.25), (0.3, 0.6, 0.3)))
    over = {(one.arm, one.baseline): one.cells[0] for one in found.differences}
    assert list(over) == [("grpo", "bc"), ("grpo", "control"), ("control", "bc")]
    # 0.2, 0.1, 0.3: mean 0.2, sd 0.1
    cell = over["grpo", "bc"]
    assert cell.mean == pytest.approx(0.2) and cell.p == 0.25
    assert cell.interval == pytest.approx((0.2 - 0.248414, 0.2 + 0.248414), abs=1e-6)
    # 0.1, 0.05, 0.3
    assert over["grpo", "control"].mean == pytest.approx(0.15)
    assert "+20.0 [-5, +45] p 0.25" in text(found)


def test_another_arm_as_baseline_is_paired_by_seed(tmp_path):
    both = runs(tmp_path, "grpo", (0.1, 0.3), (0.1, 0.5)) + runs(tmp_path, "ppo", (0.1, 0.2), (0.1, 0.3), (0.1, 0.9))
    found = compare(both, baseline="ppo")
    over = {(one.arm, one.baseline): one.cells[0] for one in found.differences}
    assert set(over) == {("bc", "ppo"), ("grpo", "ppo")}
    assert over["grpo", "ppo"].by_seed == {0: pytest.approx(0.1), 1: pytest.approx(0.2)}
    assert over["grpo", "ppo"].p == 0.5
    with pytest.raises(ValueError, match="no arm 'pppo'; the arms are: bc; grpo; ppo"):
        compare(both, baseline="pppo")


def test_arms_without_a_common_seed_have_no_difference(tmp_path):
    first = read(write_run(tmp_path / "a", seed=0, stages={"grpo": 0.3}))
    second = read(write_run(tmp_path / "b", algorithm="ppo", seed=1, stages={"ppo": 0.3}))
    found = compare([first, second], baseline="ppo")
    assert found.differences[0].cells == (None,)
    assert "-" in text(found)


def test_runs_that_share_their_cloning_count_each_seed_once(tmp_path):
    found = compare(runs(tmp_path, "grpo", (0.2, 0.3), (0.4, 0.5)) + runs(tmp_path, "ppo", (0.3, 0.4)))
    assert found.success[arm(found, "bc")][0].by_seed == {0: pytest.approx(0.25), 1: pytest.approx(0.4)}


def test_gains_for_what_was_spent(tmp_path):
    found = compare(runs(tmp_path, "grpo", (0.1, 0.3), (0.2, 0.3), episodes=2000, seconds=300.0))
    cost = found.costs[arm(found, "grpo")]
    assert (cost.episodes, cost.minutes) == (2000, 5.0)
    assert cost.per_1000_episodes == (pytest.approx(0.3 / 4),)
    assert cost.per_minute == (pytest.approx(0.3 / 10),)
    assert found.costs[arm(found, "bc")].per_minute == (None,)
    assert "+7.50 | +3.00" in text(found)


def test_several_worlds_have_an_average_in_which_each_counts_once(tmp_path):
    panels = ("a/x", "a/y", "b/x")
    stages = {"grpo": {"a/x": 0.2, "a/y": 0.4, "b/x": 0.8}}
    pair = [read(write_run(tmp_path / f"{seed}", seed=seed, stages=stages, panels=panels)) for seed in (0, 1)]
    found = compare(pair)
    assert [(one.env, one.panel) for one in found.columns] == [
        ("a", "x"),
        ("a", "y"),
        ("b", "x"),
        ("all environments", "average"),
    ]
    assert found.success[0][-1].mean == pytest.approx(mean([0.3, 0.8]))
    assert compare(pair[:1]).success[0][-1].interval is None


def test_a_world_that_a_run_does_not_play_is_left_empty(tmp_path):
    one = read(write_run(tmp_path / "one", stages={"grpo": 0.2}, panels=("a/x",)))
    two = read(write_run(tmp_path / "two", stages={"grpo": 0.4}, panels=("a/x", "b/x")))
    found = compare([one, two])
    assert [cell is None for cell in found.success[0]] == [False, True, True]
    assert [cell is None for cell in found.success[1]] == [False, False, False]


def test_panels_that_weights_were_chosen_by_are_not_reported(tmp_path):
    config = {"envs": {"a": {"panels": {"val": {"role": "validation"}, "x": {"role": "test"}}}}}
    run = read(write_run(tmp_path / "one", stages={"grpo": 0.2}, panels=("a/val", "a/x"), config=config))
    assert [one.panel for one in compare([run]).columns] == ["x"]


def test_random_policy_and_oracle_stand_below_the_arms(tmp_path):
    stages, panels = {"grpo": {"a/x": 0.2, "b/x": 0.4}}, ("a/x", "b/x")
    one = read(write_run(tmp_path / "one", stages=stages, panels=panels, bounds={"random": 0.05, "oracle": 1.0}))
    two = read(write_run(tmp_path / "two", stages=stages, panels=panels, seed=1))
    found = compare([one, two])
    assert found.bounds == {"random": (0.05, 0.05, 0.05), "oracle": (1.0, 1.0, 1.0)}
    assert [line.split() for line in text(found).splitlines() if "│ random" in line] == [
        ["│", "random", "│", "│", "5.0", "│", "5.0", "│", "5.0", "│"]
    ]
    assert compare([two]).bounds == {}
    rows = list(csv.DictReader(write_csv(found, tmp_path / "a.csv").open()))
    assert [(row["arm"], row["mean"]) for row in rows if row["kind"] == "reference"] == [
        *[("random", "0.05")] * 3, *[("oracle", "1.0")] * 3,
    ]  # fmt: skip


def test_only_differences_whose_interval_excludes_0_are_bold(tmp_path):
    clear = compare(runs(tmp_path, "grpo", (0.1, 0.5), (0.2, 0.61), (0.15, 0.56)))
    unclear = compare(runs(tmp_path, "ppo", (0.1, 0.2), (0.2, 0.1), (0.15, 0.6)))
    alone = compare(runs(tmp_path, "rloo", (0.1, 0.9)))
    shown = [[cell.clear for one in found.differences for cell in one.cells] for found in (clear, unclear, alone)]
    assert [any(of) for of in shown] == [True, False, False]
    bold = [any(span.style == "bold" for span in _spans(found)) for found in (clear, unclear, alone)]
    assert bold == [True, False, False]
    assert "One seed says nothing" in text(alone) and "One seed says nothing" not in text(clear)


def _spans(found):
    """The cells of the second table."""
    table = tables(found)[1].renderables[1]
    return [cell for column in table.columns for cell in column.cells if not isinstance(cell, str)]


def test_decoding(tmp_path):
    found = compare(runs(tmp_path, "grpo", (0.1, 0.3)), decoding="greedy")
    assert found.success[arm(found, "grpo")][0].mean == pytest.approx(0.4)
    with pytest.raises(ValueError, match="decoding 'beam' is unknown; choose sampled or greedy"):
        compare(found.runs, decoding="beam")


def test_csv_holds_all_numbers(tmp_path):
    found = compare(runs(tmp_path, "grpo", (0.1, 0.3), (0.2, 0.3), episodes=2000, seconds=300.0))
    rows = list(csv.DictReader(write_csv(found, tmp_path / "out" / "a.csv").open()))
    assert [(row["kind"], row["arm"], row["baseline"]) for row in rows] == [
        ("success", "bc", ""), ("success", "grpo", ""), ("difference", "grpo", "bc"),
    ]  # fmt: skip
    assert float(rows[1]["mean"]) == 0.3 and rows[1]["seeds"] == "0 1" and rows[1]["by_seed"] == "0.3 0.3"
    assert (float(rows[1]["episodes"]), float(rows[1]["minutes"])) == (2000, 5)
    assert float(rows[1]["per_1000_episodes"]) == pytest.approx(0.075)
    assert float(rows[2]["mean"]) == pytest.approx(0.15) and float(rows[2]["p"]) == 0.5
    assert float(rows[2]["low"]) == pytest.approx(0.15 - 12.7062 * 0.05, abs=1e-4)  # sd of 0.2 and 0.1 over sqrt(2)


def test_labels_with_brackets_reach_the_terminal(tmp_path):
    pair = [
        read(write_run(tmp_path / name, stages={"grpo": 0.2}, config={"envs": {"toy": {"difficulty": [name]}}}))
        for name in ("bold", "easy")
    ]
    assert 'difficulty=["bold"]' in text(compare(pair))
