"""What the panels of a run share with what it learns from is counted at its start, whatever names the tasks."""

import asyncio
import json

import pytest

from agentgym_rl.data.overlap import Overlap, report
from agentgym_rl.engine.recipe.compose import load
from agentgym_rl.engine.recipe.config import EnvConfig, PanelConfig
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run import demonstrations
from agentgym_rl.rollout.collect import collect

pytestmark = pytest.mark.usefixtures("toy_recipes")


def overlaps(tmp_path, *arguments, **envs):
    """The overlaps of a run with further environments."""
    config = load([*arguments, f"run.dir={tmp_path / 'run'}", "run.cache=null"])
    config.envs.update({name.replace("_", "-"): env for name, env in envs.items()})
    run = Resolved(config)
    return run.overlaps(demonstrations.files(run, tmp_path))


def ids(path, *item_ids):
    path.write_text(json.dumps([{"item_id": item_id} for item_id in item_ids]))
    return path


def test_panels_of_other_splits_share_nothing(tmp_path):
    shared = overlaps(tmp_path, "experiment=counter")
    assert shared == {"counter": {"test": Overlap(4, 0, 0)}}
    assert report(shared) == "overlap: no panel has a task that is trained on"


def test_files_and_demonstrations_are_counted(tmp_path):
    listed = ids(tmp_path / "ids.json", *(f"counter_{index}" for index in range(6)))
    env = EnvConfig(split=str(listed), demonstrations=3, panels={"again": PanelConfig(split=str(listed))})
    shared = overlaps(tmp_path, "experiment=counter", counter=env)
    assert shared["counter"] == {"again": Overlap(6, 6, 3)}
    assert report(shared) == "overlap: counter/again: 6 of 6 tasks are training tasks, 3 have demonstrations"


def test_a_file_of_demonstrations_counts_by_content(tmp_path):
    path = tmp_path / "demonstrations.json"
    asyncio.run(collect("repeating", "train", path, n=8))
    shared = overlaps(
        tmp_path, "experiment=repeating", f"envs.repeating.demonstrations_file={path}", "envs.repeating.pool=8"
    )
    assert shared["repeating"] == {"test": Overlap(4, 4, 4)}  # all three games are among eight tasks


def test_demonstrations_of_agentgym_say_what_their_ids_mean_here(tmp_path, caplog):
    path = tmp_path / "textcraft_train.json"
    asyncio.run(collect("textcraft", "train", path, n=2))
    env = EnvConfig(demonstrations_file=str(path), panels={"seen": PanelConfig(split="train", n=374)})
    assert overlaps(tmp_path, "experiment=counter", textcraft=env)["textcraft"] == {"seen": Overlap(374, 374, 2)}
    assert f"{path}: ids of AgentGym's data are other goals here" in caplog.text


def test_parts_of_an_environment_count_together(tmp_path):
    part = EnvConfig(pool=5, panels={"own": PanelConfig(split="train")})
    shared = overlaps(tmp_path, "experiment=counter", counter_few=part)
    assert shared["counter-few"] == {"own": Overlap(40, 40, 3)}


def test_no_panel_is_no_line():
    assert report({"counter": {}}) == ""
