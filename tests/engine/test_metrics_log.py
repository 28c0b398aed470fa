"""What a run tells W&B about itself, offline."""

import pytest

pytest.importorskip("verl")
pytest.importorskip("wandb")

from agentgym_rl.engine import recipes
from agentgym_rl.engine.metrics_log import MetricsLog, read

OVERRIDES = ["experiment=smoke", "algorithm=grpo", "seed=3", "name=n-grpo-seed3", "logger.wandb=offline"]


@pytest.mark.parametrize(("group", "shown"), [(["logger.group=ablation"], "ablation"), ([], "n-grpo-seed3")])
def test_group_and_tags_of_a_run_offline(tmp_path, monkeypatch, group, shown):
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    config = recipes.load([*OVERRIDES, *group])
    log = MetricsLog(tmp_path, config, {"seed": 3}, last_step=0)
    log.log(1, {"a": 0.5})
    run = log.wandb
    assert (run.project, run.group, run.name, run.job_type) == ("agentgym-rl", shown, "n-grpo-seed3", "grpo")
    assert set(run.tags) == {"grpo", "textcraft", config.curriculum.type, config.mixture.type, "seed3"}
    assert run.offline and run.config["seed"] == 3
    log.close()
    assert read(tmp_path) == [{"step": 1, "a": 0.5}]
    assert list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))


def test_nothing_is_started_where_wandb_is_disabled(tmp_path):
    log = MetricsLog(tmp_path, recipes.load([*OVERRIDES[:-1], "logger.wandb=disabled"]), {}, last_step=0)
    assert log.wandb is None
    log.close()
    assert not (tmp_path / "wandb").exists()
