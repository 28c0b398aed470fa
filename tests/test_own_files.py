"""Files in place of packages: `agentgym-rl new` writes what `check` and `train` take."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.envs import checks, own_files, registry

pytest.importorskip("hydra")
ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def here(files_folder):
    return files_folder


def run(*words):
    return CliRunner().invoke(app, words, env={"COLUMNS": "150"})


def refused(*words):
    done = run(*words)
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit), done.exception
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.slow
def test_what_is_written_passes_its_tests(here):
    for kind, name in (("env", "house"), ("algorithm", "last_turn"), ("curriculum", "slow")):
        assert f"pytest test_{name}.py" in run("new", kind, name).stdout
    told = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{here}"}
    words = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", "--rootdir", "."]
    done = subprocess.run(words, capture_output=True, text=True, env=told)
    assert done.returncode == 0 and "5 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["env", "algorithm", "curriculum"])
def test_any_name_may_be_a_part_of_a_name(here, kind):
    assert f"{kind}=./exoskeleton.py:Exoskeleton" in run("new", kind, "exoskeleton").stdout
    assert "class Exoskeleton(" in (here / "exoskeleton.py").read_text()


def test_a_file_is_checked(monkeypatch):
    monkeypatch.setattr(checks, "HASH_SEEDS", ("1",))
    run("new", "env", "house")
    assert '"passed": true' in run("check", "./house.py", "--n", "2", "--json").stdout
    assert run("tasks", "./house.py:House", "--n", "1", "--json").exit_code == 0


@pytest.mark.slow
def test_files_are_trained_with():
    for kind, name in (("env", "house"), ("algorithm", "last_turn"), ("curriculum", "slow")):
        run("new", kind, name)
    words = ["env=./house.py:House", "algorithm=./last_turn.py:LastTurn", "curriculum=./slow.py", "algorithm.scale=2"]
    shown = yaml.safe_load(run("train", "experiment=smoke", *words, "--show").stdout)
    assert list(shown["envs"]) == ["house"] and shown["envs"]["house"]["demonstrations"] == 16
    assert (shown["algorithm"]["name"], shown["algorithm"]["scale"]) == ("last_turn", 2.0)
    assert shown["curriculum"] == {"type": "slow", "first": 4, "every": 5}
    assert list(yaml.safe_load(run("train", "experiment=smoke", "+env=./house.py", "--show").stdout)["envs"]) == [
        "textcraft", "house",
    ]  # fmt: skip


@pytest.mark.slow
def test_files_are_swept_over():
    pytest.importorskip("verl")
    run("new", "algorithm", "last_turn")
    words = ["experiment=smoke", "name=x-${algorithm.name}", "algorithm=grpo,./last_turn.py:LastTurn"]
    listed = run("train", "-m", "--show", *words).stdout
    assert "runs/x-grpo" in listed and "runs/x-last_turn" in listed


def test_a_file_is_not_added_to_a_group_of_one():
    run("new", "algorithm", "last_turn")
    assert "Multiple values for algorithm" in refused("train", "name=x", "+algorithm=./last_turn.py", "--show")


def test_a_loss_from_a_file(here):
    pytest.importorskip("torch")
    from agentgym_rl.algorithms.losses import loss_of
    from agentgym_rl.engine.recipe.compose import load

    here.joinpath("leaky.py").write_text(
        "from dataclasses import dataclass\n"
        "from agentgym_rl.algorithms.losses.base import Loss, LossConfig\n"
        "@dataclass(kw_only=True)\n"
        "class LeakyConfig(LossConfig):\n"
        "    slope: float = 0.1\n"
        "class Leaky(Loss[LeakyConfig]):\n"
        "    Config = LeakyConfig\n"
        "    def __call__(self, tokens):\n"
        "        return -tokens.log_ratio.exp() * tokens.advantages\n"
    )
    words = ["experiment=smoke", "algorithm=grpo", "algorithm.loss=./leaky.py:Leaky"]
    found = load([*words, "algorithm.loss.slope=0.2"]).algorithm.loss
    assert type(loss_of(found)).__name__ == "Leaky" and found.slope == 0.2
    assert "algorithm.loss.clip is unknown" in refused("train", *words, "algorithm.loss.clip=0.1")


def test_processes_that_are_started_find_them():
    run("new", "env", "house")
    registry.adopt("./house.py:House")
    say = "import agentgym_rl as ag; print('house' in ag.available(), ag.make('house').reset(1))"
    done = subprocess.run([sys.executable, "-c", say], capture_output=True, text=True, cwd="/", check=True,
                          env=os.environ | {"PYTHONPATH": str(ROOT)})  # fmt: skip
    assert done.stdout.startswith("True Parcel 1 is for the ")


@pytest.mark.parametrize(
    ("file", "text", "words", "says"),
    [
        ("a.py", "", ["check", "./b.py"], "./b.py does not exist; `agentgym-rl new` writes a file to start from"),
        ("a.py", "", ["check", "./a.py"], "./a.py does not have one TextEnv to choose"),
        (
            "b1.py",
            "x = 1",
            ["check", "./b1.py:House"],
            "./b1.py does not have the class House, a subclass of TextEnv, to choose",
        ),
        ("c1.py", "1/0", ["check", "./c1.py"], "cannot be imported: ZeroDivisionError: division by zero"),
        ("my-env.py", "", ["check", "./my-env.py"], "my-env.py cannot be imported; rename it"),
        ("yaml.py", "", ["check", "./yaml.py"], "yaml.py has the name of the module 'yaml' that is installed; rename"),
        (
            "d1.py",
            "",
            ["train", "experiment=smoke", "algorithm=./d1.py:A"],
            "./d1.py does not have the class A, a",
        ),
        ("house.py", "", ["new", "env", "house"], "house.py exists; choose another name, or remove it"),
        ("a.py", "", ["new", "env", "My-House"], "'My-House' is no name of a file of Python; give small letters"),
        ("a.py", "", ["new", "env", "tool_todo"], "ids such as tool_todo_0 are not read as those of 'tool_todo'; give"),
        ("a.py", "", ["new", "env", "häuser"], "ids such as häuser_0 are not read as those of 'häuser'; give small"),
        ("a.py", "", ["new", "env", "numpy"], "'numpy' is taken, by Python or by what is installed; choose another"),
        ("a.py", "", ["new", "env", "true"], "'true' is taken, by Python"),
        ("a.py", "", ["new", "env", "step"], "'step' is taken, by Python"),
        ("a.py", "", ["new", "algorithm", "policy_gradient"], "'policy_gradient' is taken, by Python"),
    ],
)
def test_files_that_cannot_be_used(here, file, text, words, says):
    (here / file).write_text(text)
    assert says in refused(*words)


def test_a_comma_in_a_path_is_refused(here):
    (here / "a,b").mkdir()
    (here / "a,b" / "comma.py").write_text("class House:\n    pass\n")
    with pytest.raises(ValueError, match="has a comma, which parts files in AGENTGYM_RL_FILES"):
        own_files.adopt("./a,b/comma.py", object)


def test_a_file_with_several_environments_asks_which(here):
    run("new", "env", "house")
    text = (here / "house.py").read_text()
    (here / "houses.py").write_text(text + '\n\nclass Other(House):\n    name = "other"\n')
    assert "./houses.py does not have one TextEnv to choose; write ./houses.py:House or ./houses.py:Other" in refused(
        "check", "./houses.py"
    )


def test_the_name_of_an_installed_environment_is_refused(here):
    run("new", "env", "house")
    Path("maze.py").write_text(Path("house.py").read_text().replace("house", "maze"))
    assert "'maze' is the name of what is installed; rename yours" in refused("check", "./maze.py")
    assert os.environ[own_files.FILES] == "", "processes that are started do not take it either"


def test_two_files_with_one_name_are_refused(here):
    run("new", "env", "house")
    Path("cottage.py").write_text(Path("house.py").read_text())
    assert registry.adopt("./house.py") == registry.adopt("house.py:House") == "house"
    with pytest.raises(ValueError, match=r"\./cottage\.py: 'house' is the name of .*house\.py:House, too; rename one"):
        registry.adopt("./cottage.py")
    assert type(registry.make("house")).__module__ == "house"
