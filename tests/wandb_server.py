"""A server on loopback that speaks as much of W&B's protocol as an upload needs."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

KEY = "a" * 40


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

    def respond(self, data, status=200):
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self):
        self.respond({}, 404)

    def do_PUT(self):
        self.server.files[self.server.names[self.path]] = self.body()
        self.respond({})

    def do_POST(self):
        body = self.body()
        if self.path == "/graphql":
            query = json.loads(body)
            self.respond({"data": self.server.answer(query["operationName"], query.get("variables") or {})})
            return
        if self.path.endswith("/file_stream"):
            sent = json.loads(body).get("files", {}).get("wandb-history.jsonl", {"content": []})
            self.server.history += [json.loads(line) for line in sent["content"]]
        self.respond({})


@pytest.fixture
def wandb_server(monkeypatch):
    with Server() as started:
        thread = threading.Thread(target=started.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv("WANDB_BASE_URL", started.url)
        monkeypatch.delenv("WANDB_SERVICE", raising=False)  # of the process that logged the run
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        yield started
        started.shutdown()
        thread.join()
