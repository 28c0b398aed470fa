"""What a run tells W&B, offline, read back from W&B's own files."""

import pytest

pytest.importorskip("verl")
pytest.importorskip("wandb")

import wandb

from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.run.metrics_log import MetricsLog, read, without_seed
from agentgym_rl.eval.episode_rows import ROWS
from agentgym_rl.eval.wandb_file import stored, table

OVERRIDES = ["experiment=smoke", "algorithm=grpo", "seed=3", "name=n-grpo-seed3", "logger.wandb=offline"]


def played(number, decoding="sampled", says="go"):
    turn = Turn(response=says, action=says, observation="done", reward=1.0, invalid=False)
    messages = [{"role": "user", "content": "task"}, {"role": "assistant", "content": says}]
    return Episode(
        env="textcraft", item_id=f"textcraft_{number}", ending=Ending.TERMINATED, reward=1.0, success=True, horizon=5,
        model_step=1, turns=[turn], messages=messages, tags={"panel": "new", "decoding": decoding},
    )  # fmt: skip


def test_what_a_run_logs_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    config = recipes.load(OVERRIDES)
    log = MetricsLog(tmp_path, config, {"seed": 3, "bc": {"lr": 0.5}}, last_step=0)
    log.log(1, {"run/episodes": 8.0, "env/textcraft/success": 0.5})
    log.log(1, {"val/new/textcraft/success": 0.25})
    log.log_episodes(1, [*(played(number) for number in range(2 * ROWS)), played(0, "greedy", says="<b>" * 2000)])
    log.log(2, {"run/episodes": 16.0})
    log.close()
    wandb.teardown()  # its file is whole when the service has ended
    assert [row["step"] for row in read(tmp_path)] == [1, 1, 2]

    [run] = stored(tmp_path)
    assert run.offline and not run.uploaded
    assert (run.project, run.group, run.name, run.job_type) == ("agentgym-rl", "n-grpo", "n-grpo-seed3", "grpo")
    assert set(run.tags) == {
        "algorithm:grpo", "world:textcraft", f"mixture:{config.mixture.type}", f"curriculum:{config.curriculum.type}",
        "seed:3",
    }  # fmt: skip
    assert run.config["seed"] == 3 and run.config["bc"] == {"lr": 0.5}
    first, second = run.history
    assert (first["_step"], second["_step"], second["run/episodes"]) == (1, 2, 16)
    assert (first["env/textcraft/success"], first["val/new/textcraft/success"]) == (0.5, 0.25)

    rows = table(run, first["val/new/textcraft/episodes"])
    assert [row["decoding"] for row in rows] == ["greedy"] + ["sampled"] * ROWS
    assert [row["item"] for row in rows[1:4]] == ["textcraft_0", "textcraft_1", "textcraft_2"]
    assert rows[1] | {"conversation": None} == {
        "item": "textcraft_0", "world": "textcraft", "decoding": "sampled", "success": True, "reward": 1.0, "turns": 1,
        "ending": "terminated", "step": 1, "conversation": None,
    }  # fmt: skip
    assert rows[1]["conversation"] == "user: task\nassistant: go\nuser: done"
    assert len(rows[0]["conversation"]) < 1600 and rows[0]["conversation"].endswith("user: done")


def test_a_group_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    log = MetricsLog(tmp_path, recipes.load([*OVERRIDES, "logger.group=ablation"]), {}, last_step=0)
    log.close()
    wandb.teardown()
    assert [run.group for run in stored(tmp_path)] == ["ablation"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("demo-grpo-seed3", "demo-grpo"), ("seed=3/lr", "lr"), ("demo-seed30", "demo-seed30"), ("seed3", "seed3"),
        ("a-seed3-lr1", "a-lr1"),
    ],
)  # fmt: skip
def test_names_without_their_seed(name, shown):
    assert without_seed(name, 3) == shown


def test_nothing_is_started_where_wandb_is_disabled(tmp_path):
    log = MetricsLog(tmp_path, recipes.load([*OVERRIDES[:-1], "logger.wandb=disabled"]), {}, last_step=0)
    assert log.wandb is None
    log.log_episodes(1, [played(0)])
    log.close()
    assert not (tmp_path / "wandb").exists()
