"""Adapters in verl's configuration, merged into weights, and the look at what arrives; without an engine."""

from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("verl")

import torch.distributed as dist  # noqa: E402
from peft import LoraConfig, get_peft_model  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Shard, distribute_tensor  # noqa: E402
from transformers import Qwen2Config, Qwen2ForCausalLM  # noqa: E402

from agentgym_rl.engine.recipe import compose as recipes  # noqa: E402
from agentgym_rl.engine.recipe.config import VerifySync  # noqa: E402
from agentgym_rl.engine.recipe.resolved import Resolved  # noqa: E402
from agentgym_rl.engine.verl.adapters import merged, with_adapters  # noqa: E402
from agentgym_rl.engine.verl.mapping import verl_config  # noqa: E402
from agentgym_rl.engine.verl.sync_probe import SyncProbe, WeightsNotSynced  # noqa: E402
from agentgym_rl.engine.verl.weights import Servers, Weights  # noqa: E402


def test_adapters_in_verls_configuration():
    def settings(*overrides):
        run = Resolved(recipes.load(["experiment=smoke", *overrides]))
        config = verl_config(run, "m", Path("run")).actor_rollout_ref
        model, saved = config.model, config.actor.checkpoint.save_lora_only
        return model.lora_rank, model.lora_alpha, model.target_modules, model.lora.merge, saved

    assert settings() == (0, 16, "all-linear", False, False)
    assert settings("model.lora_rank=4") == (4, 16, "all-linear", True, True)
    values = settings("model.lora_rank=4", "model.lora_alpha=8", "model.target_modules=[q_proj,v_proj]")
    assert values == (4, 8, ["q_proj", "v_proj"], True, True)


@pytest.fixture
def adapted():
    """A model with adapters that have learnt; the product of an adapter counts three times."""
    config = Qwen2Config(
        vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=8, tie_word_embeddings=True,
    )  # fmt: skip
    network = get_peft_model(Qwen2ForCausalLM(config), LoraConfig(r=2, lora_alpha=6, target_modules="all-linear"))
    for name, weight in network.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight)
    return network


def test_merged_weights_are_those_of_peft(adapted):
    weights = {name: weight.clone() for name, weight in merged(adapted.state_dict(), 3.0)}
    base = dict(merged(adapted.state_dict(), 0.0))
    expected = adapted.merge_and_unload().state_dict()
    assert weights.keys() == expected.keys()
    assert all(torch.allclose(weights[name], weight, atol=1e-6) for name, weight in expected.items())
    changed = {name for name in weights if not torch.allclose(weights[name], base[name])}
    assert changed == {name for name in weights if name.endswith("_proj.weight")}


def test_an_adapter_without_a_weight_is_an_error():
    with pytest.raises(ValueError, match="no weights for the adapters"):
        dict(merged({"a.weight": torch.ones(1), "b.lora_A.default.weight": torch.ones(1)}, 1.0))


def test_a_sharded_model_takes_over_adapters(adapted):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        state = adapted.state_dict()
        adapters = {
            name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in state.items() if "lora_" in name
        }
        plain = {name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in merged(state, 0.0)}
        weights = {name: tensor.to_local() for name, tensor in with_adapters(plain, adapters, 3.0)}
    finally:
        dist.destroy_process_group()
    assert all(torch.equal(weights[name], tensor) for name, tensor in merged(state, 3.0))


# the look at what arrives

LOADED = torch.tensor([-1.0, -2.0, -3.0])


def test_the_first_look_is_repeated_until_it_can_tell():
    probe = SyncProbe([1, 2, 3, 4], 1e-3, LOADED)
    assert not probe.due(VerifySync.NEVER)
    for moved, still_due in ((1e-3, True), (0.5, False), (0.0, False)):
        assert probe.due(VerifySync.ALWAYS)
        metrics = probe.compare(LOADED + moved, [LOADED + moved + 5e-4, LOADED + moved])
        assert metrics == pytest.approx({"sync/log_prob_difference": 5e-4, "sync/log_prob_moved": moved}, abs=1e-6)
        assert probe.due(VerifySync.FIRST) == still_due


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (
            LOADED,
            "log-probability of -2.000000 there and of -1.500000 on the training workers; .* adapters are left out",
        ),
        (LOADED + 1, "log-probability of -1.000000 there and of -1.500000 .* missing or old"),
        (LOADED * torch.nan, "they differ by nan"),
    ],
)
def test_a_server_with_other_weights_is_an_error(server, says):
    probe = SyncProbe([1, 2, 3, 4], 1e-3, LOADED)
    learner = LOADED + 0.5
    with pytest.raises(WeightsNotSynced, match=f"vLLM server 1 does not have the weights that learn: .*{says}"):
        probe.compare(learner, [learner, server])
    assert probe.due(VerifySync.FIRST)


@pytest.mark.parametrize(("share", "passes"), [(0.1, True), (0.0, False)])
def test_rounding_may_grow_with_how_far_the_weights_have_moved(share, passes):
    probe = SyncProbe([1, 2, 3, 4], 0.1, LOADED, share)
    learner = LOADED - 2.0
    if passes:
        assert probe.compare(learner, [learner + 0.15])["sync/log_prob_moved"] == pytest.approx(2.0)
    with pytest.raises(WeightsNotSynced):
        probe.compare(learner, [learner + (0.25 if passes else 0.15)])


@pytest.mark.parametrize(("when", "looks"), [("always", 2), ("first", 1), ("never", 0)])
def test_a_sync_is_looked_at(when, looks):
    """The workers compute before the servers take their memory; servers are asked afterwards."""
    calls = []
    manager = SimpleNamespace(update_weights=calls.append)
    verl = SimpleNamespace(
        timing_raw={}, global_steps=1, actor_rollout_wg=None, servers=lambda: Servers(manager, ["a"])
    )
    weights = Weights(verl, SimpleNamespace(verify_sync=when))
    weights.probe = probe = SyncProbe([1, 2, 3, 4], 1e-3, LOADED)
    probe.learner = lambda workers: calls.append("learner") or LOADED + 1
    probe.servers = lambda handles: calls.append(handles) or [LOADED + 1]
    weights.sync()
    weights.sync(7)
    looked = ["learner", 1, ["a"]]
    assert calls == {0: [1, 7], 1: [*looked, 7], 2: [*looked, "learner", 7, ["a"]]}[looks]
