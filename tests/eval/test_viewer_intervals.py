"""The intervals that the viewer's page computes are those of the package."""

import json
import shutil
import subprocess

import pytest

from agentgym_rl.eval import html
from agentgym_rl.eval.intervals import share_interval

SCRIPT = (html.HERE / "viewer/page/intervals.js").read_text(encoding="utf-8")
ASK = "console.log(JSON.stringify(JSON.parse(require('fs').readFileSync(0, 'utf-8')).map(shareInterval)))"


def of_the_page(every):
    node = shutil.which("node") or pytest.skip("needs Node.js")
    done = subprocess.run(
        [node, "-e", f"{SCRIPT}\n{ASK}"], input=json.dumps(every), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_one_sample_a_task_or_all_alike():
    every = [[float(place < wins) for place in range(n)] for n in range(1, 12) for wins in range(n + 1)]
    every += [[share] * n for n in range(1, 12) for share in (0.25, 0.5, 0.75)]
    for found, own in zip(of_the_page(every), every, strict=True):
        assert found == pytest.approx(share_interval(own, "a"), abs=1e-6)


def test_several_samples_a_task():
    every = [[(place * step % 5) / 4 for place in range(n)] for n in (10, 40, 200) for step in (1, 3)]
    for found, own in zip(of_the_page(every), every, strict=True):
        low, high = share_interval(own, "a")
        assert found == pytest.approx([low, high], abs=0.1 * (high - low)), "two sets of resamples"
        assert min(own) <= found[0] < found[1] <= max(own)
    assert of_the_page(every) == of_the_page(every)
