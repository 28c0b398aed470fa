"""benchmarks/gpu.py runs with torch and transformers alone, and its sides compute the same loss."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

ROOT = Path(__file__).parents[1]
ALONE = """
import runpy, sys
sys.path.insert(0, "benchmarks")
for name in ("verl", "ray", "vllm", "transfer_queue", "tensordict", "omegaconf", "hydra"):
    sys.modules[name] = None
sys.argv = ["gpu.py", "--device=cpu", "--tiny", "--repeats=1", "--sides=packed,recomputed,by row,padded"]
runpy.run_path("benchmarks/gpu.py", run_name="__main__")
"""


def test_what_is_no_number_is_no_equal(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    gpu, torch = pytest.importorskip("gpu"), pytest.importorskip("torch")
    whole = torch.ones(3)
    assert gpu.difference(whole, whole.double()) == 0
    assert gpu.difference(torch.tensor([1.0, float("nan"), 1.0]), whole.double()) == float("inf")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="torch.compile needs the program openssl")
def test_it_runs_without_an_engine():
    path = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ALONE], cwd=ROOT, env=os.environ | path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"compared, equal", done.stdout)) == 4
    losses = {line[:11].strip(): float(line.split()[-1]) for line in done.stdout.splitlines()[-4:]}
    assert set(losses) == {"packed", "recomputed", "by row", "padded"}
    assert all(loss == pytest.approx(losses["padded"], abs=2e-6) for loss in losses.values())
