"""Updates of all kinds in one unit of a run, on the real engine with recorded episodes."""

import math
import os
from pathlib import Path

import pytest

os.environ.setdefault("VERL_PLATFORM", "cpu")
pytest.importorskip("verl")

import replay
import test_same_training as recorded
import torch

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def test_updates_of_all_kinds_in_one_unit(tmp_path):
    recording = replay.Recording(recorded.BATCH)
    files = recording.unpack(tmp_path / "recording")
    filled = [override.format(**files) for override in (*recorded.REPLAYED, *recorded.ONLINE)]
    algorithm = f"algorithm={Path(__file__).with_name('every_kind.py')}:EveryKind"
    with replay.ReplaySession(recording) as session:
        session.batch = "plain"
        replay.run([algorithm, *filled, "name=a", f"run.cache={tmp_path}/cache"], tmp_path / "a", session)
    steps = replay.metrics(tmp_path / "a")
    assert len(steps) == 2
    kinds = (
        "supervised/loss",
        "actor/pg_loss",
        "actor/observation_loss",
        "dpo/loss",
        "every_kind/loss",
        "every_kind/grad_norm",
    )
    for step in steps:
        assert all(math.isfinite(step[name]) for name in kinds)
        assert step["dpo/loss"] == pytest.approx(math.log(2), abs=1e-3), "the reference is the policy as it begins"
        assert step["every_kind/updates"] == 2 * math.ceil(28 / 8), "of the 32 recorded episodes 4 failed"
    weights = replay.weights(tmp_path / "a", "actor")
    assert len(weights) == 2


@pytest.mark.slow
@pytest.mark.timeout(1200)  # two launches
def test_a_unit_has_the_same_numbers_while_the_next_is_rolled_out(tmp_path):
    """iStar scores, its reward model learns, the policy learns: on the same episodes in either mode."""
    recording = replay.Recording(recorded.BATCH)
    files = recording.unpack(tmp_path / "recording")
    filled = [override.format(**files) for override in (*recorded.REPLAYED, *recorded.POLICY)]
    istar = (
        "algorithm=istar",
        "algorithm.correction=none",
        "algorithm.prm={lr: 1e-3, mini_batch_pairs: 4}",
        f"run.cache={tmp_path}/cache",
    )
    for mode in ("sync", "colocate_async"):
        with replay.ReplaySession(recording) as session:
            session.batch = "plain"
            replay.run([*filled, *istar, f"engine.mode={mode}", "name=a"], tmp_path / mode, session)
    sync, ahead = (replay.metrics(tmp_path / mode) for mode in ("sync", "colocate_async"))
    assert [step["rollout/staleness"] for step in (*sync, *ahead)] == [0, 0, 0, 1]
    for metrics, other in zip(sync, ahead, strict=True):
        names = [name for name in metrics if name.startswith("prm/") or name in ("actor/pg_loss", "actor/grad_norm")]
        assert metrics["prm/updates"] > 1 and {"prm/loss", "prm/reward_std", "prm/step_auc"} <= {*names}
        assert {name: other[name] for name in names} == pytest.approx({name: metrics[name] for name in names}, abs=1e-6)
    for model in ("actor", "models/prm"):
        weights, others = (replay.weights(tmp_path / mode, model)[2] for mode in ("sync", "colocate_async"))
        assert all(torch.allclose(weights[name], others[name], atol=1e-6) for name in weights)
