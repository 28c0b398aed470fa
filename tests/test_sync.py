"""``agentgym-rl sync`` against a server on loopback."""

import json
import shutil

import pytest
from typer.testing import CliRunner
from wandb_server import KEY

from agentgym_rl.cli import app
from agentgym_rl.cli.sync import starts

wandb = pytest.importorskip("wandb")

TABLE = "val/new/toy/episodes"


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """A run that was logged offline."""
    folder = tmp_path_factory.mktemp("logged")
    run = wandb.init(
        project="agentgym-rl", group="arm", name="arm-seed1", id="arm-seed1-1", tags=["seed:1"], dir=folder,
        mode="offline", config={"seed": 1}, settings=wandb.Settings(silent=True, console="off"),
    )  # fmt: skip
    table = wandb.Table(columns=["item"], data=[["toy_1"]])
    run.log({"run/episodes": 8, "val/new/toy/success": 0.5, TABLE: table}, step=1)
    run.log({"run/episodes": 16}, step=2)
    run.finish()
    wandb.teardown()  # its file is whole when the service has ended
    return folder


@pytest.fixture
def folder(logged, tmp_path):
    return shutil.copytree(logged, tmp_path / "runs" / "arm-seed1", symlinks=True)


def sync(*arguments):
    result = CliRunner().invoke(app, ["sync", *map(str, arguments)])
    return result.exit_code, result.output


@pytest.mark.slow
def test_an_offline_run_is_uploaded_once(folder, wandb_server, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    code, output = sync(folder.parent)
    assert code == 0, output
    [(_, sent), *_] = [query for query in wandb_server.queries if query[0] == "UpsertBucket"]
    assert {key: sent[key] for key in ("project", "groupName", "displayName", "name", "tags")} == {
        "project": "agentgym-rl", "groupName": "arm", "displayName": "arm-seed1", "name": "arm-seed1-1",
        "tags": ["seed:1"],
    }  # fmt: skip
    assert json.loads(sent["config"])["seed"]["value"] == 1
    rows = [(row["_step"], row["run/episodes"], row.get("val/new/toy/success")) for row in wandb_server.history]
    assert rows == [(1, 8, 0.5), (2, 16, None)]
    [table] = [json.loads(content) for name, content in wandb_server.files.items() if TABLE in name]
    assert table["data"] == [["toy_1"]]
    assert list((tmp_path / "elsewhere").iterdir()) == []
    asked = len(wandb_server.queries)
    code, output = sync(folder)
    assert code == 0 and "nothing to upload" in output and len(wandb_server.queries) == asked


def test_a_dry_run_says_what_would_go_where(folder, wandb_server):
    code, output = sync(folder, "--dry-run", "--project", "elsewhere")
    assert code == 0 and wandb_server.queries == []
    assert all(
        part in output for part in ("elsewhere", "arm-seed1-1", "to upload", f"would upload 1 to {wandb_server.url}")
    )


def test_the_starts_of_a_run_are_sorted_by_time(tmp_path):
    names = ("run-20260102_000000-a-1", "offline-run-20260101_000000-a-1", "offline-run-20260103_000000-a-1")
    for name in names:
        (tmp_path / "wandb" / name).mkdir(parents=True)
        (tmp_path / "wandb" / name / "run-a-1.wandb").touch()
    (tmp_path / "wandb" / names[2] / "run-a-1.wandb.synced").touch()
    found = starts(tmp_path)
    assert [start.time_and_id for start in found] == [
        ("20260101_000000", "a-1"), ("20260102_000000", "a-1"), ("20260103_000000", "a-1")
    ]  # fmt: skip
    assert [(start.offline, start.uploaded) for start in found] == [(True, False), (False, False), (True, True)]


@pytest.mark.slow
def test_a_start_that_cannot_be_uploaded_is_named(folder, wandb_server):
    [start] = starts(folder)
    [file] = start.folder.glob("run-*.wandb")
    file.write_bytes(file.read_bytes()[:20])
    code, output = sync(folder)
    assert code == 2 and f"1 of 1 are not uploaded: {start.folder}" in output.replace("\n", "")
    assert not start.uploaded


def test_an_upload_that_fails_the_second_time_is_named(tmp_path, monkeypatch):
    start = tmp_path / "wandb" / "offline-run-20260101_000000-a-1"
    start.mkdir(parents=True)
    for name in ("run-a-1.wandb", "run-a-1.wandb.synced"):
        (start / name).touch()
    monkeypatch.setattr("agentgym_rl.cli.sync.server", lambda: "http://127.0.0.1:9")
    monkeypatch.setattr("agentgym_rl.cli.sync.check", lambda url: None)
    monkeypatch.setattr("subprocess.run", lambda *words, **options: None)
    code, output = sync(tmp_path, "--again")
    assert code == 2 and f"1 of 1 are not uploaded: {start}" in output.replace("\n", "")


def test_without_a_network(folder, monkeypatch):
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    code, output = sync(folder)
    assert code == 2 and "http://127.0.0.1:9 cannot be reached" in output and "check the network" in output


def test_without_a_key(folder, wandb_server, monkeypatch, tmp_path):
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    code, output = sync(folder)
    assert code == 2 and "set WANDB_API_KEY or run: wandb login" in output and wandb_server.queries == []
    (tmp_path / ".netrc").write_text(f"machine 127.0.0.1 login user password {KEY}\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    assert "cannot be reached" in sync(folder)[1]
    (tmp_path / ".netrc").write_text("machine\n")
    code, output = sync(folder)
    assert code == 2 and ".netrc, line" in output and "set WANDB_API_KEY" in output


def test_places_without_wandb_files(tmp_path):
    (tmp_path / "run").mkdir()
    code, output = sync(tmp_path / "run")
    assert code == 2 and "logger.wandb=disabled" in output
    code, output = sync(tmp_path / "nothing")
    assert code == 2 and "nothing does not exist" in output
