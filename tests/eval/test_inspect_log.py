"""Evaluations as logs of Inspect AI."""

import json
import subprocess
import sys
import time
import urllib.request
from itertools import count
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym_rl.api.evaluation import evaluate
from agentgym_rl.cli import app
from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.eval.inspect_log import export, log

pytest.importorskip("pyarrow")


def episode(item_id="toy_1", ending=Ending.TERMINATED, success=True, **values):
    messages = [{"role": "user", "content": "start"}, {"role": "assistant", "content": "go"}]
    turn = Turn(response="go", action="go", observation="the end", reward=float(success), invalid=False, model_s=2.0)
    base = {"reward": float(success), "max_turns": 5, "messages": messages, "turns": [turn], "began": 1_800_000_000.0}
    return Episode(env="toy", item_id=item_id, ending=ending, success=success, **(base | values))


def test_a_sample_is_an_episode():
    written = log([episode(), episode(success=False), episode("toy_2")], {"model": "m", "digest": "d"}, "toy/test")
    assert [(sample["id"], sample["epoch"]) for sample in written["samples"]] == [
        ("toy_1", 1),
        ("toy_1", 2),
        ("toy_2", 1),
    ]
    first = written["samples"][0]
    assert [message["content"] for message in first["input"]] == ["start"]
    assert [message["content"] for message in first["messages"]] == ["start", "go", "the end"]
    assert first["scores"]["success"]["value"] == 1
    assert written["eval"]["metadata"] == {"digest": "d"} and written["eval"]["config"] == {"epochs": 2}
    [success, _] = written["results"]["scores"]
    assert success["metrics"]["mean"]["value"] == 0.75, "tasks weigh the same"
    assert success["metrics"]["ci95_low"]["value"] < 0.75


def test_a_turn_is_a_model_event():
    texts = ("rules", "OK.", "hall", "go", "hall", "go")
    messages = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]
    turns = [
        Turn(response="go", action="go", observation="hall", reward=0, invalid=False, began_s=at, model_s=1)
        for at in (0.0, 3.0)
    ]
    written = log([episode(messages=messages, turns=turns)], {"model": "m"}, "toy/test")
    [sample] = written["samples"]
    assert [event["input_refs"] for event in sample["events"]] == [[[0, 3]], [[0, 5]]]
    assert [event["completed"][-8:] for event in sample["events"]] == ["01+00:00", "04+00:00"]
    pool = sample["events_data"]["messages"]
    assert [event["output"]["choices"][0]["message"] for event in sample["events"]] == [pool[3], pool[5]]
    assert len({message["id"] for message in sample["messages"]}) == 7, "equal texts are different messages"


def test_an_episode_ends_after_its_last_turn():
    """The reset and what lies between turns take time, too."""
    turn = Turn(
        response="go",
        action="go",
        observation="hall",
        reward=0,
        invalid=False,
        began_s=10,
        model_s=2,
        parse_s=1,
        env_s=4,
    )
    written = log([episode(turns=[turn], reset_s=9.0)], {"model": "m"}, "toy/test")
    [sample] = written["samples"]
    assert (sample["total_time"], sample["working_time"]) == (17.0, 15.0), "one second of it was waiting"
    assert written["stats"]["completed_at"][-8:] == "17+00:00"


def test_limits_and_failures_are_told():
    late = episode(ending=Ending.TURN_LIMIT, success=False)
    full = episode(ending=Ending.CONTEXT_LIMIT, success=False, prompt_tokens=30, response_tokens=12)
    died = episode(ending=Ending.ENV_ERROR, success=False, error="EnvUnavailable: gone", turns=[], messages=[])
    written = log([late, full, died], {"model": "m"}, "toy/test")
    assert [sample.get("limit") for sample in written["samples"]] == [
        {"type": "turn", "limit": 5},
        {"type": "context", "limit": 42},
        None,
    ]
    assert "scores" not in written["samples"][2] and written["samples"][2]["error"]["message"] == "EnvUnavailable: gone"
    assert (written["results"]["total_samples"], written["results"]["completed_samples"]) == (3, 2)
    assert written["stats"]["model_usage"]["m"]["total_tokens"] == 42


def test_a_run_gives_a_log_for_each_panel_decoding_and_file(tmp_path):
    run = tmp_path / "run"
    for step in (3, 7):
        episodes = [
            episode(tags={"panel": panel, "decoding": decoding}, model_step=step)
            for panel in ("test", "val")
            for decoding in ("greedy", "sampled")
        ]
        episode_store.write(run / f"episodes/val_bc_step{step:06d}.parquet", episodes)
    episode_store.write(run / "episodes/step000001.parquet", [episode(tags={"split": "train"})])
    (run / "summary.json").write_text(json.dumps({"panels": {"toy": {"test": "0123456789ab"}}}))
    files = export(run, tmp_path / "logs")
    assert len(files) == len(set(files)) == 8 and all(file.is_file() for file in files)
    assert files == export(run, tmp_path / "logs"), "the same names again"
    metadata = [json.loads(file.read_text())["eval"]["metadata"] for file in files]
    assert {panel["digest"] for panel in metadata if panel["panel"] == "test"} == {"0123456789ab"}


def test_training_alone_is_no_evaluation(tmp_path):
    episode_store.write(tmp_path / "episodes/step000001.parquet", [episode()])
    with pytest.raises(ValueError, match="episodes of training only"):
        export(tmp_path, tmp_path / "logs")


@pytest.fixture
def exported(toys, tmp_path, monkeypatch) -> Path:
    """Logs of an evaluation, as the command writes them."""
    monkeypatch.chdir(tmp_path)
    evaluate("random", "counter:test", samples=2, temperature=1, out=Path("result"))
    result = CliRunner().invoke(app, ["export", "result", "--inspect", "--out", "logs"])
    assert result.exit_code == 0, result.output
    [file] = Path("logs").iterdir()
    assert str(file) in result.output
    return tmp_path / file


def test_the_command_takes_the_folder_of_an_evaluation(exported):
    written = json.loads(exported.read_text())
    assert (written["eval"]["task"], written["eval"]["model"]) == ("counter/test", "random")
    assert len(written["samples"]) == 20 and written["eval"]["metadata"]["rules"]
    refused = CliRunner().invoke(app, ["export", "result", "--inspect", "--out", "logs", "--step", "3"])
    assert refused.exit_code == 2 and "--inspect takes none of them" in refused.output
    lost = CliRunner().invoke(app, ["export", "nothing", "--inspect", "--out", "logs"])
    assert lost.exit_code == 2 and "nothing does not exist" in lost.output


def test_inspect_reads_it(other, exported):
    inspect = other("inspect_ai.log")
    [info] = inspect.list_eval_logs(str(exported.parent))
    read = inspect.read_eval_log(info)
    assert (read.status, read.eval.task, len(read.samples)) == ("success", "counter/test", 20)
    means = {score.name: score.metrics["mean"].value for score in read.results.scores}
    assert means["success"] == sum(sample.scores["success"].value for sample in read.samples) / 20
    assert read.samples[0].messages[0].role == "user" and read.samples[0].output.completion
    again = exported.with_suffix(".eval")
    inspect.write_eval_log(read, str(again))
    both = [
        {(sample.id, sample.epoch): sample.scores for sample in log.samples}
        for log in (read, inspect.read_eval_log(str(again)))
    ]
    assert both[0] == both[1]


def test_inspects_data_frames_have_it(other, exported):
    analysis = other("inspect_ai.analysis")
    logs = str(exported.parent)
    samples = analysis.samples_df(logs, quiet=True)
    assert len(samples) == 20 and {"score_success", "score_reward"} <= {*samples.columns}
    assert len(analysis.evals_df(logs, quiet=True)) == 1
    written = json.loads(exported.read_text())["samples"]
    assert len(analysis.events_df(logs, quiet=True)) == sum(row["turn_count"] for row in written)
    for parallel in (False, True):
        messages = analysis.messages_df(logs, quiet=True, parallel=parallel)
        shown = [message["content"] for row in written for message in row["messages"][:-1]]
        assert [*messages["content"]] == shown, "all that the model was shown, which the last observation is not"


@pytest.mark.timeout(240)
def test_inspect_view_opens_it(other, exported, unused_port):
    other("inspect_ai")
    command = [sys.executable, "-m", "inspect_ai", "view", "start", "--log-dir", exported.parent, "--port"]
    with subprocess.Popen([*map(str, command), str(unused_port)], stdout=subprocess.DEVNULL) as server:
        try:
            listed = fetch(f"http://127.0.0.1:{unused_port}/api/logs")
            [file] = json.loads(listed)["files"]
            assert file["name"].endswith(exported.name)
            shown = fetch(f"http://127.0.0.1:{unused_port}/api/logs/{urllib.request.quote(file['name'], safe='')}")
            assert len(json.loads(shown)["samples"]) == 20
            assert b"<html" in fetch(f"http://127.0.0.1:{unused_port}/")
        finally:
            server.terminate()


def fetch(url: str) -> bytes:
    """The answer of a server that may still be starting."""
    for attempt in count():
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return answer.read()
        except (ConnectionError, urllib.error.URLError):
            if attempt == 200:
                raise
            time.sleep(0.5)
    raise AssertionError


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]
