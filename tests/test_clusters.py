"""The files in ``examples/clusters`` and ``docker``: the Slurm script run against stand-ins, the others read."""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SBATCH = ROOT / "examples" / "clusters" / "slurm.sbatch"
SKYPILOT = ROOT / "examples" / "clusters" / "skypilot.yaml"

FAKES = {
    # runs its command here, as a step on the nodes that it is given
    "srun": """
        options=()
        while [ "${1#--}" != "$1" ]; do options+=("$1"); shift; done
        echo "srun ${options[*]} $*" >>"$LOG"
        exec "$@"
    """,
    "scontrol": """
        echo "scontrol $*" >>"$LOG"
        [ "$1" = show ] && printf 'node1\\nnode2\\nnode3\\n' || true
    """,
    # the head answers at the third look
    "ray": """
        case $1 in
            status) echo "status $3 $RAY_AUTH_MODE $(stat -c %a "$RAY_AUTH_TOKEN_PATH")" >>"$LOG"
                    [ "$(grep -c ^status "$LOG")" -ge 3 ] ;;
            start) sleep 0.1 ;;
        esac
    """,
    "sleep": 'exec /bin/sleep "0.0$1"',
    "agentgym-rl": """
        echo "run $*" >>"$LOG"
        trap 'echo saved >>"$LOG"; exit 130' USR1
        touch "$LOG.running"
        [ "$OUTCOME" = waits ] || exit "$OUTCOME"
        while :; do /bin/sleep 0.05; done
    """,
}


@pytest.fixture
def slurm(tmp_path):
    """Starts the script as Slurm would; gives the process and the log of what it called."""
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    for name, body in {**FAKES, "python": f'exec {sys.executable} "$@"'}.items():
        (programs / name).write_text(f"#!/usr/bin/env bash\n{body}")
        (programs / name).chmod(0o755)
    log = tmp_path / "log"

    def start(nodes, outcome):
        variables = {
            "LOG": str(log), "OUTCOME": str(outcome), "AGENTGYM_RL_VENV": str(programs.parent), "SLURM_JOB_ID": "77",
            "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_NODELIST": "node[1-3]",
            "SLURM_GPUS_ON_NODE": "4", "SLURM_CPUS_PER_TASK": "32",
        }  # fmt: skip
        return subprocess.Popen(["bash", str(SBATCH), "experiment=x"], env=os.environ | variables), log

    return start


def test_one_node_needs_no_cluster(slurm):
    process, log = slurm(1, 0)
    assert process.wait(60) == 0
    assert log.read_text() == "run train experiment=x engine.nodes=1 engine.workers=4\n"


def test_several_nodes_join_a_head_that_answers_and_share_a_token(slurm, tmp_path):
    process, log = slurm(3, 0)
    assert process.wait(60) == 0
    said = log.read_text().splitlines()
    assert said[0] == "scontrol show hostnames node[1-3]"
    step = "srun --overlap --cpus-per-task=32 --gpus-per-node=4"
    head = f"{step} --nodes=1 --ntasks=1 --nodelist=node1 ray start --head --port=20077 --block"
    workers = f"{step} --nodes=2 --ntasks=2 --exclude=node1 ray start --address=node1:20077 --block"
    assert head in said and workers in said
    looks = [at for at, line in enumerate(said) if line.startswith("status")]
    assert [said[at] for at in looks] == ["status node1:20077 token 600"] * 3
    assert looks[-1] < said.index(workers), "workers join when the head answers"
    run = "run train experiment=x engine.nodes=3 engine.workers=4 engine.ray_address=node1:20077"
    assert run in said and not any("requeue" in line for line in said)
    assert not list(tmp_path.glob(".ray-token*")), "the token does not outlive the job"


def test_a_run_that_was_saved_before_the_limit_is_queued_again(slurm):
    process, log = slurm(1, "waits")
    deadline = time.monotonic() + 60
    while not Path(f"{log}.running").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 130
    assert log.read_text().splitlines()[-2:] == ["saved", "scontrol requeue 77"]


@pytest.mark.parametrize("status", [1, 2, 130])
def test_a_run_that_ended_by_itself_is_not(slurm, status):
    process, log = slurm(1, status)
    assert process.wait(60) == status
    assert "requeue" not in log.read_text()


def test_what_is_submitted_are_the_commands_of_this_package():
    job = yaml.safe_load((ROOT / "examples" / "clusters" / "rayjob.yaml").read_text())
    assert job["spec"]["entrypoint"].startswith("agentgym-rl train experiment=textcraft_grpo_3b run.dir=/shared/")
    cluster = job["spec"]["rayClusterSpec"]
    pins = (ROOT / "constraints" / "gpu.txt").read_text()
    assert f"ray=={cluster['rayVersion']}\n" in pins and cluster["authOptions"] == {"mode": "token"}
    (worker,), entry = cluster["workerGroupSpecs"], job["spec"]["entrypoint"]
    assert f"engine.nodes={worker['replicas']}" in entry
    (container,) = worker["template"]["spec"]["containers"]
    assert f"engine.workers={container['resources']['limits']['nvidia.com/gpu']}" in entry
    (head,) = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    assert head["env"] == container["env"], "the run starts there, and reads the same cache of models"


@pytest.fixture
def one_gpu(tmp_path):
    """Runs the script for one GPU with stand-ins for ``agentgym-rl`` and Python; returns what they were asked."""
    asked = tmp_path / "asked"
    for name in ("agentgym-rl", "python"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{asked}\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "out" / "shape-model").mkdir(parents=True)
    (tmp_path / "out" / "shape-model" / "config.json").touch()

    def run(**variables: str) -> list[str]:
        stand_ins = {"BY": str(tmp_path / "agentgym-rl"), "PYTHON": str(tmp_path / "python"), "MODEL": str(tmp_path)}
        script = ROOT / "examples" / "clusters" / "one_gpu.sh"
        given = {**os.environ, "STEPS": "shape smollm2", **stand_ins, **variables}
        subprocess.run([script, tmp_path / "out"], env=given, check=True, capture_output=True, timeout=30)
        return asked.read_text().splitlines()

    return run


@pytest.mark.parametrize(
    "variables", [{}, {"TASKS": "16"}, {"TRAINED": "2"}, {"KEYS": "engine.memory_fraction=0.3 seed=1"}]
)
def test_the_script_for_one_gpu_hands_on_what_it_is_given_and_gives_no_key_twice(one_gpu, variables):
    shape, phases, sweep = one_gpu(**variables)
    keys = f" {variables.get('KEYS', 'engine.workers=1')} "
    tasks, steps = variables.get("TASKS", "24"), variables.get("TRAINED", "3")
    assert f"algorithm.tasks_per_step={tasks} " in shape and f"algorithm.mini_batch_tasks={tasks} " in shape
    assert f"algorithm.steps={steps} " in shape and keys in shape and keys in sweep and "--alone" in phases
    for command in (shape, sweep):
        words = [word.partition("=")[0] for word in command.split() if "=" in word]
        assert len(words) == len(set(words))


def test_what_the_script_for_one_gpu_has_done_is_not_done_again(one_gpu):
    assert one_gpu() == one_gpu()


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid: apt install util-linux")
def test_the_script_for_one_gpu_ends_what_it_runs_when_it_is_stopped(tmp_path):
    started = tmp_path / "started"
    (tmp_path / "agentgym-rl").write_text(f"#!/bin/sh\necho $$ >{started}\nexec sleep 60\n")
    (tmp_path / "agentgym-rl").chmod(0o755)
    script = ROOT / "examples" / "clusters" / "one_gpu.sh"
    given = {**os.environ, "STEPS": "smoke", "BY": str(tmp_path / "agentgym-rl"), "PYTHON": "python3", "ENGINE": "cpu"}
    process = subprocess.Popen([script, tmp_path / "out"], env=given, start_new_session=True)
    deadline = time.monotonic() + 20
    while not (started.is_file() and started.read_text()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(20) != 0
    while Path(f"/proc/{started.read_text().strip()}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_skypilot_installs_and_runs_on_a_machine_with_its_uv(tmp_path):
    for name in (".local/bin/uv", "scripts/setup_gpu.sh", "venv/bin/agentgym-rl"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text('#!/bin/sh\necho "$0" "$@" "${VENV-}" "${PYTHON-}" >>"$HOME/log"\n')
        (tmp_path / name).chmod(0o755)
    task = yaml.safe_load(SKYPILOT.read_text())
    variables = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "SKYPILOT_NUM_GPUS_PER_NODE": "8"}
    for script in (task["setup"], task["run"]):
        subprocess.run(["bash", "-c", script], env=variables, cwd=tmp_path, check=True)
    venv, (shared,) = f"{tmp_path}/venv", task["file_mounts"]
    assert [line.split() for line in (tmp_path / "log").read_text().splitlines()] == [
        [f"{tmp_path}/.local/bin/uv", "venv", "--seed", "--allow-existing", "--python", "3.12", venv],
        ["scripts/setup_gpu.sh", venv, f"{venv}/bin/python"],
        [f"{venv}/bin/agentgym-rl", "train", "experiment=textcraft_grpo_3b", f"run.dir={shared}/runs/textcraft",
         "engine.workers=8"],
    ]  # fmt: skip


@pytest.mark.skipif("SKY_BIN" not in os.environ, reason="needs SkyPilot in an environment: make sky-check")
def test_skypilot_reads_its_file_and_would_refuse_a_wrong_key(tmp_path):
    script = """
import sys, sky
from sky.skylet.constants import SKYPILOT_NUM_GPUS_PER_NODE
for path in sys.argv[1:]:
    task = sky.Task.from_yaml(path)
    (resources,), (bucket,) = task.resources, task.storage_mounts.values()
    print(resources.accelerators, resources.use_spot, bucket.mode.value, SKYPILOT_NUM_GPUS_PER_NODE in task.run)
"""
    mistaken = tmp_path / "mistaken.yaml"
    mistaken.write_text(SKYPILOT.read_text().replace("use_spot:", "use_spots:"))
    command = [Path(os.environ["SKY_BIN"], "python").absolute(), "-c", script, SKYPILOT, mistaken]
    variables = os.environ | {"HOME": str(tmp_path), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    done = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "{'H100': 8} True MOUNT_CACHED True\n" and "use_spots" in done.stderr


def test_scripts_can_be_executed():
    for script in (SBATCH, ROOT / "examples/clusters/submit.sh", ROOT / "scripts/setup_gpu.sh"):
        assert script.stat().st_mode & stat.S_IXUSR, script
        subprocess.run(["bash", "-n", str(script)], check=True)


@pytest.mark.parametrize("word", ["python3.13", "nothing-of-the-kind"])
def test_the_gpu_set_up_refuses_another_python(word, tmp_path):
    (tmp_path / "python3.13").write_text("#!/bin/sh\necho 3 13\n")
    (tmp_path / "python3.13").chmod(0o755)
    variables = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHON": word,
        "VENV": str(tmp_path / "venv"),
    }
    done = subprocess.run(
        [str(ROOT / "scripts" / "setup_gpu.sh")], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and f"setup: {word} is not Python 3.12" in done.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize(
    ("script", "venv"),
    [
        ("setup_cpu", ".venv"),
        ("setup_gpu", ".venv-gpu"),
        ("test_light", ".venv-light/3.12"),
        ("check_doors", ".venv/doors"),
    ],
)
def test_an_environment_that_was_cut_off_before_it_had_pip_is_made_again(script, venv, tmp_path):
    """As where Debian's venv package is missing: the folder is there, with Python, and without pip."""
    makes = 'case "$*" in *"-m venv"*) echo "$@" >>"$MADE"; exit 1 ;; *%d.%d*) echo 3.12 ;; *) echo 3 12 ;; esac'
    for place, body in ((f"{venv}/bin", 'case "$*" in *"-m pip"*) exit 1 ;; esac'), ("base/bin", makes)):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "python").write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / place / "python").chmod(0o755)
    for folder in ("scripts", "constraints"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    variables = {"MADE": str(tmp_path / "made"), "PYTHON": str(tmp_path / "base/bin/python"), "BASE": "base"}
    done = subprocess.run([tmp_path / f"scripts/{script}.sh"], env=os.environ | variables, check=False)
    assert done.returncode == 1 and (tmp_path / "made").read_text() == f"-m venv {venv}\n"


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_images_are_pinned_built_in_stages_and_run_as_a_user(name):
    text = (ROOT / "docker" / f"{name}.Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert len(bases) == 3 and re.search(r":\d+\.\d+\.\d+", bases[0]) and set(bases[1:]) == {"base"}
    assert f"scripts/setup_{name}.sh" in text
    assert text.rindex("\nUSER 10001") > text.rindex("\nRUN")
