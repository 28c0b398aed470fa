"""``agentgym-rl sync``, against a server on loopback that speaks as much of W&B's protocol as an upload needs."""

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from agentgym_rl.cli import app

wandb = pytest.importorskip("wandb")

KEY = "a" * 40
TABLE = "val/new/toy/episodes"


class Server(ThreadingHTTPServer):
    """Keeps what it is sent."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.queries, self.history, self.files, self.names = [], [], {}, {}
        self.url = f"http://127.0.0.1:{self.server_port}"

    def answer(self, name, variables):
        self.queries.append((name, variables))
        identity = {"id": "aWQ="}
        if name == "UpsertBucket":
            project = identity | {"name": variables["project"], "entity": identity | {"name": "team"}}
            bucket = identity | {"name": variables["name"], "config": "{}", "project": project, "historyLineCount": 0}
            return {"upsertBucket": {"bucket": bucket, "inserted": True}}
        if name == "CreateArtifact":
            artifact = identity | {"state": "COMMITTED", "artifactSequence": {"latestArtifact": identity}}
            return {"createArtifact": {"artifact": artifact}}
        if name == "CreateRunFiles":
            self.names |= {f"/upload/{len(self.names) + at}": name for at, name in enumerate(variables["files"])}
            places = [{"name": name, "uploadUrl": self.url + place} for place, name in self.names.items()]
            return {"createRunFiles": {"runID": "aWQ=", "uploadHeaders": [], "files": places}}
        return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_):
        pass

    def reply(self, data, status=200):
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self):
        self.reply({}, 404)

    def do_PUT(self):
        self.server.files[self.server.names[self.path]] = self.body()
        self.reply({})

    def do_POST(self):
        body = self.body()
        if self.path == "/graphql":
            query = json.loads(body)
            self.reply({"data": self.server.answer(query["operationName"], query.get("variables") or {})})
            return
        if self.path.endswith("/file_stream"):
            sent = json.loads(body).get("files", {}).get("wandb-history.jsonl", {"content": []})
            self.server.history += [json.loads(line) for line in sent["content"]]
        self.reply({})


@pytest.fixture
def server(monkeypatch):
    with Server() as started:
        thread = threading.Thread(target=started.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv("WANDB_BASE_URL", started.url)
        monkeypatch.delenv("WANDB_SERVICE", raising=False)  # of the process that logged the run
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        yield started
        started.shutdown()
        thread.join()


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


def test_an_offline_run_is_uploaded_once(folder, server, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    code, output = sync(folder.parent)
    assert code == 0, output
    [(_, sent), *_] = [query for query in server.queries if query[0] == "UpsertBucket"]
    assert {key: sent[key] for key in ("project", "groupName", "displayName", "name", "tags")} == {
        "project": "agentgym-rl", "groupName": "arm", "displayName": "arm-seed1", "name": "arm-seed1-1",
        "tags": ["seed:1"],
    }  # fmt: skip
    assert json.loads(sent["config"])["seed"]["value"] == 1
    rows = [(row["_step"], row["run/episodes"], row.get("val/new/toy/success")) for row in server.history]
    assert rows == [(1, 8, 0.5), (2, 16, None)]
    [table] = [json.loads(content) for name, content in server.files.items() if TABLE in name]
    assert table["data"] == [["toy_1"]]
    assert list((tmp_path / "elsewhere").iterdir()) == []
    asked = len(server.queries)
    code, output = sync(folder)
    assert code == 0 and "nothing to upload" in output and len(server.queries) == asked


def test_a_dry_run_says_what_would_go_where(folder, server):
    code, output = sync(folder, "--dry-run", "--project", "elsewhere")
    assert code == 0 and server.queries == []
    assert all(part in output for part in ("elsewhere", "arm-seed1-1", "to upload", f"would upload 1 to {server.url}"))


def test_without_a_network(folder, monkeypatch):
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    code, output = sync(folder)
    assert code == 2 and "http://127.0.0.1:9 cannot be reached" in output and "check the network" in output


def test_without_a_key(folder, server, monkeypatch, tmp_path):
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    code, output = sync(folder)
    assert code == 2 and "set WANDB_API_KEY or run: wandb login" in output and server.queries == []
    (tmp_path / ".netrc").write_text(f"machine 127.0.0.1 login user password {KEY}\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    assert "cannot be reached" in sync(folder)[1]


def test_places_without_wandb_files(tmp_path):
    (tmp_path / "run").mkdir()
    code, output = sync(tmp_path / "run")
    assert code == 2 and "logger.wandb=disabled" in output
    code, output = sync(tmp_path / "nothing")
    assert code == 2 and "nothing does not exist" in output
