"""Learning curves read from the metrics of runs."""

import json
import time

import pytest
from made_runs import write_run

from agentgym_rl.eval.comparison.arms import arms
from agentgym_rl.eval.comparison.charts import learning_figure
from agentgym_rl.eval.comparison.compare import compare
from agentgym_rl.eval.comparison.learning import Curve, arm_curves, curve, plots
from agentgym_rl.eval.comparison.runs import read


def timelines(comparison, what):
    """Of the only arm, by environment."""
    [(arm, curves)] = arm_curves(comparison, what)
    assert arm.label == "grpo"
    return curves


STAGES = {"bc": 0.2, "grpo": 0.6, "control": 0.3}


def metrics(values, *, clock=0.0, evaluated=True, share=None, max_turns=None, tokens=None, trained=None):
    """Cloning until step 5, then a step and an evaluation for each value, 100 episodes and 60 s apart."""
    rows = [{"step": 5, "stage/bc": 2, "run/episodes": 0, "run/wall_s": clock + 30.0}]
    if evaluated:
        rows.append({**rows[0], "val/new/toy/success": 0.2, "val/new/toy/greedy_success": 0.3})
    for step, value in enumerate(values, start=1):
        row = {"step": 5 + step, "stage/grpo": step, "run/episodes": 100 * step, "run/wall_s": 30.0 + 60 * step}
        more = {
            "env/toy/share": share,
            "env/toy/max_turns": max_turns,
            "curriculum/max_turns": max_turns,
            "run/tokens": tokens,
            "run/stage_training_s": trained,
        }
        row |= {key: series[step - 1] for key, series in more.items() if series is not None and key.startswith("run/")}
        numbers = {key: series[step - 1] for key, series in more.items() if series is not None}
        rows.append(row | {"env/toy/success": value - 0.1} | numbers)
        if evaluated:
            late = {"run/wall_s": row["run/wall_s"] + 7.0}  # how long the evaluation takes is not the weights' time
            rows.append(row | late | {"val/new/toy/success": value, "val/new/toy/greedy_success": value + 0.1})
    return rows


def made(tmp_path, *curves, **more):
    return [
        read(
            write_run(
                tmp_path / f"{seed}", seed=seed, stages=STAGES, episodes=100 * len(values),
                seconds=60.0 * len(values), metrics=metrics(values, **more),
            )
        )
        for seed, values in enumerate(curves)
    ]  # fmt: skip


def test_the_mean_and_range_over_seeds(tmp_path):
    [plot] = plots(compare(made(tmp_path, [0.3, 0.4, 0.5], [0.5, 0.6, 0.9])))
    assert (plot.env, plot.panel) == ("toy", "new")
    [(arm, curve)] = plot.curves
    assert arm.label == "grpo"
    assert curve.x == {"steps": (0, 1, 2, 3), "episodes": (0, 100, 200, 300), "minutes": (0, 1, 2, 3)}
    assert curve.mean == (0.2, 0.4, 0.5, 0.7) and curve.low == (0.2, 0.3, 0.4, 0.5) and curve.high[-1] == 0.9
    assert plot.controls == (("grpo", 3.0, 0.3),)


def test_the_clock_of_cached_cloning_does_not_matter(tmp_path):
    [plot] = plots(compare(made(tmp_path, [0.3, 0.4, 0.5], clock=9999.0)))
    assert plot.curves[0][1].x["minutes"] == (0, 1, 2, 3)


def test_minutes_are_those_of_training(tmp_path):
    [plot] = plots(compare(made(tmp_path, [0.3, 0.4, 0.5], clock=9999.0, trained=[30.0, 60.0, 90.0])))
    assert plot.curves[0][1].x["minutes"] == (0, 0.5, 1, 1.5)


def test_a_control_stands_at_its_minutes_of_training(tmp_path):
    """Its evaluations on the way are in the cost of its stage, and not on the axis of its algorithm's curve."""
    [run] = made(tmp_path, [0.3, 0.4, 0.5], trained=[30.0, 60.0, 90.0])
    ended = {"step": 12, "stage/control": 4, "run/episodes": 300, "run/wall_s": 500.0, "run/stage_training_s": 96.0}
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(ended) + "\n")
    [plot] = plots(compare([read(run.folder)]))
    assert plot.controls == (("grpo", 1.6, 0.3),)


def test_greedy_evaluations(tmp_path):
    [plot] = plots(compare(made(tmp_path, [0.3, 0.4, 0.5]), decoding="greedy"))
    assert plot.curves[0][1].mean[:2] == (0.3, 0.4)


def test_training_episodes_stand_in_for_evaluations(tmp_path):
    [plot] = plots(compare(made(tmp_path, [0.3, 0.4, 0.5], evaluated=False)))
    assert plot.panel is None and plot.curves[0][1].x["steps"] == (1, 2, 3)
    assert plot.curves[0][1].mean[0] == 0.3 - 0.1 and plot.controls == ()


def test_steps_that_not_every_seed_has_are_left_out(tmp_path):
    [plot] = plots(compare(made(tmp_path, [0.3, 0.4, 0.5], [0.5, 0.6])))
    assert plot.curves[0][1].x["steps"] == (0, 1, 2)


def test_shares_and_turn_limits_over_time(tmp_path):
    comparison = compare(made(tmp_path, [0.3, 0.4], [0.3, 0.4], share=[0.5, 0.5], max_turns=[4, 8]))
    share, horizon = timelines(comparison, "share")["toy"], timelines(comparison, "max_turns")["toy"]
    assert share.mean == (0.5, 0.5) and not share.varies
    assert horizon.mean == (4, 8) and horizon.varies and horizon.x["episodes"] == (100, 200) and horizon.seeds == 2


def test_tokens_that_a_run_logs(tmp_path):
    [plot] = plots(compare(made(tmp_path, [0.3, 0.4], [0.5, 0.6], tokens=[500, 900])))
    curve = plot.curves[0][1]
    assert curve.x["tokens"] == (0, 500, 900)
    assert [curve.x[axis] for axis in ("episodes", "minutes", "steps")] == [(0, 100, 200), (0, 1, 2), (0, 1, 2)]


def test_tokens_that_not_every_seed_knows_are_not_drawn(tmp_path):
    counted = read(write_run(tmp_path / "a", stages=STAGES, episodes=200, metrics=metrics([0.3, 0.4], tokens=[5, 9])))
    unknown = read(write_run(tmp_path / "b", seed=1, stages=STAGES, episodes=200, metrics=metrics([0.3, 0.4])))
    [plot] = plots(compare([counted, unknown]))
    assert "tokens" not in plot.curves[0][1].x


def test_runs_without_training_episodes_have_no_curves(tmp_path):
    assert plots(compare([read(write_run(tmp_path / "a", algorithm="bc", stages={"bc": 0.4}))])) == []


def test_two_training_steps_say_less_than_the_ends_of_evaluations(tmp_path):
    rows = [row for row in metrics([0.3, 0.4]) if row["step"] != 6 or "val/new/toy/success" not in row]
    run = read(write_run(tmp_path / "a", stages=STAGES, episodes=200, seconds=120.0, metrics=rows))
    [plot] = plots(compare([run]))
    assert plot.panel == "new" and plot.curves[0][1].mean == (0.2, 0.4)


def test_curves_of_many_points_are_smoothed(tmp_path):
    values = [0.2 + 0.1 * (step % 2) for step in range(40)]
    [plot] = plots(compare(made(tmp_path, values, evaluated=False)))
    [(_, curve)] = plot.curves
    smooth = curve.smoothed
    assert smooth.x == curve.x and len(smooth.mean) == 40 and smooth.mean[0] == curve.mean[0]
    spread = [max(line.mean[5:-5]) - min(line.mean[5:-5]) for line in (curve, smooth)]
    assert spread[1] < 0.3 * spread[0]
    [few] = plots(compare(made(tmp_path / "few", values[:5])))
    assert few.curves[0][1].smoothed is None and few.n == 100


def test_a_line_ends_where_a_seed_has_no_value(tmp_path):
    with_gap = metrics([0.3, 0.4, 0.5, 0.6])
    for row in with_gap:
        if row["step"] == 7:
            row |= {key.replace("toy", "maze"): row.pop(key) for key in [*row] if "/toy/" in key}
    runs = [
        write_run(tmp_path / f"{seed}", seed=seed, stages=STAGES, episodes=400, seconds=240.0, metrics=rows)
        for seed, rows in enumerate([metrics([0.3, 0.4, 0.5, 0.6]), with_gap])
    ]
    comparison = compare([*map(read, runs)])
    [plot] = plots(comparison)
    [(_, curve)] = plot.curves
    assert curve.x["steps"] == (0, 1, 3, 4) and curve.gaps == (2,)
    assert [piece.x["steps"] for piece in curve.pieces] == [(0, 1), (3, 4)]
    lines = [line for line in learning_figure(comparison, plot).chart.lines if not line.hollow]
    assert [(line.label, list(line.x["steps"]), len(line.says)) for line in lines] == [
        ("grpo", [0, 1], 2), ("grpo", [3, 4], 2),
    ]  # fmt: skip


def test_evaluations_that_a_seed_makes_more_often_leave_no_gap(tmp_path):
    rare = [row for row in metrics([0.3, 0.4, 0.5, 0.6]) if row["step"] % 2 or not any("val/" in key for key in row)]
    runs = [
        write_run(tmp_path / f"{seed}", seed=seed, stages=STAGES, episodes=400, seconds=240.0, metrics=rows)
        for seed, rows in enumerate([metrics([0.3, 0.4, 0.5, 0.6]), rare])
    ]
    [plot] = plots(compare([*map(read, runs)]))
    [(_, curve)] = plot.curves
    assert curve.x["steps"] == (0, 2, 4) and curve.gaps == ()


def test_a_drawn_curve_has_few_points_and_keeps_gaps_and_ends():
    steps = tuple(map(float, range(10_001)))
    drawn = Curve({"steps": steps}, steps, steps, steps, 1, gaps=(4_000, 4_001)).thinned
    assert len(drawn.mean) == 500 and (drawn.mean[0], drawn.mean[-1]) == (0, 10_000)
    before, after = drawn.pieces
    assert before.mean[-1] < 4_000 <= after.mean[0] and len(before.mean) + len(after.mean) == 500


def test_a_curve_of_fifty_thousand_steps_with_gaps_takes_seconds(tmp_path):
    rows = [
        {"step": step, "stage/grpo": step, "run/episodes": step, "run/wall_s": 1.0 * step,
         f"env/{'toy' if step % 2 else 'shop'}/success": step % 4 / 3}
        for step in range(1, 50_001)
    ]  # fmt: skip
    (arm,) = arms([read(write_run(tmp_path / "a", stages={"grpo": 0.5}, metrics=rows))])
    began = time.process_time()
    drawn = curve(arm, "env/toy/success")
    assert len(drawn.gaps) == 24_999 and drawn.smoothed.mean[12_000] == pytest.approx(2 / 3, abs=1e-3)
    assert time.process_time() - began < 20  # without an index of the gaps, a hundred times that
