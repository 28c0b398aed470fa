"""Success, paired differences and rates, against numbers worked out by hand."""

import csv
from io import StringIO
from statistics import mean

import pytest
from made_runs import write_run
from rich.console import Console

from agentgym_rl.eval.comparison.compare import compare
from agentgym_rl.eval.comparison.forms import Screen, latex, markdown
from agentgym_rl.eval.comparison.rows import write_csv
from agentgym_rl.eval.comparison.runs import read
from agentgym_rl.eval.comparison.table import Table
from agentgym_rl.eval.comparison.tables import remarks, tables
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


def text(comparison, width=250):
    console = Console(width=width, file=StringIO())
    for table in tables(comparison):
        console.print(Screen(table))
    return console.file.getvalue()


def arm(comparison, label):
    return [arm.label for arm in comparison.arms].index(label)


def test_means_and_intervals_over_seeds(tmp_path):
    comparison = compare(runs(tmp_path, "grpo", (0.1, 0.3), (0.2, 0.4), (0.3, 0.8)))
    cell = comparison.success[arm(comparison, "grpo")][0]
    # 0.3, 0.4, 0.8: mean 0.5, sd 0.264575, 4.3027 * sd / sqrt(3) = 0.657242; a success rate lies in [0, 1]
    assert (cell.mean, cell.over, cell.by_seed) == (pytest.approx(0.5), "seeds and tasks", {0: 0.3, 1: 0.4, 2: 0.8})
    assert cell.interval == (0.0, 1.0)
    cell = comparison.success[arm(comparison, "bc")][0]
    assert cell.interval == (0.0, pytest.approx(0.2 + 4.302653 * 0.1 / 3**0.5, abs=1e-6))


def test_a_single_seed_has_the_interval_over_the_tasks_of_its_panel(tmp_path):
    comparison = compare(runs(tmp_path, "grpo", (0.1, 0.3)))
    cell = comparison.success[arm(comparison, "grpo")][0]
    assert (cell.over, cell.interval) == ("tasks", pytest.approx(wilson(30, 100)))
    assert comparison.differences[0].cells[0].interval is None
    shown = text(comparison)
    assert "30.0 [22, 40]†" in shown and "† one seed" in shown and "+20.0 " in shown


def test_a_panel_without_an_episode_that_counts_has_no_success(tmp_path):
    """A mean over seeds says over how many it is; a bound that is not known is a dash."""
    measured = runs(tmp_path, "grpo", (0.1, 0.3), (0.2, 0.4), bounds={"random": 0.0})
    empty = {"success": None, "ci95": None, "n": 0, "tasks": 0, "reward": None, "turns": None, "error_rate": 1.0}
    measured[1].stages["grpo"]["panels"]["new"]["toy"]["sampled"] = empty
    for run in measured:
        run.reference["random"]["new"]["toy"] = empty
    comparison = compare(measured)
    cell = comparison.success[arm(comparison, "grpo")][0]
    assert (cell.mean, cell.by_seed, cell.over) == (0.3, {0: 0.3}, "tasks")
    assert comparison.bounds == {"random": (None,)}
    assert "30.0 [22, 40]† 1 of 2 seeds" in text(comparison)
    assert [difference.cells[0].by_seed for difference in comparison.differences] == [{0: pytest.approx(0.2)}]


def test_several_runs_of_a_seed_have_the_mean_of_their_intervals(tmp_path):
    both = runs(tmp_path / "a", "grpo", (0.2, 0.3)) + runs(tmp_path / "b", "ppo", (0.4, 0.5))
    cell = compare(both).success[0][0]
    bounds = [(bound + other) / 2 for bound, other in zip(wilson(20, 100), wilson(40, 100), strict=True)]
    assert (cell.mean, cell.interval) == (pytest.approx(0.3), pytest.approx(tuple(bounds)))


def test_differences_are_paired_within_a_run(tmp_path):
    comparison = compare(runs(tmp_path, "grpo", (0.1, 0.3, 0.2), (0.2, 0.3, 0.25), (0.3, 0.6, 0.3)))
    over = {(difference.arm, difference.baseline): difference.cells[0] for difference in comparison.differences}
    assert list(over) == [("grpo", "bc"), ("grpo", "control"), ("control", "bc")]
    # 0.2, 0.1, 0.3: mean 0.2, sd 0.1, t = 3.464 on 2 degrees of freedom: p 0.0742, the least of three
    cell = over["grpo", "bc"]
    assert cell.mean == pytest.approx(0.2) and cell.p == pytest.approx(3 * 0.07418, abs=1e-4)
    assert cell.interval == pytest.approx((0.2 - 0.248414, 0.2 + 0.248414), abs=1e-6)
    # 0.1, 0.05, 0.3
    assert over["grpo", "control"].mean == pytest.approx(0.15)
    assert "+20.0 [-5, +45] p 0.22" in text(comparison)


def test_seeds_without_a_control_leave_the_difference_to_the_others(tmp_path):
    whole = runs(tmp_path / "whole", "grpo", (0.1, 0.3, 0.2), (0.2, 0.3, 0.25))
    alone = read(write_run(tmp_path / "alone", seed=2, stages={"bc": 0.3, "grpo": 0.6}))
    comparison = compare([*whole, alone])
    over = {(difference.arm, difference.baseline): difference.cells[0] for difference in comparison.differences}
    assert over["grpo", "control"].by_seed == {0: pytest.approx(0.1), 1: pytest.approx(0.05)}
    (row,) = (line for line in text(comparison).splitlines() if "│ grpo " in line and "│ control " in line)
    assert "2 of 3 seeds" in row


def test_another_arm_as_baseline_is_paired_by_seed(tmp_path):
    both = runs(tmp_path, "grpo", (0.1, 0.3), (0.1, 0.5)) + runs(tmp_path, "ppo", (0.1, 0.2), (0.1, 0.3), (0.1, 0.9))
    comparison = compare(both, baseline="ppo")
    over = {(difference.arm, difference.baseline): difference.cells[0] for difference in comparison.differences}
    assert set(over) == {("bc", "ppo"), ("grpo", "ppo")}
    assert over["grpo", "ppo"].by_seed == {0: pytest.approx(0.1), 1: pytest.approx(0.2)}
    # 0.1, 0.2: t = 3 on 1 degree of freedom, p 0.2048, one of two
    assert over["grpo", "ppo"].p == pytest.approx(2 * 0.20483, abs=1e-4)
    with pytest.raises(ValueError, match="no arm 'pppo'; the arms are: bc; grpo; ppo"):
        compare(both, baseline="pppo")


def test_a_control_as_baseline_is_compared_once(tmp_path):
    both = runs(tmp_path, "grpo", (0.1, 0.3, 0.2), (0.1, 0.5, 0.3))
    once = [("bc", "control"), ("grpo", "control")]
    comparison = compare(both, baseline="control")
    assert [(difference.arm, difference.baseline) for difference in comparison.differences] == once
    first, second = (run.name for run in both)
    pairs = [
        (difference.arm, difference.baseline)
        for difference in compare(both, baseline=f"{first}: control", by="run").differences
        if difference.arm in (first, second)
    ]
    assert pairs == [(first, f"{first}: control"), (second, f"{first}: control"), (second, f"{second}: control")]


def test_arms_without_a_common_seed_have_no_difference(tmp_path):
    first = read(write_run(tmp_path / "a", seed=0, stages={"grpo": 0.3}))
    second = read(write_run(tmp_path / "b", algorithm="ppo", seed=1, stages={"ppo": 0.3}))
    comparison = compare([first, second], baseline="ppo")
    assert comparison.differences[0].cells == (None,)
    assert "-" in text(comparison)


def test_runs_that_share_their_cloning_count_each_seed_once(tmp_path):
    comparison = compare(runs(tmp_path, "grpo", (0.2, 0.3), (0.4, 0.5)) + runs(tmp_path, "ppo", (0.3, 0.4)))
    assert comparison.success[arm(comparison, "bc")][0].by_seed == {0: pytest.approx(0.25), 1: pytest.approx(0.4)}


def test_gains_for_what_was_spent(tmp_path):
    comparison = compare(runs(tmp_path, "grpo", (0.1, 0.3), (0.2, 0.3), episodes=2000, seconds=300.0))
    cost = comparison.costs[arm(comparison, "grpo")]
    assert (cost.episodes, cost.minutes) == (2000, 5.0)
    assert cost.per_1000_episodes == (pytest.approx(0.3 / 4),)
    assert cost.per_minute == (pytest.approx(0.3 / 10),)
    assert comparison.costs[arm(comparison, "bc")].per_minute == (None,)
    assert "+7.50 | +3.00" in text(comparison)


def test_several_worlds_have_an_average_in_which_each_counts_once(tmp_path):
    panels = ("a/x", "a/y", "b/x")
    stages = {"grpo": {"a/x": 0.2, "a/y": 0.4, "b/x": 0.8}}
    pair = [read(write_run(tmp_path / f"{seed}", seed=seed, stages=stages, panels=panels)) for seed in (0, 1)]
    comparison = compare(pair)
    assert [(column.env, column.panel) for column in comparison.columns] == [
        ("a", "x"),
        ("a", "y"),
        ("b", "x"),
        ("all environments", "average"),
    ]
    assert comparison.success[0][-1].mean == pytest.approx(mean([0.3, 0.8]))
    assert compare(pair[:1]).success[0][-1].interval is None


def test_a_world_that_a_run_does_not_play_is_left_empty(tmp_path):
    first = read(write_run(tmp_path / "one", stages={"grpo": 0.2}, panels=("a/x",)))
    second = read(write_run(tmp_path / "two", stages={"grpo": 0.4}, panels=("a/x", "b/x")))
    comparison = compare([first, second])
    assert [cell is None for cell in comparison.success[0]] == [False, True, True]
    assert [cell is None for cell in comparison.success[1]] == [False, False, False]


def test_panels_that_weights_were_chosen_by_are_not_reported(tmp_path):
    config = {"envs": {"a": {"panels": {"val": {"role": "validation"}, "x": {"role": "test"}}}}}
    run = read(write_run(tmp_path / "one", stages={"grpo": 0.2}, panels=("a/val", "a/x"), config=config))
    assert [column.panel for column in compare([run]).columns] == ["x"]


def test_random_policy_and_oracle_stand_below_the_arms(tmp_path):
    stages, panels = {"grpo": {"a/x": 0.2, "b/x": 0.4}}, ("a/x", "b/x")
    first = read(write_run(tmp_path / "one", stages=stages, panels=panels, bounds={"random": 0.05, "oracle": 1.0}))
    second = read(write_run(tmp_path / "two", stages=stages, panels=panels, seed=1))
    comparison = compare([first, second])
    assert comparison.bounds == {"random": (0.05, 0.05, 0.05), "oracle": (1.0, 1.0, 1.0)}
    assert [line.split() for line in text(comparison).splitlines() if "│ random" in line] == [
        ["│", "random", "│", "│", "│", "5.0", "│", "5.0", "│", "5.0", "│"]
    ]
    assert compare([second]).bounds == {}
    rows = list(csv.DictReader(write_csv(comparison, tmp_path / "a.csv").open()))
    assert [(row["arm"], row["mean"]) for row in rows if row["kind"] == "reference"] == [
        *[("random", "5.0")] * 3, *[("oracle", "100.0")] * 3,
    ]  # fmt: skip


def test_tasks_that_all_seeds_share_widen_the_interval(tmp_path):
    """Seeds that agree say nothing of other tasks; a difference that is the same on every task does."""
    seeds = runs(tmp_path, "grpo", (0.2, 0.5), (0.2, 0.5), (0.2, 0.5))
    unknown = compare(seeds)
    for run in seeds:
        for stage, solved in (("bc", 20), ("grpo", 50)):
            run.stages[stage]["panels"]["new"]["toy"]["sampled"]["by_task"] = [1.0] * solved + [0.0] * (100 - solved)
    by_task = compare(seeds)
    half = 1.959964 * (0.25 / 99) ** 0.5
    assert by_task.success[arm(by_task, "grpo")][0].interval == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)
    # of 100 tasks 30 gained
    half = 1.959964 * (0.3 * 0.7 / 99) ** 0.5
    assert by_task.differences[0].cells[0].interval == pytest.approx((0.3 - half, 0.3 + half), abs=1e-6)
    # at most the variances of both sides
    half = 1.959964 * ((0.2 * 0.8 + 0.5 * 0.5) / 100) ** 0.5
    assert unknown.differences[0].cells[0].interval == pytest.approx((0.3 - half, 0.3 + half), abs=1e-6)


def test_only_differences_that_hold_together_are_bold(tmp_path):
    clear = compare(runs(tmp_path, "grpo", (0.1, 0.7), (0.2, 0.81), (0.15, 0.76)))
    unclear = compare(runs(tmp_path, "ppo", (0.1, 0.2), (0.2, 0.1), (0.15, 0.6)))
    alone = compare(runs(tmp_path, "rloo", (0.1, 0.9)))
    shown = [
        [cell.clear for difference in comparison.differences for cell in difference.cells]
        for comparison in (clear, unclear, alone)
    ]
    assert [any(of) for of in shown] == [True, False, False]
    bold = [any(row.bold for row in tables(comparison)[1].rows) for comparison in (clear, unclear, alone)]
    assert bold == [True, False, False]
    assert "One seed says nothing" in text(alone) and "One seed says nothing" not in text(clear)


def test_decoding(tmp_path):
    comparison = compare(runs(tmp_path, "grpo", (0.1, 0.3)), decoding="greedy")
    assert comparison.success[arm(comparison, "grpo")][0].mean == pytest.approx(0.4)
    with pytest.raises(ValueError, match="decoding 'beam' is unknown; choose sampled or greedy"):
        compare(comparison.runs, decoding="beam")


def test_csv_holds_all_numbers(tmp_path):
    comparison = compare(runs(tmp_path, "grpo", (0.1, 0.3), (0.2, 0.3), episodes=2000, seconds=300.0))
    rows = list(csv.DictReader(write_csv(comparison, tmp_path / "out" / "a.csv").open()))
    assert [(row["kind"], row["arm"], row["baseline"]) for row in rows] == [
        ("success", "bc", ""), ("success", "grpo", ""), ("difference", "grpo", "bc"),
    ]  # fmt: skip
    assert rows[1]["mean"] == "30.0" and rows[1]["seeds"] == "0 1" and rows[1]["by_seed"] == "30 30"
    assert rows[1]["runs"] == "grpo0 grpo1"
    assert (float(rows[1]["episodes"]), float(rows[1]["minutes"])) == (2000, 5)
    assert float(rows[1]["per_1000_episodes"]) == pytest.approx(7.5)
    assert float(rows[2]["mean"]) == pytest.approx(15) and float(rows[2]["p"]) == pytest.approx(0.20483, abs=1e-4)
    assert float(rows[2]["low"]) == pytest.approx(15 - 12.7062 * 5, abs=1e-2)  # sd of 0.2 and 0.1 over sqrt(2)


def test_labels_with_brackets_reach_the_terminal(tmp_path):
    pair = [
        read(write_run(tmp_path / name, stages={"grpo": 0.2}, config={"envs": {"toy": {"difficulty": [name]}}}))
        for name in ("bold", "easy")
    ]
    assert 'difficulty=["bold"]' in text(compare(pair))


def test_every_table_names_the_runs(tmp_path):
    comparison = compare([
        read(write_run(tmp_path / f"demo-{name}-seed{seed}", algorithm=name, seed=seed, stages={"bc": 0.1, name: 0.2}))
        for name in ("grpo", "ppo") for seed in (0, 1)
    ])  # fmt: skip
    names = [{row.names[table.heads.index("runs")] for row in table.rows} for table in tables(comparison)]
    alone = {"demo-grpo-seed*", "demo-ppo-seed*"}
    assert names == [alone | {"demo-grpo-seed*, demo-ppo-seed*"}, alone, alone]


def test_run_against_run(tmp_path):
    again = {"cloning": {"epochs": 3}}
    pair = [
        read(write_run(tmp_path / "first", stages={"bc": 0.1, "grpo": 0.5})),
        read(write_run(tmp_path / "second", seed=4, stages={"bc": 0.1, "grpo": 0.3}, config=again)),
        read(write_run(tmp_path / "third", stages={"bc": 0.1, "grpo": 0.5})),
    ]
    with pytest.raises(ValueError, match=r"the same arm and seed.*--arms run"):
        compare(pair)
    comparison = compare(pair, baseline="second", by="run")
    assert [arm.label for arm in comparison.arms] == [
        "first: bc",
        "second: bc",
        "third: bc",
        "first",
        "second",
        "third",
    ]
    cell = next(difference.cells[0] for difference in comparison.differences if difference.arm == "first")
    # Wilson's intervals of 50 and 30 of 100: [0.4038, 0.5962], [0.2189, 0.3958]
    assert (cell.mean, cell.over) == (pytest.approx(0.2), "tasks")
    assert cell.interval == (pytest.approx(0.2 - 0.13578, abs=1e-4), pytest.approx(0.2 + 0.12577, abs=1e-4))
    assert cell.p is None and not cell.clear and "runs" not in tables(comparison)[0].heads
    pairs = [(difference.arm, difference.baseline) for difference in compare(pair, by="run").differences]
    assert pairs == [("first", "first: bc"), ("second", "second: bc"), ("third", "third: bc")]


def test_arms_called_by_all_keys_that_differ(tmp_path):
    pair = [
        read(write_run(tmp_path / name, stages={"grpo": 0.2}, config={"cloning": {"epochs": n}, "model": {"size": n}}))
        for n, name in enumerate(("a", "b"))
    ]
    assert [arm.label for arm in compare(pair).arms] == ["grpo cloning.epochs=0", "grpo cloning.epochs=1"]
    assert [arm.label for arm in compare(pair, by="keys").arms] == [
        "grpo cloning.epochs=0 model.size=0", "grpo cloning.epochs=1 model.size=1",
    ]  # fmt: skip
    assert remarks(compare(pair)) == ["arms also differ in model.size: --arms keys names every key"]
    assert remarks(compare(pair, by="keys")) == remarks(compare(pair, by="run")) == []
    mixed = [
        read(write_run(tmp_path / kind, stages={"grpo": 0.2}, config={"mixture": {"type": kind, "floor": floor}}))
        for kind, floor in (("dynamic", 0.1), ("uniform", 0.0))
    ]
    assert remarks(compare(mixed)) == []
    with pytest.raises(ValueError, match="arms 'name' is unknown; choose short, keys or run"):
        compare(pair, by="name")


def test_runs_without_a_panel_in_common_are_remarked_on(tmp_path):
    runs_ = [
        read(write_run(tmp_path / env, stages={"grpo": 0.2}, panels=(f"{env}/x",))) for env in ("toy", "maze", "sea")
    ]
    assert remarks(compare(runs_[:2])) == ["toy and maze share no panel: nothing compares them"]
    assert remarks(compare(runs_[:1])) == []
    more = [read(write_run(tmp_path / "hill", stages={"grpo": 0.1}, panels=("hill/x",)))]
    assert remarks(compare(runs_ + more))[-1] == "nor do 3 other pairs of runs share one"


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_tables_fit_the_terminal_and_show_every_number(tmp_path, width):
    panels = tuple(f"environment{n}/a_long_panel" for n in range(6))
    config = {"model": {"path": "a/very/long/path/of/a/model/that/differs"}}
    runs_ = [
        read(write_run(tmp_path / f"{name}-with-a-long-name-seed{seed}", algorithm=name, seed=seed, panels=panels,
                       stages={"bc": 0.123, name: 0.456 + 0.01 * seed}, config=more, bounds={"random": 0.01}))
        for name, more in (("grpo", {}), ("agentevol", config)) for seed in range(3)
    ]  # fmt: skip
    comparison = compare(runs_)
    shown = text(comparison, width)
    assert max(map(len, shown.splitlines())) <= width
    for table in tables(comparison):
        for row in table.rows:
            for cell in row.cells:
                assert shown.count(cell) >= row.cells.count(cell), cell
    assert shown.replace("│", "").count("environment5") == 3


def test_markdown_and_latex(tmp_path):
    runs_ = runs(tmp_path, "grpo", (0.1, 0.5), (0.2, 0.61), bounds={"oracle": 1.0})
    runs_ += [
        read(write_run(tmp_path / "a_b", algorithm="ppo", stages={"ppo": 0.3}, config={"model": {"path": "x|y"}}))
    ]
    comparison = compare(runs_)
    lines = markdown(tables(comparison), ["a remark"]).splitlines()
    assert "| arm | runs | seeds | toy<br>new |" in lines and "| :-- | :-- | :-- | --: |" in lines
    assert "| oracle |  |  | 100.0 |" in lines and lines[-1] == "a remark"
    assert any(line.startswith("| ppo | a\\_b | 0 | 30.0 \\[22, 40\\]† |") for line in lines)
    assert any("**+40.5" in line for line in lines)
    starred = Table("of a_b", ("arm",), (), (), ("a-seed* and b-seed*",))
    shown = markdown([starred], ["c*d*"])
    assert "of a\\_b" in shown and "a-seed\\* and b-seed\\*" in shown and "c\\*d\\*" in shown
    written = latex(tables(comparison))
    assert "ppo & a\\_b & 0 & 30.0 {[}22, 40]\\dag{} \\\\" in written
    assert "\\midrule\noracle &  &  & 100.0 \\\\" in written and "\\textbf{+40.5" in written
    assert written.count("\\begin{tabular}") == written.count("\\bottomrule") == len(tables(comparison))
