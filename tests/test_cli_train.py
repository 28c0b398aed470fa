"""``agentgym-rl train`` before anything is trained: recipes that a shell completes, and keys of verl."""

import pytest
import yaml
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.cli.common import console

pytest.importorskip("hydra")


def run(*words, **variables):
    return CliRunner().invoke(app, words, prog_name="agentgym-rl", env=variables)


@pytest.mark.parametrize(
    ("typed", "words"), [("algorithm=gr", ["algorithm=graphgpo", "algorithm=grpo"]), ("exp", ["experiment="])]
)
def test_a_shell_completes_recipes(typed, words):
    asked = {"_AGENTGYM_RL_COMPLETE": "complete_bash", "COMP_WORDS": f"agentgym-rl train {typed}", "COMP_CWORD": "2"}
    assert run(**asked).stdout.split() == words


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("actor_rollout_ref.actor.optim.lrr", "is unknown (did you mean lr?); verl.actor_rollout_ref.actor.optim has"),
        ("trainer.nope.x", "verl.trainer has"),
        ("trainer.default_hdfs_dir.x", "verl.trainer.default_hdfs_dir has no keys"),
    ],
)
def test_an_unknown_key_of_verl_is_refused_with_those_there_are(key, says):
    result = run("train", "experiment=smoke", f"verl.{key}=1", "--show")
    assert result.exit_code == 2 and f"verl.{key} is unknown" in result.stderr and says in result.stderr


def test_show_refuses_what_a_run_would_be_refused_for():
    asked = ["experiment=textcraft_grpo_3b", "engine.nodes=3", "engine.ray_address=auto"]
    result = run("train", *asked, "--show")
    assert result.exit_code == 2 and "= 64 cannot be shared equally by 24 workers" in result.stderr


def test_the_environment_has_the_last_word():
    shown = run("train", "experiment=smoke", "seed=1", "--show", AGENTGYM_RL_OVERRIDES="seed=2 'name=a-b'").stdout
    assert "\nseed: 2\n" in shown and "name: a-b" in shown


def test_cfg_job_is_show():
    shown = run("train", "experiment=smoke", "--show").stdout
    assert "algorithm:" in shown and run("train", "experiment=smoke", "--cfg", "job").stdout == shown


@pytest.mark.parametrize(
    ("keys", "epochs"),
    [
        ("algorithm=bc envs.textcraft.demonstrations_file=mine.json", 3),
        ("algorithm=agentevol envs.textcraft.demonstrations_file=mine.json", 3),
        ("algorithm=agentevol envs.textcraft.demonstrations_file=mine.json cloning.epochs=0", 0),
        ("algorithm=grpo envs.textcraft.demonstrations=20", 3),
        ("algorithm=grpo envs.textcraft.demonstrations=20 cloning.epochs=5", 5),
        ("algorithm=grpo", 0),
        ("experiment=smoke algorithm=grpo", 1),
    ],
)
def test_demonstrations_are_cloned(keys, epochs):
    shown = run("train", "name=mine", "env=textcraft", *keys.split(), "--show")
    assert yaml.safe_load(shown.stdout)["cloning"]["epochs"] == epochs


def test_cloning_without_demonstrations_or_epochs_is_refused():
    asked = ["train", "name=mine", "env=textcraft", "algorithm=bc", "--show"]
    assert "set envs.<name>.demonstrations or envs.<name>.demonstrations_file" in run(*asked).stderr
    skipped = run(*asked, "envs.textcraft.demonstrations=3", "cloning.epochs=0")
    assert skipped.exit_code == 2 and "algorithm=bc needs cloning.epochs of at least 1" in skipped.stderr


def test_a_folder_in_brackets_is_named_as_it_is(tmp_path, monkeypatch, capsys):
    from agentgym_rl.cli import report

    monkeypatch.setattr(report, "picture", lambda folder: folder / "curves.png")
    monkeypatch.setattr(report, "results", lambda summary: "")
    folder = tmp_path / "[b]"
    folder.mkdir()
    (folder / "summary.json").write_text("{}")
    report.report(folder, console())
    assert f"episodes    {folder}/episodes\n" in capsys.readouterr().out
