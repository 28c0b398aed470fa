"""From shards to a folder that transformers loads and plays with as before."""

import asyncio
import itertools
import json
import os
import resource
import shutil
import signal
from dataclasses import replace

import pytest
import yaml

torch = pytest.importorskip("torch")
pytest.importorskip("verl")

import torch.distributed as dist  # noqa: E402
from peft import LoraConfig, PeftModel, get_peft_model  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate, Shard  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig  # noqa: E402

from agentgym_rl.data import episode_store  # noqa: E402
from agentgym_rl.engine.recipe.checkpoint import find, is_run  # noqa: E402
from agentgym_rl.engine.recipe.config import TinyModelConfig  # noqa: E402
from agentgym_rl.engine.run import tiny  # noqa: E402
from agentgym_rl.engine.run.export import cached, export, merged  # noqa: E402
from agentgym_rl.envs.splits import fingerprint  # noqa: E402
from agentgym_rl.eval.evaluation import suite  # noqa: E402
from agentgym_rl.eval.evaluation.evaluate import EPISODES, evaluate  # noqa: E402
from agentgym_rl.eval.evaluation.plan import Plan  # noqa: E402
from agentgym_rl.eval.evaluation.rules import Rules, read_config  # noqa: E402
from agentgym_rl.eval.viewer.detail import detail  # noqa: E402
from agentgym_rl.rollout.policies.model import TransformersModel  # noqa: E402

TEXTS = ["Thought:\nNext.\n\nAction:\nsay 1", "Action: say 2", "Count to 3.", "Right.", "I do not understand."] * 20
PROMPTED = {"counter": "Begin with 1."}
MODEL = TinyModelConfig(
    vocabulary=300, width=20, layers=2, heads=2, kv_heads=1, mlp=18, prompt_tokens=300, response_tokens=300
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny.build(tmp_path_factory.mktemp("tiny") / "model", MODEL, TEXTS, seed=3)


def shards(model, actor, ranks=2, replicas=1):
    """Save a model as FSDP2 does: every tensor split along its first dimension, with a mesh of replicas where asked."""
    weights = AutoModelForCausalLM.from_pretrained(model).state_dict()
    world = ranks * replicas
    for rank in range(world):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
        shape, names = ((ranks,), ("fsdp",)) if replicas == 1 else ((replicas, ranks), ("ddp", "fsdp"))
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
        placements = [Shard(0)] if replicas == 1 else [Replicate(), Shard(0)]
        split = {}
        for name, tensor in weights.items():
            parts = list(tensor.chunk(ranks))
            parts += [tensor[:0]] * (ranks - len(parts))
            split[name] = DTensor.from_local(
                parts[rank % ranks].clone(),
                mesh,
                placements,
                run_check=False,
                shape=tensor.shape,
                stride=tensor.stride(),
            )
        actor.mkdir(parents=True, exist_ok=True)
        torch.save(split, actor / f"model_world_size_{world}_rank_{rank}.pt")
        dist.destroy_process_group()
    (actor / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": world}))
    shutil.copytree(model, actor / "huggingface", ignore=shutil.ignore_patterns("*.safetensors", "recipe.json"))


@pytest.fixture
def run(model, tmp_path, toys):
    """A run that cloned, learnt and was controlled, with a checkpoint after each stage."""
    folder = tmp_path / "runs" / "one"
    for step in (2, 4, 6):
        shards(model, folder / "checkpoints" / f"global_step_{step}" / "actor", ranks=1)
    panel = {"split": "test", "n": None, "difficulty": None, "seed": 0}
    config = {
        "name": "one",
        "seed": 5,
        "envs": {"counter": {"panels": {"test": panel}, "options": {}, "max_turns": 4}},
        "rollout": {"style": "compact", "action_format": "react", "max_new_tokens": 12, "invalid_limit": 2},
        "model": {"prompt_tokens": 200, "response_tokens": 250},
        "algorithm": {"name": "grpo"},
        "engine": {"device": "cpu"},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    state = {
        "checkpoint": "global_step_6",
        "origin": "global_step_4",
        "prompts": {},
        "learnt": {"origin": "global_step_2", "checkpoint": "global_step_4", "global_step": 4, "prompts": PROMPTED},
        "global_step": 6,
    }
    (folder / "state.json").write_text(json.dumps(state))
    stages = [(1, "bc"), (2, "bc"), (3, "grpo"), (4, "grpo"), (5, "control"), (6, "control")]
    lines = [json.dumps({"step": step, f"stage/{name}": step}) for step, name in stages]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize(("ranks", "replicas"), [(1, 1), (2, 1), (3, 1), (2, 2)])
def test_shards_become_whole_again(model, tmp_path, ranks, replicas):
    shards(model, tmp_path / "actor", ranks, replicas)
    weights = AutoModelForCausalLM.from_pretrained(model).state_dict()
    tensors = merged(tmp_path / "actor")
    assert tensors.keys() == weights.keys()
    assert all(torch.equal(tensors[name], tensor) for name, tensor in weights.items())


def test_an_exported_folder_is_the_model(model, run, tmp_path):
    out = export(find(str(run)), tmp_path / "out")
    loaded, original = (AutoModelForCausalLM.from_pretrained(folder) for folder in (out, model))
    assert loaded.dtype == torch.float32
    weights = original.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in loaded.state_dict().items())
    assert loaded.get_input_embeddings().weight is loaded.get_output_embeddings().weight
    tokenizer, tokenizer_of_model = (AutoTokenizer.from_pretrained(folder) for folder in (out, model))
    messages = [{"role": "user", "content": "Count to 3."}]
    assert tokenizer.apply_chat_template(messages) == tokenizer_of_model.apply_chat_template(messages)
    assert GenerationConfig.from_pretrained(out).eos_token_id == tokenizer_of_model.eos_token_id
    facts = json.loads((out / "agentgym_rl.json").read_text())
    assert (facts["run"], facts["step"], facts["seed"], facts["dtype"]) == ("one", 4, 5, "float32")
    assert [path.name for path in tmp_path.iterdir() if "tmp" in path.name] == []


def test_weights_can_be_rounded(run, tmp_path):
    out = export(find(str(run)), tmp_path / "out", "bfloat16")
    assert AutoModelForCausalLM.from_pretrained(out).dtype == torch.bfloat16


@pytest.mark.slow
def test_an_exported_folder_plays_as_the_model_did(model, run, tmp_path):
    """Greedy, by the rules of the run, and with its prompt: the folder brings them."""

    def play(folder, rules, name):
        policy = TransformersModel(
            str(folder), temperature=0, seed=0, prompt_tokens=rules.prompt_tokens,
            response_tokens=rules.response_tokens, prompts=rules.prompts,
        )  # fmt: skip
        plan = Plan(suite=suite.read(str(run), rules), policy="one", rules=rules)
        return asyncio.run(evaluate(plan, policy, tmp_path / name)).to_dict()

    out = export(find(str(run)), tmp_path / "out")
    before = play(model, replace(Rules.of_run(read_config(run)), prompts=PROMPTED), "before")
    after = play(out, Rules.beside(out), "after")
    assert before["envs"]["counter"]["turns"]["value"] > 1
    assert {**before, "cost": None} == {**after, "cost": None}
    assert after["plan"]["rules"]["prompts"] == {"counter": fingerprint(PROMPTED["counter"], 12)}
    for episode in episode_store.read(tmp_path / "after" / EPISODES):
        first = detail(episode)["opening"][-1]["content"]
        assert first.startswith("Begin with 1.\n\n") and episode.preface == "Begin with 1."
        assert episode.without_preface[episode.start - 1]["content"] == first.removeprefix("Begin with 1.\n\n")


def test_prompts_belong_to_checkpoints(run, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_RL_CACHE", str(tmp_path / "cache"))
    assert find(str(run)).prompts == PROMPTED and find(f"{run}:bc").prompts == {}
    plain = cached(find(f"{run}:bc"))
    (run / "checkpoints" / "global_step_2" / "prompts.json").write_text('{"counter": "Up."}')
    assert find(f"{run}:bc").prompts == {"counter": "Up."}
    assert cached(find(f"{run}:bc")) != plain, "the same weights with another prompt"


@pytest.mark.parametrize(
    ("place", "step"),
    [("{run}", 4), ("{run}:bc", 2), ("{run}:control", 6), ("{run}/checkpoints/global_step_2", 2)],
)
def test_which_checkpoint_is_meant(run, place, step):
    checkpoint = find(place.format(run=run))
    assert (checkpoint.step, checkpoint.folder.name, checkpoint.run) == (step, f"global_step_{step}", run)
    assert is_run(place.format(run=run))


def test_without_a_control_the_last_weights_are_meant(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()[:4]
    (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert find(str(run)).folder.name == "global_step_6"
    assert find(str(run), 2).step == 2


def test_cloned_weights_may_be_in_a_cache(run, tmp_path):
    shutil.move(run / "checkpoints" / "global_step_2", tmp_path / "cache")
    state = json.loads((run / "state.json").read_text()) | {"learnt": {"origin": str(tmp_path / "cache")}}
    (run / "state.json").write_text(json.dumps(state))
    checkpoint = find(f"{run}:bc")
    assert (checkpoint.folder, checkpoint.step) == (tmp_path / "cache", 2)


def test_a_stage_says_which_checkpoint_it_ended_with(run, tmp_path):
    """Not that of its last step where a round was undone, nor one of the run where cloned weights are of a cache."""
    shutil.move(run / "checkpoints" / "global_step_2", tmp_path / "cache")
    shutil.copytree(run / "checkpoints" / "global_step_4", run / "checkpoints" / "global_step_3")
    results = [{"name": "bc", "checkpoint": str(tmp_path / "cache")}, {"name": "grpo", "checkpoint": "global_step_3"}]
    state = json.loads((run / "state.json").read_text()) | {"results": results, "learnt": {"origin": None}}
    (run / "state.json").write_text(json.dumps(state))
    assert find(f"{run}:bc").folder == tmp_path / "cache"
    assert find(f"{run}:grpo").folder.name == "global_step_3"
    assert find(f"{run}:control").folder.name == "global_step_6", "a stage that has not ended goes by its last step"


def test_what_is_not_there_is_told(run, tmp_path):
    with pytest.raises(FileNotFoundError, match="has global_step_2, global_step_4, global_step_6"):
        find(str(run), 3)
    with pytest.raises(ValueError, match="has no stage 'dpo'; it has bc, grpo, control"):
        find(f"{run}:dpo")
    with pytest.raises(FileNotFoundError, match="not the folder of a run"):
        find(str(tmp_path))
    (run / "state.json").unlink()
    with pytest.raises(FileNotFoundError, match="has no checkpoint yet"):
        find(str(run))
    assert not is_run(str(tmp_path))


def test_nothing_is_overwritten_and_bad_dtypes_are_told(run, tmp_path):
    checkpoint = find(str(run), 2)
    with pytest.raises(ValueError, match="dtype 'int8' is unknown"):
        export(checkpoint, tmp_path / "out", "int8")
    assert not (tmp_path / "out").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    with pytest.raises(ValueError, match="holds something already"):
        export(checkpoint, tmp_path / "full")


@pytest.mark.parametrize("part", ["tokenizer", "weights"])
def test_a_full_disk_is_told(run, tmp_path, part):
    largest = max(file.stat().st_size for file in (run / "checkpoints/global_step_2/actor/huggingface").iterdir())
    most = largest - 1 if part == "tokenizer" else largest
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        with pytest.raises(OSError, match=r"out cannot be written: .*File too large"):
            export(find(str(run), 2), tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def adapted(model, run):
    """A run with LoRA: adapters in its checkpoints, and the model that it trained."""
    settings = LoraConfig(r=2, lora_alpha=6, target_modules=["q_proj", "up_proj"], task_type="CAUSAL_LM")
    settings.base_model_name_or_path = "/moved"
    network = get_peft_model(AutoModelForCausalLM.from_pretrained(model), settings)
    for name, weight in network.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight)
    shutil.copytree(model, run / "model")
    for actor in run.glob("checkpoints/*/actor"):
        adapters = {name: weight for name, weight in network.state_dict().items() if "lora_" in name}
        torch.save(adapters, actor / "model_world_size_1_rank_0.pt")
        settings.save_pretrained(actor)
    return network.eval()


@pytest.mark.parametrize("adapter", [False, True])
def test_adapters_are_merged_or_written_alone(model, run, adapted, tmp_path, adapter):
    out = export(find(str(run)), tmp_path / "out", adapter=adapter)
    assert (out / "adapter_model.safetensors").is_file() == adapter != (out / "model.safetensors").is_file()
    base = AutoModelForCausalLM.from_pretrained(model)
    loaded = PeftModel.from_pretrained(base, out) if adapter else AutoModelForCausalLM.from_pretrained(out)
    ids = torch.arange(20)[None]
    assert torch.allclose(loaded(ids).logits, adapted(ids).logits, atol=1e-4)
    assert not torch.allclose(loaded(ids).logits, AutoModelForCausalLM.from_pretrained(model)(ids).logits, atol=1e-2)
    assert json.loads((out / "agentgym_rl.json").read_text())["step"] == 4


def test_a_run_without_adapters_has_none_to_write(run, tmp_path):
    with pytest.raises(ValueError, match="has no adapters"):
        export(find(str(run)), tmp_path / "out", adapter=True)


def test_adapters_of_another_model_are_refused(run, adapted, tmp_path):
    actor = run / "checkpoints" / "global_step_2" / "actor"
    torch.save({"strange.lora_A.default.weight": torch.zeros(1)}, actor / "model_world_size_1_rank_0.pt")
    with pytest.raises(ValueError, match="its adapters are not those of"):
        export(find(str(run), 2), tmp_path / "out")


def test_other_weights_than_the_configuration_says_are_refused(run, tmp_path):
    actor = run / "checkpoints" / "global_step_2" / "actor"
    torch.save({"model.strange.weight": torch.zeros(1)}, actor / "model_world_size_1_rank_0.pt")
    with pytest.raises(ValueError, match="not those of Qwen2ForCausalLM"):
        export(find(str(run), 2), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_processes_export_the_same_weights_into_the_cache(run, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_RL_CACHE", str(tmp_path / "cache"))
    keep, first = Rules.keep, []

    def keep_after_another(*arguments):
        if not first:
            first.append(None)
            first.append(cached(find(str(run))))
        keep(*arguments)

    ids = itertools.count(1)  # that of a process is asked once a call
    monkeypatch.setattr(os, "getpid", lambda: next(ids))
    monkeypatch.setattr(Rules, "keep", keep_after_another)
    assert cached(find(str(run))) == first[1] and first[1].is_dir()


def test_an_export_is_cached_until_the_weights_change(run, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_RL_CACHE", str(tmp_path / "cache"))
    first = cached(find(str(run)))
    assert first.parent == tmp_path / "cache" / "exports"
    mark = first / "config.json"
    stamp = mark.stat().st_mtime_ns
    assert cached(find(str(run))) == first and mark.stat().st_mtime_ns == stamp
    shard = run / "checkpoints" / "global_step_4" / "actor" / "model_world_size_1_rank_0.pt"
    shard.touch()
    assert cached(find(str(run))) != first
