"""Models beside the policy: what workers keep of them, whose log-probabilities there are, and what is refused."""

import json
import os
from dataclasses import asdict, replace
from math import log
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace

import pytest

os.environ.setdefault("VERL_PLATFORM", "cpu")
pytest.importorskip("verl")

import replay
import test_same_training as recorded
import torch
import torch.distributed as dist
import transfer_queue as tq
from peft import LoraConfig, get_peft_model
from tensordict import TensorDict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transfer_queue import KVBatchMeta
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForTokenClassification

from agentgym_rl.algorithms.base import Needs
from agentgym_rl.algorithms.losses.base import Tokens
from agentgym_rl.algorithms.losses.dpo import Preference, PreferenceConfig
from agentgym_rl.algorithms.losses.reverse_kl import ReverseKL
from agentgym_rl.algorithms.losses.reward import ImplicitReward
from agentgym_rl.algorithms.losses.vanilla import Vanilla, VanillaConfig
from agentgym_rl.algorithms.model import POLICY, Critic, Model
from agentgym_rl.algorithms.rows import PerToken, Row, WithEngine
from agentgym_rl.engine.recipe import models
from agentgym_rl.engine.recipe.compose import load
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import RecipeError
from agentgym_rl.engine.run import gpu_memory, memory
from agentgym_rl.engine.run.folder import State
from agentgym_rl.engine.run.stage_models import check, prepare
from agentgym_rl.engine.verl import fields
from agentgym_rl.engine.verl.learner import Learner
from agentgym_rl.engine.verl.network import skeleton
from agentgym_rl.engine.verl.scorer import behind
from agentgym_rl.engine.verl.weights import BASE, Weights
from agentgym_rl.engine.verl.worker import AgentWorker, CriticWorker, local
from agentgym_rl.rollout.supervised import Example

CONFIG = LlamaConfig(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8)


# workers


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def worker(group):
    """With FSDP2's model on one process, which stays gathered after a pass without gradients."""
    torch.manual_seed(0)
    model, mesh = LlamaForCausalLM(CONFIG), init_device_mesh("cpu", (1,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    found = AgentWorker.__new__(AgentWorker)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    found.actor = SimpleNamespace(engine=SimpleNamespace(module=model, optimizer=optimizer))
    found._kept, found._moments = {}, {}
    return found


def looked_at(worker):
    """Logits of a pass without gradients."""
    with torch.no_grad():
        return worker.actor.engine.module(torch.tensor([[1, 2, 3]])).logits


def learned(worker, updates=1):
    for _ in range(updates):
        model, optimizer = worker.actor.engine.module, worker.actor.engine.optimizer
        optimizer.zero_grad()
        model(torch.tensor([[1, 2, 3]])).logits[..., 3].sum().backward()
        optimizer.step()


@pytest.mark.parametrize("policy_is", ["whole", "adapters", "as loaded"])
def test_a_critic_begins_as_the_policy_with_a_head_of_the_runs_seed(worker, tmp_path, policy_is):
    """Whatever its launch drew, and whichever run had the engine before: PPO is the same again."""
    state = dict(worker.actor.engine.module.state_dict())
    if policy_is == "adapters":
        adapted = get_peft_model(LlamaForCausalLM(CONFIG), LoraConfig(r=2, lora_alpha=4, target_modules="all-linear"))
        adapted.peft_config["default"].save_pretrained(tmp_path)
        fully_shard(adapted, mesh=init_device_mesh("cpu", (1,)))
        state = {name: weight for name, weight in adapted.state_dict().items() if "lora_" in name}
    torch.save(state, tmp_path / "model_world_size_1_rank_0.pt")

    def begun(launch, seed):
        torch.manual_seed(launch)
        model, mesh = LlamaForTokenClassification(CONFIG), init_device_mesh("cpu", (1,))
        fully_shard(model, mesh=mesh)
        critic = CriticWorker.__new__(CriticWorker)
        critic.engine = SimpleNamespace(module=model)
        critic.start_from(None if policy_is == "as loaded" else str(tmp_path), seed)
        return {name: local(weight).detach().clone() for name, weight in model.named_parameters()}

    first, again, other = begun(1, 20), begun(2, 20), begun(1, 21)
    alike = [*first] if policy_is == "whole" else ["score.weight", "score.bias"]  # a launch draws these weights here
    assert all(torch.equal(first[name], again[name]) for name in alike)
    assert [name for name in first if not torch.equal(first[name], other[name])] == ["score.weight"]
    if policy_is != "whole":
        return
    policy = dict(worker.actor.engine.module.named_parameters())
    assert all(torch.equal(first[name], local(policy[name])) for name in first if not name.startswith("score."))
    assert 0.5 < first["score.weight"].std() / CONFIG.initializer_range < 2 and not first["score.bias"].any()


@pytest.mark.slow
def test_each_model_learns_as_if_it_were_alone(worker):
    def put_by(place):
        worker.save_model_to_cpu(place)
        worker.put_moments_by(place)

    def take(place):
        worker.restore_model_from_cpu(place)
        worker.take_moments(place)

    learned(worker, 4)
    alone = looked_at(worker)
    put_by("alone")
    assert not worker.actor.engine.optimizer.state
    torch.manual_seed(0)
    fresh = LlamaForCausalLM(CONFIG)
    for place in ("policy", "other"):
        with torch.no_grad():
            for (_, weight), value in zip(worker._weights(), fresh.parameters(), strict=True):
                local(weight).copy_(value)
        worker.save_model_to_cpu(place)
    for _ in range(4):
        for place in ("policy", "other"):
            take(place)
            looked_at(worker)
            learned(worker)
            looked_at(worker)
            put_by(place)
    for place in ("policy", "other"):
        take(place)
        assert torch.equal(looked_at(worker), alone), place
    take("alone")
    assert torch.equal(looked_at(worker), alone)
    worker.clear_cpu_model("alone")
    assert not worker._moments and {*worker._kept} == {"policy", "other"}


def test_a_hugging_face_folder_takes_the_place_of_the_weights(worker, tmp_path):
    other = LlamaForCausalLM(CONFIG)
    other.save_pretrained(tmp_path, max_shard_size="2KB")
    assert len([*tmp_path.glob("*.safetensors")]) > 1
    looked_at(worker)
    worker.load_pretrained(str(tmp_path))
    assert torch.equal(looked_at(worker), other(torch.tensor([[1, 2, 3]])).logits)
    frozen = worker.actor.engine.module.model.embed_tokens
    worker.load_pretrained(str(tmp_path))
    frozen.requires_grad_(False)
    worker.load_pretrained(str(tmp_path))
    with torch.no_grad():
        local(frozen.weight).add_(1)
    with pytest.raises(ValueError, match=r"differs in model\.embed_tokens\.weight, which does not learn"):
        worker.load_pretrained(str(tmp_path))
    (tmp_path / "model.safetensors.index.json").unlink()
    min(tmp_path.glob("*.safetensors")).unlink()
    frozen.requires_grad_(True)
    with pytest.raises(ValueError, match=r"has no .* in its safetensors files"):
        worker.load_pretrained(str(tmp_path))


# what the driver asks of them


class Workers:
    """Note what is asked; their weights are a name and their optimizer's state another; log-probabilities too."""

    def __init__(self):
        self.weights, self.moments, self.kept, self.scored = "policy", "policy's", {}, []

    def save_model_to_cpu(self, name):
        self.kept[name] = (self.weights, None)

    def put_moments_by(self, name):
        self.kept[name], self.moments = (self.kept[name][0], self.moments), None

    def restore_model_from_cpu(self, name):
        self.weights = self.kept[name][0]

    def take_moments(self, name):
        self.moments = self.kept[name][1]

    def clear_cpu_model(self, name):
        del self.kept[name]

    def load_checkpoint(self, local_path):
        self.weights, self.moments = Path(local_path).parent.name, f"{Path(local_path).parent.name}'s"

    def load_pretrained(self, folder):
        self.weights = Path(folder).name

    def save_checkpoint(self, local_path, global_step):
        self.saved = (Path(local_path).name, self.weights, self.moments, global_step)

    def compute_log_prob(self, data):
        self.scored.append(self.weights)
        if isinstance(data, KVBatchMeta):
            self.told = data
            return None
        ids = data["input_ids"]
        values = torch.roll(ids.values().float(), shifts=-1)
        nested = torch.nested.nested_tensor_from_jagged(values, ids.offsets())
        return {"log_probs": -nested, "entropy": nested}

    def set_loss_fn(self, loss):
        pass

    def set_optimizer(self, *settings):
        pass

    def update_actor(self, data):
        self.weights, self.moments = f"{self.weights}+", f"{self.moments}+"
        return {"metrics": {"loss": [0.5], "dpo/margin": [0.1], "grad_norm": [2.0]}}

    @property
    def state(self):
        return self.weights, self.moments


@pytest.fixture
def learner():
    config = SimpleNamespace(trainer=SimpleNamespace(default_local_dir="run/checkpoints"),
                             data=SimpleNamespace(max_response_length=9))  # fmt: skip
    settings = SimpleNamespace(config=config, temperature=0.5, workers=2, ranks=2, set_loss=lambda *_: None)
    verl = SimpleNamespace(actor_rollout_wg=Workers(), use_critic=False, global_steps=7, _save_checkpoint=lambda: None,
                           tokenizer=SimpleNamespace(eos_token_id=0), timing_raw={})  # fmt: skip
    weights = Weights(verl, settings)
    weights.synced = weights.pristine = False
    return Learner(verl, settings, weights)


def test_weights_take_the_policys_place_and_go(learner, tmp_path):
    weights, workers = learner.weights, learner.verl.actor_rollout_wg
    weights.begin_as_policy("prm", trained=True)
    weights.begin_model("teacher", tmp_path / "step/actor", trained=False)
    tmp_path.joinpath("config.json").touch()
    weights.begin_model("hub", tmp_path, trained=False)
    weights.begin_model("resumed", tmp_path / "old/prm", trained=True, optimizer=True)
    assert workers.state == ("policy", "policy's")
    for by, learn, inside in (
        ("prm", False, ("policy", "policy's")), ("prm", True, ("policy", None)),
        ("teacher", False, ("step", "policy's")),
        ("hub", False, (tmp_path.name, "policy's")), ("resumed", True, ("old", "old's")),
        (tmp_path / "other/actor", False, ("other", "other's")), (POLICY, True, ("policy", "policy's")),
    ):  # fmt: skip
        with weights.using(by, learn=learn):
            assert workers.state == inside
        assert workers.state == ("policy", "policy's")
    with weights.using("prm", learn=True):
        workers.update_actor(None)
    with pytest.raises(KeyError), weights.using("prm", learn=True):
        assert workers.state == ("policy+", "None+")
        raise KeyError
    assert workers.state == ("policy", "policy's") and workers.kept["prm"] == ("policy+", "None+")
    assert weights.save() == "global_step_7" and workers.saved == ("resumed", "old", "old's", 7)
    weights.begin_models()
    assert not workers.kept and not weights.models


def test_there_must_be_such_a_model(learner):
    weights = learner.weights
    weights.begin_as_policy("teacher", trained=False)
    for by, learn, said in (
        ("critic", False, r"no model 'critic' gives log-probabilities; Algorithm\.needs names \['teacher'\]"),
        ("teacher", True, "does not learn"), (None, False, "loaded_weights=True"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=said), weights.using(by, learn=learn):
            pytest.fail("no weights")
    weights.remember_base(Path("folder"))
    with weights.using(None):
        assert BASE in learner.verl.actor_rollout_wg.kept
    for name in ("policy", "a/b", ""):
        with pytest.raises(ValueError, match="cannot have the name"):
            Needs(models={name: Model()})
    with pytest.raises(ValueError, match="one critic at most, not critic and second"):
        Needs(models={"critic": Critic(lr=1.0), "second": Critic(lr=1.0)})


def test_a_critic_is_a_model_with_workers_of_its_own():
    teacher, critic = Model(), Critic(lr=0.5, warmup=2)
    needs = Needs(models={"critic": critic, "teacher": teacher})
    assert needs.critic is critic and needs.swapped == {"teacher": teacher} and Needs().critic is None
    assert critic.trained and critic.start == "start"
    with pytest.raises(TypeError, match="start"):
        Critic(lr=0.5, start="loaded")


TOKENS = [
    Row(Example([9, 5, 7], [0.0, 0, 1], 2), {}),
    Row(Example([9, 6], [0.0, 1]), {}),
    Row(Example([8, 4, 3], [0.0, 1, 1]), {}),
]


def test_rows_with_their_tokens_are_scored(learner):
    learner.weights.begin_as_policy("teacher", trained=False)
    rows = learner.score(TOKENS, "teacher", "taught", entropy=True)
    assert [row.streams for row in rows] == [
        {"taught": PerToken([0, 0, -7.0]), "taught_entropy": PerToken([0, 0, 7.0])},
        {"taught": PerToken([0, -6.0]), "taught_entropy": PerToken([0, 6.0])},
        {"taught": PerToken([0, -4.0, -3.0]), "taught_entropy": PerToken([0, 4.0, 3.0])},
    ]
    assert learner.score(rows, POLICY, "own")[0].streams["own"] == PerToken([0, 0, -7.0])
    assert learner.score([], "teacher", "taught") == []
    for name in ("taught", "advantage"):
        with pytest.raises(ValueError, match=f"cannot be the stream '{name}'"):
            learner.score(rows, "teacher", name)


def test_a_second_model_learns_from_rows_with_their_tokens(learner):
    workers, loss = learner.verl.actor_rollout_wg, Preference(PreferenceConfig())
    learner.weights.begin_as_policy("prm", trained=True)
    metrics, count = learner.learn(TOKENS[:2], loss, lr=1.0, mini_batch=1, epochs=2, model="prm")
    assert count == 2 and metrics["dpo/loss"] == 0.5
    assert workers.state == ("policy", "policy's") and workers.kept["prm"] == ("policy++", "None++")
    with pytest.raises(ValueError, match="learned from by another model before the policy learns from them and before"):
        learner.learn([Row("a_0_0", {})] * 2, loss, lr=1.0, mini_batch=1, model="prm")


def test_a_second_model_learns_from_rows_of_a_batch(learner, monkeypatch):
    workers, given = learner.verl.actor_rollout_wg, []
    held = {"a_0_0": ([9, 5, 7], [0, 1]), "b_0_0": ([9, 6], [1])}

    def get(keys, partition_id, select_fields):
        ids, masks = zip(*(held[key] for key in keys), strict=True)
        return TensorDict({"input_ids": jagged(ids), "response_mask": jagged(masks)}, batch_size=len(keys))

    def update(data):
        given.append((data["input_ids"].unbind(), data["stream_sampled"].unbind()))
        return {"metrics": {"loss": [0.5], "grad_norm": [2.0]}}

    monkeypatch.setattr(tq, "kv_batch_get", get)
    monkeypatch.setattr(workers, "update_actor", update)
    batch = KVBatchMeta(partition_id="train", keys=[*held], tags=[{}, {}])
    learner.take(batch, [], {})
    learner.weights.begin_as_policy("prm", trained=True)
    first, second = Row("a_0_0", {"sampled": PerToken([0, -1, -2])}), Row("b_0_0", {"sampled": PerToken([0, -3])})
    pairs, loss = [first, second, first, second], ImplicitReward(PreferenceConfig())
    metrics, count = learner.learn(pairs, loss, lr=1.0, mini_batch=2, model="prm")
    assert count == 1 and metrics["prm/loss"] == 0.5
    ((ids, sampled),) = given
    assert [row.tolist() for row in ids] == [[9, 5, 7], [9, 6]] * 2
    assert [row.tolist() for row in sampled] == [[-1, -2], [-3]] * 2
    assert learner._batch is batch, "the policy can still learn from it"
    assert learner.verl.timing_raw["update_models"] > 0, "the step tells how long it took"
    unread = [replace(row, streams={"sampled": WithEngine()}) for row in pairs]
    with pytest.raises(ValueError, match="learns from scores that were read; score 'sampled' so"):
        learner.learn(unread, loss, lr=1.0, mini_batch=2, model="prm")


def jagged(rows, kind=torch.float32):
    return torch.nested.as_nested_tensor([torch.tensor(row, dtype=kind) for row in rows], layout=torch.jagged)


def test_rows_of_a_batch_keep_their_numbers_in_the_queue(learner, monkeypatch):
    put, cleared = {}, []
    held = {"a_0_0": [-1.0, -2.0], "b_0_0": [-3.0]}

    def get(keys, partition_id, select_fields):
        rows = jagged([held[key] for key in keys])
        return TensorDict(dict.fromkeys(select_fields, rows), batch_size=len(keys))

    monkeypatch.setattr(tq, "kv_batch_get", get)
    monkeypatch.setattr(tq, "kv_batch_put", lambda keys, partition_id, fields: put.update({tuple(keys): fields}))
    monkeypatch.setattr(tq, "kv_clear", lambda keys, partition_id: cleared.append(keys))
    tags = [{"prompt_len": 2, "response_len": length, "seq_len": 2 + length, "own_tokens": 1} for length in (2, 1, 1)]
    batch = KVBatchMeta(partition_id="train", keys=["a_0_0", "b_0_0", "c_0_0"], tags=tags, extra_info={"kept": 1})
    learner.take(batch, [], {})
    learner.weights.begin_as_policy("teacher", trained=False)
    rows = [Row(key, {}) for key in batch.keys[:2]]
    (first, second) = learner.score(rows, "teacher", "taught", entropy=True)
    told = learner.verl.actor_rollout_wg.told
    assert told.keys == ["a_0_0", "b_0_0"] and not cleared
    assert told.extra_info == {
        "kept": 1,
        "calculate_entropy": True,
        "compute_loss": False,
        "temperature": 0.5,
        "written": "stream_taught",
    }
    assert isinstance(first.streams["taught"], WithEngine) and isinstance(second.streams["taught_entropy"], WithEngine)
    read = learner.score(rows, "teacher", "taught", read=True)
    assert [row.streams["taught"] for row in read] == [PerToken([0, 0, -1.0, -2.0]), PerToken([0, 0, -3.0])]
    with pytest.raises(ValueError, match="are scored before they are learned from"):
        learner.score([Row("d_0_0", {})], "teacher", "taught")
    loss = type("Taught", (Vanilla,), {"streams": frozenset({"taught"})})(VanillaConfig())
    by_key = {row.segment: row for row in (first, second)}
    fields.write(batch, by_key, loss, dict.fromkeys(batch.keys, 0), 9)
    assert put["c_0_0",]["stream_taught"].unbind()[0].tolist() == [0.0], "padding has 0"
    assert "stream_taught" not in put[tuple(batch.keys)], "the others have theirs"


def test_numbers_behind_a_prompt():
    values = [torch.tensor([1.0, 2, 3]), torch.tensor([4.0]), torch.tensor([9.0])]
    assert behind([(2, 4), (1, 2)], values) == [PerToken([0, 0, 2, 3]), PerToken([0, 4])]


# distillation


def test_a_teacher_gives_each_token_its_advantage():
    own, teacher = torch.tensor([[-1.0, -2.0, -3.0]]), torch.tensor([[-0.5, -4.0, -3.0]])
    log_prob = own.clone().requires_grad_()
    tokens = Tokens(log_prob=log_prob, old_log_prob=own, mask=torch.ones(1, 3).bool(), streams={"teacher": teacher})
    loss = ReverseKL(Vanilla(VanillaConfig()))
    loss(tokens).sum().backward()
    assert log_prob.grad.tolist() == [[-0.5, 2.0, 0.0]], "the teacher likes the first token better than the policy does"
    assert loss.metrics(tokens)["reverse_kl"].tolist() == [[-0.5, 2.0, 0.0]]
    assert not loss.clipped(tokens).any()


def test_a_run_stands_for_the_weights_that_it_had_first(learner, tmp_path, monkeypatch):
    teacher, begun = tmp_path / "teacher", []
    monkeypatch.setattr(learner.weights, "begin_model", lambda name, place, **_: begun.append(place))
    (teacher / "config.yaml").parent.mkdir()
    (teacher / "config.yaml").write_text("{envs: {}, rollout: {}, model: {}}")
    (teacher / "metrics.jsonl").touch()

    def reaches(step):
        place = teacher / f"checkpoints/global_step_{step}/actor"
        place.mkdir(parents=True)
        (place / "fsdp_config.json").touch()
        (teacher / "state.json").write_text(json.dumps({"checkpoint": place.parent.name, "global_step": step}))
        return place

    own = SimpleNamespace(path=tmp_path / "run", checkpoint=lambda _: None)
    needs = Needs(models={"teacher": Model(start=str(teacher))})

    def begin(state):
        prepare(needs, state, own, learner.weights)
        return begun.pop()

    first, state = reaches(3), State()
    assert begin(state) == first
    second = reaches(5)
    saved = State(**json.loads(json.dumps(asdict(state))))
    assert begin(saved) == first, "a resumed run"
    assert begin(State()) == second, "a new one"
    check(needs, saved, own)
    rmtree(first)
    with pytest.raises(FileNotFoundError, match=r"global_step_3/actor when this run began with it, which is gone"):
        check(needs, saved, own)
    check(needs, replace(saved, learnt={}), own)  # what comes after the algorithm has no teacher


# before a launch


def resolved(start, trained=False, *overrides):
    run = Resolved(load(["name=x", "env=maze", "model=tiny", "algorithm=grpo", *overrides]))
    vars(run)["needs"] = Needs(models={"teacher": Model(start=start, trained=trained, key="algorithm.teacher")})
    return run


def built(folder, words=(), **changes):
    """A small model with a tokenizer in a folder."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: place for place, word in enumerate(("<eos>", "go", "left", *words))}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(vocabulary, unk_token="<eos>")))
    tokenizer.save_pretrained(folder)
    shape = LlamaConfig(**{**CONFIG.to_diff_dict(), **changes})
    LlamaForCausalLM(shape).save_pretrained(folder)
    return tokenizer, LlamaForCausalLM(shape)


def test_a_model_must_be_there(tmp_path):
    models.check_places(resolved("start"))
    with pytest.raises(FileNotFoundError, match=r"algorithm\.teacher=.* is no checkpoint of 1 workers and no model"):
        models.check_places(resolved(str(tmp_path)))
    built(tmp_path)
    models.check_places(resolved(str(tmp_path)))
    with pytest.raises(RecipeError, match=r"with model\.lora_rank, models differ in adapters"):
        models.check_places(resolved(str(tmp_path), False, "model.lora_rank=4"))
    checkpoint = tmp_path / "run/checkpoints/global_step_3/actor/model_world_size_1_rank_0.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    models.check_places(resolved(str(checkpoint.parents[1])))
    run = tmp_path / "run"
    (run / "config.yaml").write_text("{envs: {}, rollout: {}, model: {}}")
    with pytest.raises(FileNotFoundError, match="run has no checkpoint yet"):
        models.check_places(resolved(str(run)))
    (run / "state.json").write_text(json.dumps({"checkpoint": "global_step_3", "global_step": 3}))
    for file in (checkpoint.parent / "fsdp_config.json", run / "metrics.jsonl"):
        file.touch()
    models.check_places(resolved(str(run)))
    assert models.policy_in(run) == checkpoint.parent


def test_a_model_must_be_like_the_policy(tmp_path):
    tokenizer, network = built(tmp_path / "policy")
    models.check_alike(resolved(str(tmp_path / "policy")), tokenizer, network, skeleton)
    built(tmp_path / "global_step_3/actor/huggingface", ["right"])
    with pytest.raises(
        RecipeError, match=r"global_step_3 has another vocabulary .* 'right' is 3 there and missing here"
    ):
        models.check_alike(resolved(str(tmp_path / "global_step_3")), tokenizer, network, skeleton)
    built(tmp_path / "wide", hidden_size=16)
    with pytest.raises(
        RecipeError, match=r"another architecture .*lm_head\.weight is \(30, 16\) there and \(30, 8\) here"
    ):
        models.check_alike(resolved(str(tmp_path / "wide")), tokenizer, network, skeleton)


BIG = memory.Shapes(parameters=1 << 30, learn=1 << 30, linear=1 << 29, kept=1000.0, vocabulary=1000)


def test_the_memory_of_models(monkeypatch):
    plan = memory.Plan(workers=1, servers=1, loops=1, micro_tokens=4096, kv_cache_gib=1.0)

    def more(**changes):
        return memory.need(replace(plan, **changes), BIG).least - memory.need(plan, BIG).least

    assert more(others=2) == pytest.approx(4) and more(others=2, trained=2) == pytest.approx(4 + 16)
    assert memory.kept(BIG, 0, 0) == 0
    assert memory.kept(BIG, 1, 0) == 8, "its weights, and the policy's while it is used"
    assert memory.kept(BIG, 1, 1) == 8 + 16
    monkeypatch.setattr(gpu_memory, "machine", lambda: (20.0, 9.0))
    with pytest.raises(RecipeError, match=r"\(teacher\) need 24\.0 GiB of host memory on each machine, but .* 20\.0"):
        gpu_memory._check_host(resolved("start", True, "engine=gpu"), BIG)
    gpu_memory._check_host(resolved("start", False, "engine=gpu"), BIG)
    gpu_memory._check_host(resolved("start", True, "engine=gpu", "engine.nodes=2"), BIG)
    offloaded = resolved("start", False, "engine=gpu", "engine.offload=true")
    vars(offloaded)["needs"] = Needs(models={**offloaded.needs.models, "critic": Critic(lr=1.0)})
    with pytest.raises(RecipeError, match=r"\(teacher, critic\) need 20\.0 GiB of host memory"):
        monkeypatch.setattr(gpu_memory, "machine", lambda: (19.0, 9.0))
        gpu_memory._check_host(offloaded, BIG)


# the real engine


def saved(folder, step, model):
    """The weights and the optimizer's state of a model in a checkpoint."""
    place = folder / f"checkpoints/global_step_{step}" / model
    return [
        torch.load(place / f"{kind}_world_size_1_rank_0.pt", map_location="cpu", weights_only=False)
        for kind in ("model", "optim")
    ]


def same(mine, other):
    """Nested dictionaries and lists have equal tensors."""
    if isinstance(mine, torch.Tensor):
        mine, other = (value.to_local() if hasattr(value, "to_local") else value for value in (mine, other))
        return torch.equal(mine, other)
    if isinstance(mine, dict):
        return mine.keys() == other.keys() and all(same(value, other[key]) for key, value in mine.items())
    if isinstance(mine, list | tuple):
        return len(mine) == len(other) and all(map(same, mine, other))
    return bool(mine == other)


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_teacher_and_second_models_that_learn(tmp_path, monkeypatch):
    """A run of each algorithm, and another that is killed in its second step and goes on."""
    recording = replay.Recording(recorded.BATCH)
    files = recording.unpack(tmp_path / "recording")
    filled = [text.format(**files) for text in (*recorded.REPLAYED, *recorded.POLICY, *recorded.CLONED)]

    def rows(name):
        return [row for row in replay.metrics(tmp_path / name) if "prm/pairs" in row]

    def run(name, *overrides):
        file, of = Path(__file__).with_name(f"{overrides[0]}.py"), overrides[1]
        words = [f"algorithm={file}:{of}", *filled, f"run.cache={tmp_path}/cache", "name=a", *overrides[2:]]
        replay.run(words, tmp_path / name, session)

    def killed(name, *overrides):
        monkeypatch.setenv("KILLED", "1")
        with pytest.raises(SystemExit, match="killed"):
            run(name, *overrides)
        monkeypatch.delenv("KILLED")
        run(name, *overrides)

    with replay.ReplaySession(recording) as session:
        session.batch = "plain"
        second = "second_model", "SecondModel", "algorithm.hint=none"
        run("whole", *second, "algorithm.teacher=loaded")
        (folder,) = (file.parent for file in (tmp_path / "cache").glob("*/model.safetensors"))
        killed("again", *second, f"algorithm.teacher={folder}")
        istar = "killed_istar", "KilledIstar", "algorithm.prm.lr=1e-3", "algorithm.prm.mini_batch_pairs=4"
        run("istar", *istar)
        killed("istar_again", *istar)
    whole = rows("whole")
    for row in whole:
        assert row["prm/updates"] > 0 and row["prm/entropy"] > 0
        assert row["prm/after"] > row["prm/before"], "it tells better from worse"
    assert abs(whole[0]["actor/reverse_kl"]) > 1e-3, "the cloned policy is not its teacher"
    first, second = rows("istar")
    assert first["prm/reward_std"] < 1e-6 < second["prm/reward_std"], "it begins as the policy, and learns"
    assert 0.3 < first["prm/loss"] < log(2), "that of the first of its updates is log(2)"
    assert first["prm/updates"] > 1
    for name, other in (("whole", "again"), ("istar", "istar_again")):
        assert len(rows(name)) == len(rows(other)) == 2 and all(row["prm/pairs"] >= 2 for row in rows(name))
        checkpoints = (tmp_path / name / "checkpoints").glob("global_step_*")
        first, last = sorted(int(file.name.rpartition("_")[2]) for file in checkpoints)[-2:]
        for model in ("actor", "models/prm"):
            assert same(saved(tmp_path / name, last, model), saved(tmp_path / other, last, model)), (name, model)
            assert not same(saved(tmp_path / name, first, model)[0], saved(tmp_path / name, last, model)[0])
        assert not same(saved(tmp_path / name, last, "actor")[0], saved(tmp_path / name, last, "models/prm")[0])
