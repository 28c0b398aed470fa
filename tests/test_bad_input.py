"""Bad input on the command line: one line that names the value and the fix, the right exit status, no traceback."""

import errno
import os
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym_rl.cli import app

pytest.importorskip("hydra")

RECIPES = {
    "duplicate": "# @package _global_\nname: one\nname: two\n",
    "indented": "# @package _global_\nenvs:\n  textcraft: {}\n maze: {}\n",
    "latin": "# @package _global_\nname: caf\N{LATIN SMALL LETTER E WITH ACUTE}\n",
    "homeless": "name: x\nenvs:\n  textcraft: {demonstrations: 3}\n",
    "own": "# @package _global_\ndefaults:\n  - override /algorithm: gone\nname: x\n",
}

TYPED = """
from agentgym_rl.envs import TextEnv

class Typed(TextEnv):
    name = "typed"
    spec = {"a": 1}
    _reset = _step = goal = difficulty = None
"""

TABLE = """
train experiment=duplicate                              | duplicate.yaml, line 3: found duplicate key name
train experiment=indented                               | indented.yaml, line 4: expected <block end>
train experiment=latin                                  | latin.yaml: byte 29 is not UTF-8; save the file in
train experiment=homeless                               | homeless.yaml: the first line must be # @package _global_
train smoke                                             | 'smoke' is not KEY=VALUE; did you mean experiment=smoke?
train experiment=smoke =3                               | '=3' is not KEY=VALUE; write it like seed=1
train experiment=smok                                   | experiment/smok is unknown (did you mean smoke?)
train experiment=smoke algorithm=gone                   | algorithm=gone: its entry point nowhere:Gone cannot be loaded
train experiment=own                                    | algorithm=gone: its entry point nowhere:Gone cannot be loaded
train experiment=smoke envs.texcraft.split=             | envs.texcraft: no such environment (did you mean textcraft?)
train experiment=smoke envs.wordle.split=train          | the run does not have this environment; +env=wordle adds it
train experiment=smoke env=maze envs.textcraft.pool=2   | envs.textcraft.pool=2 has no effect: env=maze replaces
train experiment=smoke seed=abc                         | seed=abc is not a whole number
train experiment=smoke algorithm.lr=fast                | algorithm.lr=fast is not a number
train experiment=smoke algorithm.steps=1.5              | algorithm.steps=1.5 is not a whole number
train experiment=smoke run.control=perhaps              | run.control=perhaps is not true or false
train experiment=smoke rollout=3                        | rollout is a block of keys; write rollout.KEY=VALUE
train experiment=smoke envs.textcraft.panels=3          | envs.textcraft.panels is a block of keys
train experiment=smoke seed=1,2                         | seed=1,2 has several values; `train -m` runs
train experiment=smoke 'name=a(b'                       | cannot be read; quote the value
train -m experiment=smoke seed=[1                       | 'seed=[1' cannot be read; quote the value
train experiment=smoke 'name=my run'                    | name='my run' must be letters, digits and . _ -
train experiment=smoke name=                            | name='' must be letters, digits and . _ -
train experiment=smoke name=../../x                     | name='../../x' must be letters, digits and . _ -
train experiment=smoke name=a/b                         | run.dir=FOLDER puts a run elsewhere
train experiment=smoke run.dir=                         | run.dir is empty; give a folder
train experiment=smoke algorithm.learning_rate=1e-6     | algorithm.learning_rate is unknown; here: algorithm.lr
train experiment=smoke learning_rate=1e-6               | learning_rate is unknown; here: algorithm.lr
train experiment=smoke algorithm.num_generations=8      | here: algorithm.samples_per_task
train experiment=smoke rollout.n=8                      | rollout.n is unknown; here: algorithm.samples_per_task
train experiment=smoke algorithm.kl_coef=0.1            | here: algorithm.kl_loss
train experiment=smoke batch_size=8                     | here: algorithm.tasks_per_step
train experiment=smoke algorithm.mini_batch_task=4      | did you mean mini_batch_tasks?
eval panel=textcraft policy=oracle                      | panel 'textcraft' is an environment without a split; write
eval panel=texcraft:test policy=oracle                  | unknown environment 'texcraft'
eval panel=textcraft:tset policy=oracle                 | textcraft has no split 'tset'; its splits: train, test
eval panel=textcraft:test policy=oracel                 | policy 'oracel' is unknown; choose oracle, random
eval panel=textcraft:test policy=oracle samples=two     | samples=two: Value 'two'
eval panel=textcraft:test policy=oracle sampels=2       | unknown key 'sampels'; did you mean samples=?
eval panel=textcraft:test                               | policy= is missing, such as policy=oracle
episodes nowhere                                        | nowhere does not exist; give the folder of a run
episodes kept.parquet --ending turnlimit                | --ending 'turnlimit' is unknown; choose terminated
episodes kept.parquet --success --failure               | --success and --failure leave no episode; give one of them
episodes kept.parquet --env maze                        | --env 'maze': no episode has it; there are textcraft
episodes kept.parquet --panel tset                      | --panel 'tset': no episode has it; there are
episodes kept.parquet --step 41-60                      | --step 41-60: no episode has it; steps are
episodes kept.parquet --step x                          | --step 'x' is neither a step, such as 12, nor a range
collect textcraft --n 1 --out full/a.json               | full/a.json: no space left on device
check texcraft                                          | unknown environment 'texcraft'
check ./typed.py                                        | typed: spec is {'a': 1}; it must be an EnvSpec
play texcraft_1                                         | unknown environment 'texcraft'
play textcraft                                          | 'textcraft' is not an item id
tasks textcraft --split tset                            | textcraft has no split 'tset'; its splits
compare nowhere                                         | nowhere does not exist; it is not the folder of a run
export nowhere --out x                                  | nowhere/config.yaml does not exist
watch nowhere                                           | is not the folder of a run
new env My-House                                        | 'My-House' is no name of a file of Python
train experiment=smoke actor_rollout_ref.rollout.n=8    | is AgentGym-RL's; here: algorithm.samples_per_task
"""
"""A command and what its error says."""

CASES = [tuple(part.strip() for part in line.split(" | ")) for line in TABLE.strip().splitlines()]


@pytest.fixture
def here(files_folder, tmp_path, monkeypatch):
    """A current folder with recipes that cannot be read."""
    (tmp_path / "recipes/experiment").mkdir(parents=True)
    for name, text in RECIPES.items():
        (tmp_path / f"recipes/experiment/{name}.yaml").write_text(text, encoding="latin-1")
    (tmp_path / "typed.py").write_text(TYPED)
    replace = os.replace

    def full(source, target):
        if Path(target).parent.name == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    return tmp_path


@pytest.fixture
def episodes(here):
    """``kept.parquet``, with an episode of TextCraft."""
    words = ["collect", "textcraft", "--n", "1", "--out", "kept.json", "--episodes", "kept.parquet"]
    assert CliRunner().invoke(app, words).exit_code == 0


@pytest.fixture
def gone(tmp_path, monkeypatch):
    """A package whose algorithm cannot be imported is installed."""
    from agentgym_rl.algorithms.installed import read

    info = tmp_path / "site/gone-1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: gone\nVersion: 1.0\n")
    info.joinpath("entry_points.txt").write_text("[agentgym_rl.algorithms]\ngone = nowhere:Gone\n")
    monkeypatch.syspath_prepend(info.parent)
    read.cache_clear()
    yield
    read.cache_clear()


def error(command):
    """The single line of an error, with exit status 2."""
    done = CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": "150"})
    assert isinstance(done.exception, SystemExit), done.exception
    lines = [line for line in done.stderr.splitlines() if not re.search("is left out: |^All keys: |^$", line)]
    assert (done.exit_code, len(lines)) == (2, 1), done.stderr
    return lines[0]


@pytest.mark.usefixtures("here", "gone")
@pytest.mark.parametrize(("command", "says"), CASES, ids=[command for command, _ in CASES])
def test_an_error_names_the_value_and_the_fix(command, says, request):
    if "kept.parquet" in command:
        request.getfixturevalue("episodes")
    line = error(command)
    assert line.startswith("Error: ") and says in line
    assert not Path("runs").exists()


def test_words_of_others_name_keys_that_exist():
    from agentgym_rl.algorithms import algorithms
    from agentgym_rl.engine.recipe.config import Config
    from agentgym_rl.engine.recipe.others import WORDS

    texts = re.findall(r"[a-z]+\.[a-z_.]+", " ".join(WORDS.values()))
    named = {tuple(text.strip(".").split(".")) for text in texts}
    blocks = [Config(name="x", algorithm=kind.Config()) for kind in algorithms().values()]

    def has(block, path):
        return not path or (hasattr(block, path[0]) and has(getattr(block, path[0]), path[1:]))

    assert named and [path for path in named if not any(has(block, path) for block in blocks)] == []
