"""Bad input on the command line: one line that names the value and the fix, the right exit status, no traceback."""

import errno
import os
import re
import shlex
from pathlib import Path

import pytest
from sweep import thinned
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

FILES = {
    "typed.py": TYPED, "noclass.py": "x = 1\n", "syntax.py": "def (:\n", "afile": "x\n", "none.json": "[]",
    "list.json": "[1]", "bare/config.json": "{}",
    "torn/config.yaml": "envs: {a", "ran/state.json": "{}", "ran/episodes/step000001.parquet": "",
    "lacking/config.yaml": "{name: x, envs: {maze: {}}, rollout: {}, model: {}}",
}  # fmt: skip

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
train experiment=smoke seed=1 seed=2                    | seed=1 and seed=2 are both given; leave out one of them
train experiment=smoke ~seed                            | ~seed takes out a key that every run has; give it another
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
train experiment=smoke algorithm.kl_coef=0.1            | here: algorithm.loss.kl
train experiment=smoke batch_size=8                     | here: algorithm.tasks_per_step
train experiment=smoke algorithm.mini_batch_task=4      | did you mean mini_batch_tasks?
eval panel=textcraft policy=oracle                      | panel 'textcraft' is an environment without a split; write
eval panel=texcraft:test policy=oracle                  | unknown environment 'texcraft'
eval panel=textcraft:tset policy=oracle                 | textcraft has no split 'tset'; its splits: train, test
eval panel=textcraft:test policy=oracel                 | policy 'oracel' is unknown; choose oracle, random
eval panel=textcraft:test policy=oracle samples=two     | samples=two is not a whole number
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
play maze_1 --policy openai:x                           | policy 'openai:x' is not openai:<model>@<url>, such as
play textcraft                                          | 'textcraft' is not an item id
tasks textcraft --split tset                            | textcraft has no split 'tset'; its splits
compare nowhere                                         | nowhere does not exist; it is not the folder of a run
export nowhere --out x                                  | nowhere/config.yaml does not exist
watch nowhere                                           | is not the folder of a run
new env My-House                                        | 'My-House' is no name of a file of Python
train experiment=smoke actor_rollout_ref.rollout.n=8    | is AgentGym-RL's; here: algorithm.samples_per_task
train experiment=smoke +seed=1                          | An item is already at 'seed'. Either remove + prefix
train experiment=smoke seed=-1                          | seed must be at least 0, got -1
train experiment=smoke engine=tpu                       | engine/tpu is unknown (did you mean gpu?); choose cpu
train experiment=smoke engine.ray_address=nowhere       | ray_address=nowhere is no address of a cluster; give HOST:PORT
train experiment=smoke engine.device=tpu                | engine.device='tpu' is unknown (did you mean cpu?)
train experiment=smoke curriculum=hard                  | curriculum/hard is unknown; choose fixed, growing
train experiment=smoke mixture=best                     | mixture/best is unknown; choose dynamic, fixed
train experiment=smoke mixture.floor=2                  | mixture.floor=2.0 must be above 0 and at most 1
train experiment=smoke mixture=frontier mixture.elite=12 | mixture.elite=12 must be less than mixture.population=12
train experiment=frontier_maze mixture.held_out.a=[1]   | mixture.held_out names a, which is no knob; knobs: family
train experiment=smoke envs.textcraft.options.distractors=0 | distractors=0 is not between 1 and 10
train experiment=smoke model=./empty                    | model.path=./empty has no config.json
train experiment=smoke model=./bare                     | model.path=./bare has no tokenizer; it is not a Hugging
eval panel=maze:test policy=./bare                      | ./bare has no tokenizer; it is not a Hugging Face model
eval panel=./bare policy=oracle                         | panel './bare' is none of <env>:<split>
eval panel=torn policy=oracle                           | torn/config.yaml cannot be read: while parsing a flow
eval panel=lacking policy=oracle                        | lacking/config.yaml has no key 'max_turns': another version
train experiment=smoke model=./nowhere                  | model.path=./nowhere does not exist; give a Hugging Face
train experiment=smoke rollout.style=fancy              | rollout.style='fancy' is unknown; choose agentgym, compact
train experiment=smoke algorithm.lr=nan                 | algorithm.lr=nan is no number; give one
train experiment=smoke algorithm.samples_per_task=1     | algorithm.samples_per_task must be 2 or more
train experiment=smoke run.max_hours=-1                 | run.max_hours must be greater than 0, got -1
train experiment=smoke run.dir=afile/x                  | run folder afile/x cannot be written: Not a directory
train experiment=smoke logger.wandb=maybe               | logger.wandb='maybe' is unknown; choose auto, online
train experiment=smoke envs.textcraft.max_turns=0       | envs.textcraft.max_turns must be at least 1, got 0
train experiment=smoke envs.textcraft.difficulty=hard   | envs.textcraft.difficulty is a list; write
train experiment=smoke envs.textcraft.panels.val.n=3    | panels.val: the recipe has no such panel; write it into
train experiment=smoke envs.textcraft.options.depth=3   | textcraft has no option 'depth'; its options: style
train experiment=smoke envs.textcraft.options.max_depth=x | textcraft: max_depth='x' is not of type int | None
train experiment=smoke env.address=nowhere              | envs.textcraft.address 'nowhere' is no URL; give one such
train -m experiment=smoke name=x seed=0,1               | would share the folder runs/x; put seed into the name
train experiment=smoke algorithm=./noclass.py:Mine      | ./noclass.py does not have the class Mine, a subclass of
train experiment=smoke env=./syntax.py                  | syntax.py cannot be imported: SyntaxError
train --steps 3                                         | train has no option --steps; write it as a key: steps=VALUE
eval panel= policy=oracle                               | panel= is empty; give a value, or leave it out
eval panel=maze:test policy=oracle samples=1.5          | samples=1.5 is not a whole number
eval panel=maze:test policy=oracle style=x              | style=x is unknown; choose agentgym, compact
eval panel=maze:test policy=oracle seed=-1              | seed=-1 is below 0; give 0 or more
eval panel=maze:test policy=oracle prompt_tokens=0      | prompt_tokens=0: give at least 1
eval panel=maze:test policy=oracle max_cost=1           | max_cost is for a model behind an API, not for policy 'oracle'
eval panel=maze:test policy=oracle options.maze=1       | 'options.maze' is not options.ENV.KEY
eval panel=maze:test policy=oracle options.maze.wording=x | maze has no option 'wording'; its options
eval panel=maze:test policy=oracle options.sqlgym.explore=3 | options.sqlgym has no effect: panel=maze:test has no
eval panel=maze:test policy=oracle options.maze.style=compact | options.maze.style has no effect; write style=compact
eval panel=sqlgym:test policy=oracle options.sqlgym.explore=few | sqlgym: explore='few' is not of type int
eval panel=maze:test panel=todo:test policy=oracle      | panel= is given twice
eval panel=maze:test policy=oracle --token-env NOPE     | host.token_env=NOPE is for servers; add host.address
eval panel=maze:test:9999999 policy=oracle              | n is 9999999, but maze test has only
eval panel=none.json policy=oracle                      | panel=none.json names no panel; give one like
eval --compare empty empty                              | give the folder of a finished evaluation
collect textcraft --n 1 --out a.txt                     | a.txt: give a file whose name ends with .json
collect textcraft --n 1 --out empty                     | empty is a folder; give the name of a file
collect textcraft --n 1 --out afile/a.json              | afile: a file, not a folder
collect textcraft --n 0 --out a.json                    | n is 0; draw at least 1 task, or leave n out
collect textcraft --n 1 --out a.json --temperature hot  | --temperature': Input should be a valid number
collect textcraft --n 1 --out a.json --temperature inf  | --temperature': inf is not finite; give a number; see
collect textcraft --n 1 --out a.json --price nan 1      | --price': nan is not finite; give a number; see
collect textcraft --n                                   | '--n' requires an argument; see root collect --help
collect textcraft --n 1                                 | Missing option '--out'; see
collect textcraft --num 1 --out a.json                  | No such option: --num (Possible options: --n, --out)
collect textcraft --n 1 --out a.json --price 1 2        | price is for a model behind an API, not for policy 'oracle'
collect textcraft --n 1 --out a.json --backend vllm     | backend is for a local model, not for policy 'oracle'
collect textcraft --n 1 --out a.json --split none.json  | none.json lists no task of textcraft, only of no
collect textcraft --n 1 --out a.json --difficulty hard  | has a difficulty like hard; there are: depth 1
collect textcraft --n 1 --out a.json --option depth     | --option 'depth' is not KEY=VALUE
collect textcraft --n 1 --out a.json --option style=compact | --option style has no effect; write --style
play maze_1 --option style=compact                      | style is given already; write --style
tasks maze --option size=5 --option size=6              | --option 'size=6': size is given already
collect textcraft --n 1 --out a.json --keep best        | keep 'best' is unknown; choose success, all
collect textcraft --n 1 --out a.json --episodes a.csv   | a.csv: a file of episodes is named <name>.parquet
collect textcraft --n 1 --out a.json --policy gpt-4o    | policy 'gpt-4o' is unknown; choose oracle, random
expand textcraft --out a.json --model gpt-4o            | policy 'gpt-4o' is not openai:<model>@<url>, such as
convert list.json a.json --to agentraj                  | 'agentraj' is not one of 'agenttraj', 'inference'
convert list.json a.json                                | Missing option '--to'. Choose from: agenttraj
convert list.json a.json --to verl                      | a.json: give a file whose name ends with .parquet
convert list.json a.json --to agenttraj --env texcraft  | --env texcraft: there is no such environment
convert kept.parquet a.json --to agenttraj --env maze   | --env maze has no effect: tasks name their environment
convert ran a.json --to agenttraj                       | ran is the folder of a run; give one of its files
explore todo out=a.jsonl                                | policy= is missing, such as policy=openai:
convert list.json a.json --to agenttraj                 | list.json, entry 1: the entry is a number, expected an
convert kept.parquet full/a.json --to agenttraj         | full/a.json: no space left on device
new env class                                           | 'class' is no name of a file of Python
new env json                                            | 'json' is taken, by Python or by what is installed
new env textcraft                                       | 'textcraft' is taken
new algorithm grpo                                      | 'grpo' is taken
new world house                                         | 'world' is not one of 'env', 'algorithm', 'curriculum'
episodes kept.parquet --task maze_1                     | --task 'maze_1': no episode has it; `agentgym-rl episodes
episodes kept.parquet --step 9-3                        | --step '9-3' begins after it ends; write 3-9
episodes kept.parquet --whole                           | --whole is of what --json prints; add --json
episodes kept.parquet --in thought                      | --in says where to search; add --grep TEXT
episodes kept.parquet --grep !                          | there is no word in '!'; write one to search for
episodes nowhere --grep a --in said                     | there is no field 'said'; choose observation, response
episodes kept.parquet --limit 0                         | greater than or equal to 1, not '0'; see
view kept.parquet nowhere                               | nowhere does not exist; it is not the folder of a run
view kept.parquet --port 99999                          | less than or equal to 65535, not '99999'; see
view kept.parquet --html afile                          | afile exists and holds no exported viewer
timeline kept.parquet --out a.txt                       | --out a.txt: name a file that ends with .html
timeline kept.parquet --only x                          | kept.parquet has no episodes 'x'; it has kept
watch nowhere --every inf                               | less than or equal to 86400, not 'inf'; see
watch nowhere --every 0                                 | greater than or equal to 0.1, not '0'; see
compare empty                                           | empty is not the folder of a run that can be compared
export nowhere --out x --inspect --step 3               | --step, --dtype and --adapter are for weights
sync nowhere                                            | nowhere does not exist; it is not the folder of a run
serve textcraft --port 99999                            | less than or equal to 65535, not '99999'; see
serve textcraft --workers 0                             | workers is 0; give more than 0
serve textcraft --session-ttl nan                       | session_ttl is nan; give more than 0
gateway openai:m@http://h --session-ttl nan             | greater than or equal to 0, not 'nan'; see
gateway openai:m@http://h --out afile                   | --out afile is a file; name a folder
serve textcraft --style fancy                           | textcraft has no style 'fancy'; choose agentgym or
serve textcraft --token-env NOPE                        | the variable NOPE is not set
serve textcraft textcraft                               | an environment is named twice: textcraft, textcraft
fetch gpt2                                              | 'gpt2' is no model that has a name; choose smollm2_135m
envs texcraft                                           | Got unexpected extra argument(s) (texcraft); see
colect textcraft                                        | No such command 'colect'. Did you mean 'collect'
--verbose                                               | No such option: --verbose (Possible options
"""
"""A command and what its error says."""

CASES = [tuple(part.strip() for part in line.split(" | ", 1)) for line in TABLE.strip().splitlines()]


@pytest.fixture
def here(files_folder, tmp_path, monkeypatch):
    """A current folder with recipes that cannot be read."""
    (tmp_path / "recipes/experiment").mkdir(parents=True)
    for name, text in RECIPES.items():
        (tmp_path / f"recipes/experiment/{name}.yaml").write_text(text, encoding="latin-1")
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "empty").mkdir()
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
@pytest.mark.parametrize(("command", "says"), thinned(CASES, 6), ids=[command for command, _ in CASES])
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
