"""Examples of algorithms for two steps on the real engine, one after the other."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from test_e2e import metrics, summary, sweep

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import prefaced
from agentgym_rl.envs.splits import fingerprint

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

NAMES = ("playbook", "hindsight", "next_state")


@pytest.mark.usefixtures("example_packages")
def test_examples_train(tmp_path: Path) -> None:
    out = sweep(tmp_path, f"algorithm={','.join(NAMES)}", "run.evaluate_untrained=false", "run.greedy=false")
    assert out.count("engine ready") == 1
    for name in NAMES:
        folder = tmp_path / "runs" / f"smoke-{name}-seed0"
        units = [row for row in metrics(folder) if f"stage/{name}" in row and "run/units" in row]
        assert len(units) == 2
        assert any("supervised/loss" in unit for unit in units)
        assert all(math.isfinite(unit.get("supervised/loss", 0.0)) for unit in units)
        if name == "hindsight":
            assert sum(unit["hindsight/relabelled"] for unit in units) > 0
        if name == "next_state":
            assert all(unit["next_state/branches"] >= unit["next_state/observations"] > 0 for unit in units)
        if name == "playbook":
            check_prompts(folder)


def check_prompts(folder: Path) -> None:
    """The lines of the first step stand before the episodes of the second, those of both before the panel's."""
    state = json.loads((folder / "state.json").read_text())
    prompt = state["prompts"]["maze"]
    assert summary(folder)["stages"][-1]["prompts"] == {"maze": fingerprint(prompt, 12)}
    kept = folder / "checkpoints" / state["checkpoint"] / "prompts.json"
    assert json.loads(kept.read_text()) == {"maze": prompt}
    trained, panel = (
        [episode for file in sorted((folder / "episodes").glob(which)) for episode in episode_store.read(file)]
        for which in ("step000012*", "val_playbook_*")
    )
    assert {(episode.env, episode.preface) for episode in panel} == {("maze", prompt), ("textcraft", "")}
    for episode in (*trained, *panel):
        first = episode.messages[episode.start - 1]["content"]
        assert first == prefaced(episode.preface, episode.without_preface[episode.start - 1]["content"])
    assert any(episode.preface for episode in trained)
