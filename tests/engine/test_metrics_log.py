"""What a run logs to W&B offline, as a server gets it from ``agentgym-rl sync``."""

import json
from dataclasses import replace
from unittest.mock import create_autospec

import pytest

pytest.importorskip("verl")
pytest.importorskip("wandb")

import wandb

from agentgym_rl.cli.sync import starts, upload
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.schema import to_dict
from agentgym_rl.engine.run.metrics_log import MetricsLog, read, without_seed
from agentgym_rl.engine.verl.mapping import renamed
from agentgym_rl.eval.diagnosis import Finding
from agentgym_rl.eval.episode_rows import ROWS

OVERRIDES = ["experiment=smoke", "algorithm=grpo", "seed=3", "name=n-grpo-seed3", "logger.wandb=offline"]


def played(number, decoding="sampled", says="go"):
    turn = Turn(response=says, action=says, observation="done", reward=1.0, invalid=False)
    messages = [{"role": "user", "content": "task"}, {"role": "assistant", "content": says}]
    return Episode(
        env="textcraft", item_id=f"textcraft_{number}", ending=Ending.TERMINATED, reward=1.0, success=True, max_turns=5,
        model_step=1, turns=[turn], messages=messages, tags={"panel": "new", "decoding": decoding},
    )  # fmt: skip


def config_of(*overrides):
    """A run's whole configuration, as its log gets it."""
    return to_dict(recipes.load(overrides))


def uploaded(run, server):
    """Upload an offline run; what the server was sent of it."""
    wandb.teardown()  # its file is whole when the service has ended
    [start] = starts(run)
    assert start.offline and not start.uploaded
    upload([start], None, None)
    assert start.uploaded
    [sent, *_] = [variables for name, variables in server.queries if name == "UpsertBucket"]
    return sent


@pytest.mark.slow
def test_what_a_run_logs_offline(tmp_path, wandb_server):
    config = config_of(*OVERRIDES, "cloning.lr=0.5")
    log = MetricsLog(tmp_path, config, last_step=0)
    log.log(1, {"run/episodes": 8.0, "env/textcraft/success": 0.5})
    log.log(1, {"val/new/textcraft/success": 0.25})
    failed = replace(played(0), ending=Ending.TIMEOUT, reward=0.0, success=False)
    sampled = [failed, *(played(number) for number in range(1, 2 * ROWS))]
    log.log_episodes(1, [*sampled, played(0, "greedy", says="<b>" * 2000)])
    log.log(2, {"run/episodes": 16.0})
    log.close()
    assert [row["step"] for row in read(tmp_path)] == [1, 1, 2]

    sent = uploaded(tmp_path, wandb_server)
    assert [sent[key] for key in ("project", "groupName", "displayName", "jobType")] == [
        "agentgym-rl", "n-grpo", "n-grpo-seed3", "grpo"
    ]  # fmt: skip
    assert set(sent["tags"]) == {
        "algorithm:grpo", "env:textcraft", f"mixture:{config['mixture']['type']}",
        f"curriculum:{config['curriculum']['type']}",
        "seed:3",
    }  # fmt: skip
    logged = json.loads(sent["config"])
    assert logged["seed"]["value"] == 3 and logged["cloning"]["value"]["lr"] == 0.5
    first, second = wandb_server.history
    assert (first["_step"], second["_step"], second["run/episodes"]) == (1, 2, 16)
    assert (first["env/textcraft/success"], first["val/new/textcraft/success"]) == (0.5, 0.25)

    [table] = [json.loads(content) for name, content in wandb_server.files.items() if "textcraft/episodes" in name]
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["decoding"] for row in rows] == ["greedy"] + ["sampled"] * ROWS
    assert [row["item"] for row in rows[1:4]] == ["textcraft_0", "textcraft_1", "textcraft_2"]
    assert rows[1]["success"] is rows[1]["reward"] is None, "what does not count has no outcome"
    assert rows[2] | {"conversation": None} == {
        "item": "textcraft_1", "env": "textcraft", "decoding": "sampled", "success": True, "reward": 1.0, "turns": 1,
        "ending": "terminated", "step": 1, "conversation": None,
    }  # fmt: skip
    assert rows[1]["conversation"] == "user: task\nassistant: go\nuser: done"
    assert len(rows[0]["conversation"]) < 1600 and rows[0]["conversation"].endswith("user: done")


def test_a_group_of_its_own(tmp_path, wandb_server):
    log = MetricsLog(tmp_path, config_of(*OVERRIDES, "logger.group=ablation"), last_step=0)
    log.close()
    assert uploaded(tmp_path, wandb_server)["groupName"] == "ablation"


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
    log = MetricsLog(tmp_path, config_of(*OVERRIDES[:-1], "logger.wandb=disabled"), last_step=0)
    assert log.wandb is None
    log.log_episodes(1, [played(0)])
    log.close()
    assert not (tmp_path / "wandb").exists()


def test_a_finding_is_an_alert(tmp_path):
    log = MetricsLog(tmp_path, config_of(*OVERRIDES[:-1], "logger.wandb=disabled"), last_step=0)
    finding = Finding(stage="grpo", rule="entropy", cause="it has collapsed", remedy="lower algorithm.lr")
    log.alert(finding)
    log.wandb = create_autospec(wandb.Run, instance=True)
    log.alert(finding)
    says = "grpo is not learning: it has collapsed; lower algorithm.lr"
    log.wandb.alert.assert_called_once_with(title="grpo is not learning: entropy", text=says, level="WARN")
    log.close()


def test_tensorboard_has_the_same_numbers(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = config_of(*OVERRIDES[:-1], "logger.wandb=disabled", "logger.tensorboard=true")
    for last_step, value in ((0, 0.25), (1, 0.75)):  # the second is a resumed run, which does step 2 again
        log = MetricsLog(tmp_path, config, last_step=last_step)
        for step in range(last_step + 1, 3):
            log.log(step, {"env/textcraft/success": value})
        log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("env/textcraft/success")] == [(1, 0.25), (2, 0.75)]
    assert not (tmp_path / "wandb").exists()


@pytest.mark.parametrize(
    ("of_verl", "ours"),
    [
        ("critic/score/mean", "reward/score/mean"), ("critic/returns/min", "reward/returns/min"),
        ("critic/vf_loss", "critic/vf_loss"), ("critic/values/mean", "critic/values/mean"),
        ("critic/rewards_of_ours", "critic/rewards_of_ours"), ("actor/rewards/mean", "actor/rewards/mean"),
    ],
)  # fmt: skip
def test_rewards_are_not_called_the_critics(of_verl, ours):
    assert renamed(of_verl) == ours


def test_wandb_draws_what_is_of_episodes_against_them(tmp_path, monkeypatch):
    defined = []

    class Started:
        def define_metric(self, name, **more):
            defined.append((name, more))

        def finish(self):
            pass

    monkeypatch.setattr(wandb, "init", lambda **_: Started())
    MetricsLog(tmp_path, config_of(*OVERRIDES), last_step=0).close()
    assert defined == [(family, {"step_metric": "run/episodes"}) for family in ("env/*", "val/*")]
