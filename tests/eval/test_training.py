"""Metrics of runs over each other: what is a line, and the page."""

import http.client
import json
import math
import re
import threading
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from made_runs import unfinish, write_run
from typer.testing import CliRunner
from viewer_episodes import made, run_folder

from agentgym_rl.cli import app
from agentgym_rl.cli import view as view_command
from agentgym_rl.data import episode_store
from agentgym_rl.eval.comparison.compare import compare
from agentgym_rl.eval.comparison.page import page as compared
from agentgym_rl.eval.comparison.runs import read_all
from agentgym_rl.eval.training.curves import charts, with_speed
from agentgym_rl.eval.training.page import look, page
from agentgym_rl.eval.viewer.server import Viewer


def unit(step, stage="grpo", **more):
    row = {"step": step, f"stage/{stage}": step, "run/units": 9, "run/episodes": 10 * step, "run/wall_s": 60.0 * step}
    return row | {name.replace("__", "/"): value for name, value in more.items()}


def lines(rows, key, others=()):
    runs = {"one": rows, **{f"other{n}": metrics for n, metrics in enumerate(others)}}
    drawn = charts(runs, {label: look(number) for number, label in enumerate(runs)})
    return next((chart.lines for measure, chart in drawn if key in measure.keys), [])


def test_a_line_ends_with_its_stage_and_where_there_is_no_value():
    rows = [
        unit(1, "bc", supervised__grad_norm=4.0), unit(2, "bc", supervised__grad_norm=2.0),
        unit(3, actor__grad_norm=0.5), unit(4), unit(5, actor__grad_norm=float("nan")), unit(6, actor__grad_norm=0.25),
    ]  # fmt: skip
    curves = lines(rows, "actor/grad_norm")
    assert [(line.x["steps"], line.y) for line in curves] == [([1, 2], [4.0, 2.0]), ([3], [0.5]), ([6], [0.25])]
    assert {line.key for line in curves} == {0} and curves[0].x["minutes"] == [1.0, 2.0]
    assert "tokens" not in curves[0].x


def test_an_evaluation_does_not_break_the_line_of_the_units():
    evaluated = {**unit(2), "val/a/b/toy/success": 0.5, "val/a/b/toy/greedy_success": 1.0}
    rows = [unit(1, env__toy__success=0.1), unit(2, env__toy__success=0.2), evaluated, unit(3, env__toy__success=0.3)]
    (line,) = lines(rows, "env/toy/success")
    assert line.y == [10.0, 20.0, 30.0]
    (line,) = lines(rows, "val/a/b/toy/success")
    assert (line.x["steps"], line.y) == ([2], [50.0])


def test_a_name_that_begins_as_greedy_scores_do_is_drawn():
    rows = [{"step": 1, "stage/grpo": 1, "val/new/greedy_maze/success": 0.5, "val/new/greedy_maze/greedy_success": 0.6}]
    [(measure, _)] = charts({"run": rows}, {"run": look(0)})
    assert measure.keys == ("val/new/greedy_maze/success",)


def test_runs_lie_over_each_other():
    curves = lines([unit(1, actor__entropy=2.0)], "actor/entropy", [[unit(1, actor__entropy=1.0)], [unit(1)]])
    assert [(line.label, line.key, line.y) for line in curves] == [("one", 0, [2.0]), ("other0", 1, [1.0])]
    assert curves[0].colour != curves[1].colour
    assert len({look(number)[:2] for number in range(24)}) == 24


def test_axes_hold_negative_values_zero_and_shares():
    rows = [unit(1, actor__ppo_kl=-0.2, actor__pg_clipfrac=0.0), unit(2, actor__ppo_kl=-0.1, actor__pg_clipfrac=0.01)]
    drawn = {measure.keys[0]: chart for measure, chart in charts({"one": rows}, {"one": look(0)})}
    assert drawn["actor/ppo_kl"].bottom < -0.2 and drawn["actor/ppo_kl"].top >= 0
    assert (drawn["actor/pg_clipfrac"].bottom, drawn["actor/pg_clipfrac"].top) == (0, 5)
    (flat,) = (chart for _, chart in charts({"one": [unit(1, rollout__staleness=0.0)]}, {"one": look(0)}))
    assert flat.top > flat.bottom


def test_tokens_a_second_are_of_the_unit_alone():
    rows = [
        {**unit(1), "run/tokens": 0}, {**unit(1), "run/wall_s": 100.0, "run/tokens": 0, "val/new/toy/success": 0.1},
        {**unit(2), "run/wall_s": 110.0, "run/tokens": 500}, {**unit(3), "run/wall_s": 110.0, "run/tokens": 600},
    ]  # fmt: skip
    assert [row.get("tokens/s") for row in with_speed(rows)] == [None, None, 50.0, None]
    assert with_speed([]) == []


def test_long_runs_are_thinned_and_keep_their_ends():
    (line,) = lines([unit(step, actor__entropy=1 / step) for step in range(1, 2001)], "actor/entropy")
    assert len(line.y) == 150 and (line.x["steps"][0], line.x["steps"][-1]) == (1, 2000)


def test_a_long_run_with_many_gaps_has_few_points():
    rows = [unit(step, **({"actor__entropy": 1.0} if step % 3 else {})) for step in range(1, 6001)]
    curves = lines(rows, "actor/entropy")
    assert sum(len(line.y) for line in curves) == 150 and curves[-1].x["steps"][-1] == 5999


def test_the_more_runs_lie_over_each_other_the_fewer_points_they_have():
    rows = [unit(step, actor__entropy=1.0) for step in range(1, 201)]
    assert {len(line.y) for line in lines(rows, "actor/entropy", [rows] * 99)} == {60}


@pytest.fixture
def runs(tmp_path):
    """A finished run with episodes, one that goes on, one that has only begun, one that cannot be read."""
    root = tmp_path / "runs"
    rows = [unit(1, actor__entropy=2.0), unit(2, actor__entropy=1.0, env__toy__success=0.25)]
    run_folder(write_run(root / "demo-a", stages={"grpo": 0.5}, metrics=rows))
    unfinish(write_run(root / "demo-b", algorithm="ppo", seed=3, stages={"ppo": 0.1},
                       metrics=[unit(4, "ppo", actor__entropy=3.0)]), "ppo")  # fmt: skip
    write_run(root / "begun", stages={})
    (root / "begun" / "summary.json").unlink()
    (root / "begun" / "metrics.jsonl").unlink()
    (root / "broken").mkdir()
    (root / "broken" / "config.yaml").write_text("[")
    return root


def test_the_page_lists_every_run(runs):
    shown = page(sorted(runs.iterdir()), {runs / "demo-a": "run0/"})
    for text in ("Training of 4 runs", '<a href="run0/">demo-a</a>', "ppo, 4 of 9", "finished", "no row yet",
                 "is not YAML" if "is not YAML" in shown else "broken/config.yaml", "toy training 25%"):  # fmt: skip
        assert text in shown, text
    assert '<a href="">' not in shown and shown.count("data-key=") == 2
    data = json.loads(shown.split('id="data">')[1].split("</script>")[0])
    assert {line["label"] for line in data[-1]["lines"]} == {"demo-a", "demo-b"}


def test_runs_of_one_name_are_told_apart(runs, tmp_path):
    write_run(tmp_path / "more" / "demo-a", stages={"grpo": 0.1}, metrics=[unit(1, actor__entropy=1.0)])
    shown = page([runs / "demo-a", tmp_path / "more" / "demo-a"], {})
    assert f"{tmp_path}/more/demo-a</th>" in shown


def test_a_run_without_a_row_has_a_page(runs):
    assert "Nothing is logged yet." in page([runs / "begun"], {})


def test_the_page_of_a_run_shows_the_settings_that_it_made(runs):
    def setting(number, **facts):
        facts_of = {"name": f"maze-{number}", "settings": {"steps": number % 12, "size": 3}, "born": number}
        rest = {"env": "maze-rooms", "parents": [], "episodes": 8, "died": number + 5, "estimate": 0.25}
        return facts_of | rest | facts

    newest = setting(99, died=None, estimate=0.5, parents=["writer"])
    individuals = [*map(setting, range(80)), newest, setting(100, episodes=0, died=None)]
    (runs / "demo-a" / "state.json").write_text(json.dumps({"mixture": {"shares": {"individuals": individuals}}}))
    shown = page([runs / "demo-a"], {})
    table = shown.split('id="settings"')[1]
    assert table.count('<tr><th scope="row"') == 60 and "22 that left earlier" in table and "maze-0<" not in table
    assert table.index("maze-99<") < table.index("maze-100<") < table.index("maze-79<")
    assert "<td>steps 4 · size 3</td><td></td><td>0</td>" in table
    assert "<td>steps 3 · size 3</td><td>50%</td><td>8</td><td>from 99</td>" in table and ">writer</td>" in table
    data = json.loads(shown.split('id="data">')[1].split("</script>")[0])
    (chart,) = (chart for chart in data if chart["name"] == "maze-rooms: success by steps")
    assert chart["names"] == [*map(str, range(12))] and [line["label"] for line in chart["lines"]] == ["left", "lives"]
    assert chart["lines"][1]["says"] == ["steps 3 · size 3: 50% of 8 episodes, steps from 99"]
    assert chart["lines"][1]["x"]["steps"] == chart["lines"][1]["x"]["episodes"]
    assert "settings" not in page(sorted(runs.iterdir()), {}).split("<main>")[1]


@pytest.mark.parametrize("bad", [math.nan, math.inf, None])
@pytest.mark.parametrize("name", ["env/toy/success", "env/toy/share", "val/new/toy/success", "actor/entropy"])
def test_values_that_are_no_finite_numbers_are_on_no_page(tmp_path, name, bad):
    units = [unit(n, env__toy__success=0.1, env__toy__share=n / 9, actor__entropy=1.0) for n in range(1, 9)]
    rows = [row for step in units for row in (step, {**step, "val/new/toy/success": 0.5, "val/new/toy/error_rate": 0})]
    rows = [{**row, name: bad} if name in row and row["step"] > 4 else row for row in rows]
    run = write_run(tmp_path / "run", stages={"bc": 0.1, "grpo": 0.5}, metrics=rows)
    trained, watched = page([run], {}), CliRunner().invoke(app, ["watch", str(run), "--once"])
    assert "toy new 50% · toy training 10%" in trained and watched.exit_code == 0 and "10.0 %" in watched.output
    for shown in (trained, compared(compare(read_all([str(run)])[0]))):
        assert json.loads(shown.split('id="data">')[1].split("</script>")[0], parse_constant=pytest.fail)


@pytest.fixture
def served(monkeypatch):
    """What ``view`` would serve."""
    calls = []
    monkeypatch.setattr(view_command, "serve", lambda *arguments: calls.append(arguments))
    return calls


def view(*arguments):
    result = CliRunner().invoke(app, ["view", *map(str, arguments)])
    return result.exit_code, result.output


def test_view_shows_a_folder_of_runs_a_glob_or_several(runs, served):
    for places in ([runs], [f"{runs}/*"], [runs / "demo-a", runs / "b*", runs / "demo-b"]):
        code, output = view(*places, "--no-browser")
        assert code == 0, output
        stores, _, _, title, front = served.pop()
        assert (list(stores), title) == (["run0"], "4 runs") and '<a href="run0/">demo-a</a>' in front()
    assert view(f"{runs}/demo-*")[0] == 0 and served.pop()[3] == "2 runs"
    assert view(runs / "demo-a")[0] == 0 and served.pop()[3] == "18 episodes"
    assert view(f"{runs}/demo-a*")[0] == 0 and served.pop()[3] == "18 episodes"
    assert view(f"{runs}/demo-a/episodes")[0] == 0 and served.pop()[3] == "18 episodes"
    assert view(runs / "nothing")[0] == 2 and view(f"{runs}/x*")[0] == 2


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("episodes/step000000.parquet", "PAR1"),
        ("../demo-a.notes.json", "{"),
        ("metrics.jsonl", '{"step": 1, "sta\n{"step": 2}\n'),
        ("metrics.jsonl", "[1]\n"),
        ("config.yaml", "envs: {}\nrollout: {}\nmodel: {}\nalgorithm: grpo\n"),
        ("config.yaml", "["),
        ("config.yaml", "{envs: [toy], rollout: {}, model: {}}"),
        ("config.yaml", "{envs: {toy: [new]}, rollout: {}, model: {}}"),
        ("metrics.jsonl", '{"step": 1, "stage/grpo": 1, "run/wall_s": NaN}\n'),
        ("state.json", '{"mixture": {"shares": {"individuals": [{}]}}}'),
    ],
)
def test_a_damaged_run_is_named_and_the_others_are_shown(runs, tmp_path, served, file, content):
    run_folder(write_run(runs / "whole", stages={"grpo": 0.5}))
    (runs / "demo-a" / file).write_text(content)
    code, said = view(runs, "--no-browser")
    assert code == 0, said
    stores, *_, front = served.pop()
    Viewer(stores, 0, front).server_close()
    assert "algorithm: grpo" in content or file.rpartition("/")[2] in said + front()
    code, said = view(runs, "--html", tmp_path / "out", "--no-pictures")
    assert code == 0, said
    assert '<a href="whole/index.html">whole</a>' in (tmp_path / "out" / "index.html").read_text()


def test_loading_the_page_again_shows_runs_and_episodes_that_have_come(runs, served):
    assert view(runs, "--no-browser")[0] == 0
    stores, *_, front = served.pop()
    assert "begun" in front() and "run1/" not in front()
    run_folder(runs / "begun")
    run_folder(write_run(runs / "later", stages={"grpo": 0.5}))
    shown = front()
    assert '<a href="run1/">begun</a>' in shown and '<a href="run2/">later</a>' in shown and len(stores) == 3


def test_links_of_an_export_lead_to_runs_of_any_name(runs, tmp_path):
    (runs / "demo-a").rename(runs / "lr:1#2 50%")
    code, output = view(runs, "--html", tmp_path / "out")
    assert code == 0, output
    (link,) = re.findall(r'<th scope="row">.*?<a href="([^"]*)"', (tmp_path / "out" / "index.html").read_text())
    address = urlsplit(urljoin((tmp_path / "out" / "index.html").as_uri(), link))
    assert not address.fragment and Path(unquote(address.path)).is_file()


def test_places_that_are_no_runs_are_one_error(tmp_path):
    for name in ("a", "b"):
        episode_store.write(tmp_path / name / "step000000.parquet", [made()])
    code, output = view(tmp_path / "a", tmp_path / "b")
    assert code == 2 and "there is no run; several places are shown if they are runs" in output


def test_view_exports_several_runs(runs, tmp_path):
    code, output = view(runs, "--html", tmp_path / "out")
    assert code == 0, output
    front = (tmp_path / "out" / "index.html").read_text()
    assert '<a href="demo-a/index.html">demo-a</a>' in front
    assert (tmp_path / "out" / "demo-a" / "training.html").read_text().count("<div data-chart=") == 2


def test_the_server_shows_the_metrics_of_a_run_as_they_are_now(runs):
    store = episode_store.EpisodeStore(runs / "demo-a")
    viewer = Viewer({"a": store, "file": episode_store.EpisodeStore(runs / "demo-a" / "episodes")}, 0, lambda: "front")
    threading.Thread(target=viewer.serve_forever, daemon=True).start()

    def get(path):
        connection = http.client.HTTPConnection(*viewer.server_address, timeout=20)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    assert get("/") == (200, "front") and json.loads(get("/a/api/index")[1])["trained"]
    assert "Training of demo-a" in get("/a/training.html")[1] and "entropy" in get("/a/training.html")[1]
    with (runs / "demo-a" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(unit(3, rollout__staleness=1.0)) + "\n")
    assert "staleness" in get("/a/training.html")[1]
    assert get("/file/training.html")[0] == 404 and not json.loads(get("/file/api/index")[1])["trained"]
    viewer.shutdown()
    viewer.server_close()
