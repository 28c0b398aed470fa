"""The intervals that the viewer's page computes are those of the package."""

import json
import shutil
import subprocess

import pytest

from agentgym_rl.eval import html
from agentgym_rl.eval.intervals import share_interval

SCRIPT = (html.HERE / "viewer/page/intervals.js").read_text(encoding="utf-8")
ASK = "console.log(JSON.stringify(JSON.parse(require('fs').readFileSync(0, 'utf-8')).map(shareInterval)))"


def of_the_page(shares):
    node = shutil.which("node") or pytest.skip("needs Node.js")
    process = subprocess.run(
        [node, "-e", f"{SCRIPT}\n{ASK}"], input=json.dumps(shares), capture_output=True, text=True, check=True
    )
    return json.loads(process.stdout)


def test_one_sample_a_task_or_all_alike():
    shares = [[float(place < wins) for place in range(n)] for n in range(1, 12) for wins in range(n + 1)]
    shares += [[share] * n for n in range(1, 12) for share in (0.25, 0.5, 0.75)]
    for interval, values in zip(of_the_page(shares), shares, strict=True):
        assert interval == pytest.approx(share_interval(values, "a"), abs=1e-6)


def test_several_samples_a_task():
    shares = [[(place * step % 5) / 4 for place in range(n)] for n in (10, 40, 200) for step in (1, 3)]
    for interval, values in zip(of_the_page(shares), shares, strict=True):
        low, high = share_interval(values, "a")
        assert interval == pytest.approx([low, high], abs=0.1 * (high - low)), "two sets of resamples"
        assert min(values) <= interval[0] < interval[1] <= max(values)
    assert of_the_page(shares) == of_the_page(shares)
