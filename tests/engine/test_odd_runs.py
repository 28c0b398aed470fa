"""What people, kills and other machines leave in and around a run."""

import errno
import fcntl
import signal
import subprocess

import pytest

from agentgym_rl.engine.recipe import digest
from agentgym_rl.engine.recipe.checkpoint import find
from agentgym_rl.engine.recipe.compose import load
from agentgym_rl.engine.recipe.config import Config, EngineConfig, EnvConfig, PanelConfig, PretrainedModelConfig
from agentgym_rl.engine.recipe.overrides import check_repeated
from agentgym_rl.engine.recipe.preflight import check_config, check_layers
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import RecipeError
from agentgym_rl.engine.recipe.unused import _value_and_default
from agentgym_rl.engine.recipe.yaml_files import RecipeFiles
from agentgym_rl.engine.run import demonstrations, manifest
from agentgym_rl.engine.run.folder import RunFolder, RunFolderError, State
from agentgym_rl.engine.run.lock import locked
from agentgym_rl.engine.run.stop import Stop


def test_versions_need_no_git_and_name_no_other_repository(tmp_path, monkeypatch):
    package = tmp_path / "lib" / "agentgym_rl" / "engine" / "recipe"
    package.mkdir(parents=True)
    one_commit = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-qm", "theirs"]
    for words in (["git", "init", "-q"], one_commit):
        subprocess.run(words, cwd=tmp_path, check=True)
    with monkeypatch.context() as installed:
        installed.setattr(digest, "__file__", str(package / "digest.py"))
        assert "git" not in digest.versions()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "python" in digest.versions()


def test_what_a_refused_run_made_is_made_anew_by_a_mended_recipe(tmp_path):
    RunFolder(tmp_path, "demonstrations: 5\n", resume=True)
    for made in ("model", "demonstrations"):
        (tmp_path / made).mkdir()
    RunFolder(tmp_path, "demonstrations: 5\n", resume=True)
    assert (tmp_path / "model").is_dir() and (tmp_path / "demonstrations").is_dir()
    RunFolder(tmp_path, "demonstrations: 9\n", resume=True)
    assert not (tmp_path / "model").exists() and not (tmp_path / "demonstrations").exists()


def test_copies_of_checkpoints_are_left_alone(tmp_path):
    folder = RunFolder(tmp_path, "", resume=True)
    for name in ("global_step_2", "global_step_10", "global_step_2.bak"):
        (folder.checkpoints / name).mkdir(parents=True)
    folder.drop_leftovers(State(checkpoint="global_step_10", global_step=10), keep=1)
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["global_step_10", "global_step_2.bak"]


@pytest.mark.parametrize("content", ["", "[]", "{}"])
def test_a_manifest_that_cannot_be_read_is_damage(tmp_path, content):
    (tmp_path / manifest.NAME).write_text(content)
    assert str(manifest.fault(tmp_path)).startswith("its manifest cannot be read: ")


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(RunFolderError, match=r"\.lock cannot be locked: No locks available"), locked(tmp_path):
        pass


def test_demonstrations_are_of_the_training_tasks(tmp_path):
    run = Resolved(load(["env=textcraft", "name=x", "envs.textcraft.pool=4", "envs.textcraft.demonstrations=5"]))
    with pytest.raises(ValueError, match=r"demonstrations=5 are more than the training tasks, envs\.textcraft\.pool=4"):
        demonstrations.files(run, tmp_path)


def test_nothing_is_collected_that_nothing_learns_from(tmp_path):
    config = load(["env=textcraft", "name=x", "cloning.epochs=0"])
    config.envs["textcraft"].demonstrations = 1  # as of a recipe
    assert demonstrations.files(Resolved(config), tmp_path) == {} and not any(tmp_path.iterdir())


def test_a_panel_whose_name_has_a_dot():
    config = Config(name="x", envs={"maze": EnvConfig(panels={"v1": PanelConfig(), "v1.2": PanelConfig(seed=3)})})
    assert _value_and_default(config, "envs.maze.panels.v1.2.seed") == (3, 0)
    assert _value_and_default(config, "envs.maze.panels.v1.seed") == (0, 0)


@pytest.mark.parametrize("size", ["null", "two", "2.5"])
def test_sequences_are_shared_by_a_whole_number_of_gpus(size):
    key = "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size"
    run = Resolved(load(["env=textcraft", "name=x", "cloning.epochs=0", f"verl.{key}={size}"]))
    with pytest.raises(RecipeError, match=rf"{key}=\w.* is not a whole number"):
        check_config(run)


def test_a_share_of_memory_is_at_most_all_of_it():
    with pytest.raises(ValueError, match="memory_fraction=5 is no share; give a number up to 1"):
        EngineConfig(memory_fraction=5)


def test_a_key_is_given_once_whatever_its_prefix():
    check_repeated(["+env=maze", "env=textcraft", "+env=babyai"])
    with pytest.raises(RecipeError, match=r"seed=1 and \+\+seed=2 are both given"):
        check_repeated(["seed=1", "++seed=2"])
    check_repeated(["model=hf", "model.path=a/b"])
    for pair in (["model=a/b", "model.path=c/d"], ["algorithm.loss=sapo", "algorithm.loss.name=ppo"]):
        with pytest.raises(RecipeError, match=" and ".join(pair)):
            check_repeated(pair)


def test_a_recipe_with_a_control_character(tmp_path):
    (tmp_path / "odd.yaml").write_bytes(b"name: a\x07b\n")
    with pytest.raises(RecipeError, match=r"odd\.yaml: .*special characters are not allowed"):
        RecipeFiles("recipes", f"recipes://{tmp_path}").load_config("odd")


@pytest.mark.parametrize("place", ["runs/x:bc", "runs/x/checkpoints/global_step_5"])
def test_a_checkpoint_that_names_its_step_takes_no_other(place):
    with pytest.raises(ValueError, match="names its step; leave out the step 3"):
        find(place, step=3)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_a_run_save_whose_time_is_over(number):
    said = []
    stop = Stop(said.append, 1.0, max_hours=1e-12)
    assert stop()
    stop.handle(number, None)
    assert said[1:] == ["saving already; a second signal stops at once"]
    with pytest.raises(KeyboardInterrupt):
        stop.handle(number, None)


def test_a_model_has_the_layers_that_learn():
    check_layers(PretrainedModelConfig(path="a/b", train_layers=2), 2)
    with pytest.raises(RecipeError, match=r"model\.train_layers=3, but the model has 2 layers"):
        check_layers(PretrainedModelConfig(path="a/b", train_layers=3), 2)
