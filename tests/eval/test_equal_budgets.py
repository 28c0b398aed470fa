"""Success at equal budgets, against numbers worked out by hand."""

from made_runs import write_run

from agentgym_rl.eval.comparison.compare import compare
from agentgym_rl.eval.comparison.equal import at_equal_budgets
from agentgym_rl.eval.comparison.forms import markdown
from agentgym_rl.eval.comparison.learning import plots
from agentgym_rl.eval.comparison.page import page
from agentgym_rl.eval.comparison.runs import read
from agentgym_rl.eval.comparison.tables import remarks, tables


def made(folder, algorithm, successes, *, seed=0, episodes=100, minutes=1.0, tokens=None, updates=None, cloned=True):
    """Cloning with 20% of a panel solved, then a step for each success: what a step spends is given."""
    start = {"step": 5, "stage/bc": 1, "run/episodes": 0, "run/wall_s": 30.0, "val/new/toy/success": 0.2}
    rows = [{key: value for key, value in start.items() if not key.startswith("val")}, start] if cloned else []
    for step, success in enumerate(successes, start=1):
        row = {"step": 5 + step, f"stage/{algorithm}": step, "run/episodes": episodes * step}
        row |= {"run/wall_s": 30.0 + 60 * minutes * step}
        if tokens:
            row["run/tokens"] = tokens * step
        if updates:
            row["run/stage_updates"] = updates * step
        rows += [row, {**row, "val/new/toy/success": success}]
    count = len(successes)
    return read(
        write_run(
            folder / f"{algorithm}{seed}", algorithm=algorithm, seed=seed, metrics=rows, episodes=episodes * count,
            seconds=60 * minutes * count, stages={**({"bc": 0.2} if cloned else {}), algorithm: successes[-1]},
        )
    )  # fmt: skip


def cells(table):
    heads = [" ".join(column) for column in table.columns]
    return {row.names[0]: dict(zip(heads, row.cells, strict=True)) for row in table.rows}


EQUAL = ("at 300 episodes", "at 2 updates", "at 2,000 tokens", "at 1.0 minutes")


def test_each_arm_is_taken_where_the_thriftiest_ends(tmp_path):
    quick = made(tmp_path, "dpo", [0.3, 0.6], episodes=200, minutes=0.5, tokens=1000, updates=1)
    slow = made(tmp_path, "grpo", [0.4, 0.5, 0.7], episodes=100, minutes=1.0, tokens=900, updates=4)
    (table,) = at_equal_budgets(plots(compare([quick, slow])))
    assert cells(table) == {
        # of 200 and 400 episodes, 1 and 2 updates, 1000 and 2000 tokens, 0.5 and 1 minutes
        "dpo": dict(zip(EQUAL, ("30.0", "60.0", "60.0", "60.0"), strict=True)),
        # of 100, 200 and 300; 4, 8 and 12; 900, 1800 and 2700; 1, 2 and 3
        "grpo": dict(zip(EQUAL, ("70.0", "20.0", "50.0", "40.0"), strict=True)),
    }
    assert table.title.endswith("spent: toy, new") and "on the way: dpo 2, grpo 3" in table.notes[0]


def test_means_are_over_seeds(tmp_path):
    runs = [
        made(tmp_path, algorithm, [success, success + gain], seed=seed)
        for algorithm, gain in (("dpo", 0.1), ("grpo", 0.2))
        for seed, success in enumerate((0.3, 0.5))
    ]
    (table,) = at_equal_budgets(plots(compare(runs)))
    assert [found["at 200 episodes"] for found in cells(table).values()] == ["50.0", "60.0"]


def test_what_not_all_runs_know_is_left_out_and_named(tmp_path):
    runs = [made(tmp_path, "dpo", [0.3, 0.6], tokens=1000), made(tmp_path, "grpo", [0.4, 0.5], updates=4)]
    (table,) = at_equal_budgets(plots(compare(runs)))
    assert [axis for _, axis in table.columns] == ["episodes", "minutes"]
    assert table.notes[1] == "Not of all runs known: updates, tokens."


def test_an_arm_without_an_evaluation_within_a_budget_has_no_number(tmp_path):
    """``run.evaluate_untrained=false`` and no cloning: nothing is known of the start."""
    quick = made(tmp_path, "dpo", [0.3, 0.5, 0.6], episodes=200, minutes=1.0, cloned=False)
    slow = made(tmp_path, "grpo", [0.4, 0.5, 0.7], episodes=100, minutes=4.0, cloned=False)
    (table,) = at_equal_budgets(plots(compare([quick, slow])))
    assert cells(table) == {
        "dpo": {"at 300 episodes": "30.0", "at 3.0 minutes": "60.0"},
        "grpo": {"at 300 episodes": "70.0", "at 3.0 minutes": "-"},
    }
    assert "on the way: dpo 3, grpo 3" in table.notes[0]


def test_one_algorithm_or_evaluations_at_the_end_alone_have_no_table(tmp_path):
    alone = made(tmp_path, "grpo", [0.4, 0.5])
    assert at_equal_budgets(plots(compare([alone]))) == []
    ends = [made(tmp_path / "ends", algorithm, [0.5]) for algorithm in ("grpo", "dpo")]
    assert at_equal_budgets(plots(compare(ends))) == []


def test_it_stands_below_the_other_tables_and_on_the_page(tmp_path):
    comparison = compare([made(tmp_path, "dpo", [0.3, 0.6]), made(tmp_path, "grpo", [0.4, 0.5])])
    assert "**Success in % at equal budgets" in markdown(tables(comparison)).rpartition("Points")[2]
    html = page(comparison)
    assert '<section id="equal">' in html and "at 200 episodes" in html and 'href="#equal"' in html


def test_runs_without_their_metrics_are_compared_and_named(tmp_path):
    kept, bare = made(tmp_path, "grpo", [0.4, 0.5]), made(tmp_path, "dpo", [0.3, 0.6])
    whole = tables(compare([kept, bare]))
    (bare.folder / "metrics.jsonl").unlink()
    comparison = compare([kept, read(bare.folder)])
    assert {"grpo", "dpo"} <= {row.names[0] for row in tables(comparison)[0].rows}
    assert len(tables(comparison)) == len(whole) - 1, "no equal budgets with one arm's curve"
    assert remarks(comparison) == ["no curves, nor success at equal budgets, of dpo0: no metrics.jsonl"]
    assert "no metrics.jsonl" in page(comparison)
    assert remarks(compare([kept])) == []
