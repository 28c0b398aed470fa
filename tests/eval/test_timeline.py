"""Timelines of episodes: spans, Chrome's trace, the page in a real browser."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.eval.timeline import write
from agentgym_rl.eval.timeline.lanes import KINDS, concurrency, lanes, shares, trace

EVIL = "</script><script>alert(1)</script>&\"'"


def turn(began_s, model_s=0.2, parse_s=0.01, env_s=0.1, action="look"):
    return Turn(
        response="x", action=action, observation="o", reward=0.0, invalid=False, tokens=(0, 7),
        began_s=began_s, model_s=model_s, parse_s=parse_s, env_s=env_s,
    )  # fmt: skip


def episode(item_id="maze_1", began=1e9, reset_s=0.5, turns=(), env="maze"):
    return Episode(
        env=env, item_id=item_id, ending=Ending.TERMINATED, reward=1.0, success=True, max_turns=9,
        turns=list(turns), began=began, reset_s=reset_s,
    )  # fmt: skip


def test_spans_say_what_the_times_say():
    (lane,) = lanes([episode(turns=[turn(0.6), turn(1.0)])])
    spans = [(span.kind, round(span.start, 6), round(span.seconds, 6)) for span in lane.spans]
    assert spans == [
        ("step", 0.0, 0.5), ("wait", 0.5, 0.1), ("generate", 0.6, 0.2), ("parse", 0.8, 0.01), ("step", 0.81, 0.1),
        ("wait", 0.91, 0.09), ("generate", 1.0, 0.2), ("parse", 1.2, 0.01), ("step", 1.21, 0.1),
    ]  # fmt: skip
    assert [span.label for span in lane.spans][:3] == ["reset", "before turn 1", "turn 1, 7 tokens"]


def test_shares_and_concurrency_agree():
    drawn = lanes([episode(turns=[turn(0.6)]), episode("maze_2", began=1e9 + 0.3, turns=[turn(0.5)])])
    share_of = shares(drawn)
    assert sum(share_of.values()) == pytest.approx(1)
    total = sum(lane.seconds for lane in drawn)
    assert share_of["generate"] == pytest.approx(0.4 / total)
    slices = concurrency(drawn, 37)
    width = max(lane.end for lane in drawn) / 37
    for number, kind in enumerate(KINDS, start=1):
        assert sum(row[number] for row in slices) * width == pytest.approx(share_of[kind] * total)


seconds = st.floats(0, 10)


@given(
    st.lists(
        st.tuples(seconds, seconds, st.lists(st.tuples(seconds, seconds, seconds, seconds), max_size=4)),
        min_size=1, max_size=5,
    )
)  # fmt: skip
def test_any_times_make_lanes_without_gaps_or_overlaps(times):
    episodes = []
    for began, reset_s, timed_turns in times:
        at, turns = reset_s, []
        for pause, model_s, parse_s, env_s in timed_turns:
            turns.append(turn(at + pause, model_s, parse_s, env_s))
            at += pause + model_s + parse_s + env_s
        episodes.append(episode(began=1e9 + began, reset_s=reset_s, turns=turns))
    drawn = lanes(episodes)
    for lane in drawn:
        for before, after in zip(lane.spans, lane.spans[1:], strict=False):
            assert after.start == pytest.approx(before.end, abs=1e-5)
    assert min(lane.start for lane in drawn) == 0
    for _, *counts in concurrency(drawn, 11):
        assert sum(counts) <= len(drawn) + 1e-6
    json.dumps(trace(drawn), allow_nan=False)


def test_episodes_without_times_are_left_out():
    assert len(lanes([episode(), episode(began=0.0)])) == 1
    with pytest.raises(ValueError, match="none of 1 episodes has a start time"):
        lanes([episode(began=0.0)])


def test_the_page_says_how_many_are_left_out(tmp_path):
    page = write(tmp_path / "x.html", "x", [episode(), episode(began=0.0), episode(began=0.0)]).read_text()
    assert "1 episodes in " in page and "; left out: 2 without a start time" in page


def test_the_trace_is_chromes(tmp_path):
    page = write(
        tmp_path / "step000001.html", "step000001", [episode(turns=[turn(0.6)]), episode("babyai_2", env="babyai")]
    )
    events = json.loads(page.with_suffix(".json").read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {"maze", "babyai", "maze_1", "babyai_2"}
    spans = [event for event in events if event["ph"] == "X"]
    assert all({"name", "cat", "ts", "dur", "pid", "tid"} <= event.keys() for event in spans)
    generation = next(event for event in spans if event["name"] == "generate")
    assert (generation["ts"], generation["dur"]) == (pytest.approx(600_000), pytest.approx(200_000))
    assert any(event["ph"] == "C" and event["args"].keys() == set(KINDS) for event in events)


def test_no_text_of_an_episode_becomes_markup(tmp_path):
    page = write(tmp_path / "x.html", "x", [episode(EVIL, turns=[turn(0.6, action=EVIL)])]).read_text()
    assert "<script>alert" not in page
    assert len(re.findall("<script", page)) == 2  # data and code
    data = re.search(r'id="data">(.*?)</script>', page, re.S)[1]
    assert EVIL in json.loads(data)["lanes"][0]["spans"][-1][3]
    assert "http" not in re.sub(r"http-equiv|http://www.w3.org/2000/svg", "", page), (
        "a self-contained page asks for nothing"
    )


def test_a_browser_draws_the_lanes(tmp_path, browser):
    file = write(tmp_path / "x.html", "x", [episode(f"maze_{number}", turns=[turn(0.6)]) for number in range(30)])
    page = browser.new_page(viewport={"width": 1000, "height": 1400})
    page.goto(file.as_uri())
    width, height = page.locator("canvas").first.evaluate("canvas => [canvas.width, canvas.height]")
    page.close()
    assert width > 500
    assert height > 400, "the script has sized the canvas to the lanes"


def test_the_page_begins_with_percentiles_and_the_tail(tmp_path):
    episodes = [episode(f"maze_{number}", reset_s=0.1 * number, turns=[]) for number in range(1, 21)]
    page = write(tmp_path / "x.html", "x", episodes).read_text()
    assert "Half of the episodes had ended after 1.00 s and nine tenths after 1.80 s" in page
    assert "another 0.20 s, 10% of the whole time" in page
    [row] = re.findall(r"an episode</th>(.*?)</tr>", page)
    assert re.findall(r"[\d.]+(?=</td>)", row) == ["1.000", "1.800", "2.000", "2.000"]
    places = [page.index(f"<h2>{title}") for title in ("How long", "At the same", "Where the", "Slowest", "Every")]
    assert places == sorted(places), "the lanes come last"


def timeline(*arguments):
    return CliRunner().invoke(app, ["timeline", *map(str, arguments)])


def test_a_stored_run_is_drawn_afterwards(tmp_path):
    from agentgym_rl.data import episode_store

    run = tmp_path / "demo"
    for name in ("step000001", "step000002"):
        episode_store.write(run / "episodes" / f"{name}.parquet", [episode(turns=[turn(0.6)])])
    result = timeline(run, "--only", "step000002")
    assert result.exit_code == 0, result.output
    beside = tmp_path / "demo.timeline"
    assert [file.name for file in sorted(beside.iterdir())] == ["step000002.html", "step000002.json"]
    assert [path.name for path in run.iterdir()] == ["episodes"], "a reader leaves the run alone"
    assert timeline(run, "--only", "step000001", "--out", tmp_path / "o" / "a.html").exit_code == 0
    assert [file.name for file in sorted((tmp_path / "o").iterdir())] == ["a.html", "a.json"]


def test_a_step_in_which_all_failed_does_not_end_the_others(tmp_path):
    from agentgym_rl.data import episode_store

    for number, began in enumerate((1.7e9, 0.0, 1.7e9)):
        path = tmp_path / "demo" / "episodes" / f"step00000{number}.parquet"
        episode_store.write(path, [episode(began=began, turns=[turn(0.6)])])
    result = timeline(tmp_path / "demo")
    assert result.exit_code == 0 and "left out: step000001, none of whose 1 episodes" in result.output
    assert len([*(tmp_path / "demo.timeline").glob("*.html")]) == 2
    for number in (0, 2):
        episode_store.write(tmp_path / "demo" / "episodes" / f"step00000{number}.parquet", [episode(began=0.0)])
    result = timeline(tmp_path / "demo")
    assert result.exit_code == 2 and "no episode has a start time" in result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--only", "step000003"], "step000001, step000002"),
        (["--out", "a.html"], "choose one of"),
        (["--only", "step000001", "--out", "a.txt"], "ends with .html"),
    ],
)
def test_mistakes_of_the_command_are_one_line(tmp_path, arguments, says):
    from agentgym_rl.data import episode_store

    for name in ("step000001", "step000002"):
        episode_store.write(tmp_path / "episodes" / f"{name}.parquet", [episode(turns=[turn(0.6)])])
    result = timeline(tmp_path, *arguments)
    assert result.exit_code == 2 and says in result.output
