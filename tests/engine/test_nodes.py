"""Two Ray nodes, each in a network namespace of its own on this machine, joined by a token. Run by ``make e2e-nodes``.

FSDP reaches across both (gloo); each has a vLLM server, and environments as Ray actors. The namespaces need root.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from words import once

pytestmark = [
    pytest.mark.nodes,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="network namespaces need root and ip"),
]

BIN = Path(sys.executable).parent
NET = "10.77.0"
PORT = 6379
ALGORITHMS = "bc,grpo,rloo,reinforce_pp,gigpo,dpo,agentevol"
RECIPE = (
    "experiment=smoke", "+env=maze", "logger.wandb=disabled", "run.evaluate_untrained=false",
    "engine.nodes=2", "engine.workers=1", f"engine.ray_address={NET}.1:{PORT}", "engine.start_seconds=600",
    "engine.kv_cache_gib=1", "envs.maze.difficulty=[steps 1-4]", "envs.maze.demonstrations=48",
    "envs.maze.panels.test.n=8", "envs.maze.max_turns=6", "envs.maze.host.kind=ray", "envs.maze.host.workers=2",
    "envs.textcraft.demonstrations=0", "envs.textcraft.max_turns=4", "envs.textcraft.panels.new_variants.n=2",
    "cloning.epochs=4", "cloning.lr=4e-3",
    "cloning.mini_batch_trajectories=4",
)  # fmt: skip


def ip(*words: object) -> None:
    subprocess.run(["ip", *map(str, words)], check=True)


class Nodes:
    """Two namespaces on a bridge, and what ``ray start --block`` runs in each."""

    def __init__(self, place: Path) -> None:
        self.place, self.names = place, [f"ag{os.getpid()}n{number}" for number in (1, 2)]
        self.bridge = f"agb{os.getpid()}"
        token = place / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        self.variables = os.environ | {
            "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "GLOO_SOCKET_IFNAME": "eth0",
            "RAY_TMPDIR": str(place / "ray"),
        }  # fmt: skip
        self.started: dict[int, subprocess.Popen[bytes]] = {}

    def wire(self) -> None:
        ip("link", "add", self.bridge, "type", "bridge")
        ip("link", "set", self.bridge, "up")
        for number, name in enumerate(self.names, start=1):
            ip("netns", "add", name)
            ip("link", "add", f"{self.bridge}p{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"{self.bridge}p{number}", "master", self.bridge, "up")
            ip("-n", name, "address", "add", f"{NET}.{number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", name, "link", "set", device, "up")

    def unwire(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", self.bridge], check=False)

    def inside(self, number: int, *command: object) -> list[str]:
        return ["ip", "netns", "exec", self.names[number - 1], *map(str, command)]

    def start(self, number: int) -> None:
        head = ["--head", f"--port={PORT}", "--include-dashboard=false"]
        where = head if number == 1 else [f"--address={NET}.1:{PORT}"]
        command = [
            BIN / "ray", "start", *where, f"--node-ip-address={NET}.{number}", "--num-cpus=16", "--num-gpus=2",
            "--object-store-memory=500000000", "--disable-usage-stats", "--block",
        ]  # fmt: skip
        with (self.place / f"node{number}.log").open("ab") as log:
            self.started[number] = subprocess.Popen(
                self.inside(number, *command), stdout=log, stderr=log, env=self.variables, start_new_session=True,
                cwd=self.place,
            )  # fmt: skip
        deadline = time.monotonic() + 120
        while self.alive() < number:
            assert time.monotonic() < deadline, (self.place / f"node{number}.log").read_text()
            time.sleep(1)

    def alive(self) -> int:
        """Nodes that ``ray status`` counts."""
        command = self.inside(1, BIN / "ray", "status", f"--address={NET}.1:{PORT}")
        done = subprocess.run(command, capture_output=True, text=True, env=self.variables, check=False)
        return len(re.findall(r"^ *\d+ node_", done.stdout.partition("Pending:")[0], re.MULTILINE))

    def kill(self, number: int) -> None:
        """As when the machine is gone."""
        process = psutil.Process(self.started.pop(number).pid)
        for child in [*process.children(recursive=True), process]:
            if child.is_running():
                child.kill()

    def train(self, folder: Path | str, *overrides: str, sweep: bool = False) -> subprocess.Popen[str]:
        words = once(*RECIPE, f"run.dir={folder}", *overrides)
        command = [BIN / "agentgym-rl", "train", *(["-m"] if sweep else []), *words]
        return subprocess.Popen(
            self.inside(1, *command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.variables,
            cwd=self.place, start_new_session=True,
        )  # fmt: skip


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    kept = os.environ.get("NODES_DIR")
    found = Nodes(Path(kept) if kept else tmp_path_factory.mktemp("n"))
    found.wire()
    try:
        found.start(1)
        found.start(2)
        yield found
    finally:
        for number in list(found.started):
            found.kill(number)
        found.unwire()


def metrics(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_every_algorithm_learns_over_two_nodes(nodes: Nodes) -> None:
    run = nodes.train("runs/${name}", f"algorithm={ALGORITHMS}", f"run.cache={nodes.place}/cloned", sweep=True)
    out, _ = run.communicate(timeout=1500)
    assert run.returncode == 0, out[-6000:]
    for name in ALGORITHMS.split(","):
        folder = nodes.place / "runs" / f"smoke-{name}-seed0"
        rows = metrics(folder)
        assert any(f"stage/{name}" in row for row in rows), name
        shards = {path.name for path in folder.glob("checkpoints/*/actor/model_world_size_2_rank_*.pt")}
        assert shards == {f"model_world_size_2_rank_{rank}.pt" for rank in (0, 1)}


@pytest.mark.parametrize(
    "overrides",
    [("algorithm=ppo", "algorithm.critic_warmup=1"), ("algorithm=grpo", "engine.mode=colocate_async"),
     ("algorithm=grpo", "engine.mode=separate_async")],
    ids=["critic", "colocate_async", "separate_async"],
)  # fmt: skip
def test_other_groups_of_workers_reach_over_two_nodes(
    nodes: Nodes, overrides: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    folder = nodes.place / request.node.callspec.id
    run = nodes.train(folder, *overrides, f"run.cache={nodes.place}/cloned")
    out, _ = run.communicate(timeout=900)
    assert run.returncode == 0, out[-6000:]
    assert sum("actor/pg_loss" in row for row in metrics(folder)) == (1 if "algorithm=ppo" in overrides else 2)
    for group in ("actor", "critic") if "algorithm=ppo" in overrides else ("actor",):
        assert len(list(folder.glob(f"checkpoints/*/{group}/model_world_size_2_rank_1.pt"))) >= 1, group


def test_a_node_that_dies_ends_the_run_and_the_same_command_resumes(nodes: Nodes) -> None:
    folder = nodes.place / "broken"
    overrides = ("algorithm=grpo", "algorithm.steps=6", f"run.cache={nodes.place}/cloned")
    run = nodes.train(folder, *overrides)
    deadline = time.monotonic() + 600
    while not ((folder / "metrics.jsonl").is_file() and any("stage/grpo" in row for row in metrics(folder))):
        assert run.poll() is None and time.monotonic() < deadline, run.communicate()[0]
        time.sleep(0.2)
    nodes.kill(2)
    killed = time.monotonic()
    out, _ = run.communicate(timeout=300)
    ended = time.monotonic() - killed
    print(f"nodes: a node killed: the run ended after {ended:.1f} s")
    errors = [line for line in out.splitlines() if line.startswith("Error:")]
    assert run.returncode == 1 and len(errors) == 1 and "the same command resumes" in errors[0], out[-6000:]
    assert "Traceback" not in out and ended < 60
    nodes.start(2)
    out, _ = (again := nodes.train(folder, *overrides)).communicate(timeout=600)
    assert again.returncode == 0 and "resumed at step" in out, out[-6000:]
    assert [row["stage/grpo"] for row in metrics(folder) if "run/units" in row and "stage/grpo" in row] == [
        1, 2, 3, 4, 5, 6,
    ]  # fmt: skip


def test_a_driver_without_the_token_is_refused_in_one_line(nodes: Nodes) -> None:
    nodes.variables, kept = {k: v for k, v in nodes.variables.items() if "RAY_AUTH" not in k}, nodes.variables
    try:
        run = nodes.train(nodes.place / "refused", "algorithm=bc", "engine.start_seconds=60")
        out, _ = run.communicate(timeout=200)
    finally:
        nodes.variables = kept
    assert run.returncode == 1 and "RAY_AUTH_TOKEN_PATH" in out and "Traceback" not in out, out
