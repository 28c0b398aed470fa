"""Micro-batches of GPUs, chosen by an estimate before the launch; nothing here needs a GPU."""

from dataclasses import replace

import pytest
from sweep import thinned

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from agentgym_rl.engine.platform.packing import ON_GPU  # noqa: E402
from agentgym_rl.engine.recipe import gpus  # noqa: E402
from agentgym_rl.engine.recipe.compose import identity, load  # noqa: E402
from agentgym_rl.engine.recipe.resolved import Resolved  # noqa: E402
from agentgym_rl.engine.recipe.schema import RecipeError  # noqa: E402
from agentgym_rl.engine.run import gpu_memory  # noqa: E402

RUN = ["name=x", "env=textcraft", "algorithm=grpo", "engine=gpu", "engine.workers=1", "model=Qwen/Qwen2.5-1.5B",
       "model.prompt_tokens=512", "model.response_tokens=3072"]  # fmt: skip


@pytest.fixture(scope="module")
def network():
    """The shape of Qwen2.5-1.5B."""
    shape = transformers.Qwen2Config(
        vocab_size=151_936, hidden_size=1536, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2,
        intermediate_size=8960, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(shape)


def fit(network, *overrides, gib=79.1):
    fitted, line = gpu_memory.fitted(Resolved(load([*RUN, *overrides])), network, lambda: gib)
    return fitted.config.engine, line


def test_a_small_model_on_a_large_gpu_computes_nothing_twice(network):
    engine, line = fit(network)
    assert not engine.gradient_checkpointing and 8192 <= engine.micro_tokens <= 16384
    assert f"micro-batches of {engine.micro_tokens} tokens, activations kept" in line and "of 79.1 GiB (" in line
    larger, _ = fit(network, gib=140.0)
    assert larger.micro_tokens > engine.micro_tokens


@pytest.mark.parametrize(
    "overrides",
    [["model.response_tokens=20000"], ["algorithm=ppo"], ["engine.gpu_gib=40"], ["engine.micro_tokens=16384"]],
)
def test_it_recomputes_where_activations_do_not_fit(network, overrides):
    engine, line = fit(network, *overrides)
    assert engine.gradient_checkpointing and "activations computed again" in line
    assert engine.micro_tokens >= load([*RUN, *overrides]).model.context


def test_what_is_given_stays(network):
    engine, line = fit(network, "engine.micro_tokens=4096", "engine.gradient_checkpointing=true")
    assert (engine.micro_tokens, engine.gradient_checkpointing) == (4096, True)
    engine, line = fit(network, "engine.micro_tokens=65536", "engine.gradient_checkpointing=false")
    assert (engine.micro_tokens, engine.gradient_checkpointing) == (65536, False)
    assert "where it runs out, lower engine.micro_tokens" in line


def test_a_model_too_large_is_refused_in_words(network):
    with pytest.raises(RecipeError, match=r"need 30\.\d GiB of a GPU that has 16\.0: choose a smaller model"):
        fit(network, gib=16.0)
    engine, _ = fit(network, "engine.workers=8", "algorithm.tasks_per_step=8", "algorithm.mini_batch_tasks=8", gib=16.0)
    assert engine.gradient_checkpointing, "eight share the weights"
    fit(network, "model.lora_rank=16", gib=16.0)


def test_where_this_machine_has_no_gpu_the_line_says_what_is_assumed(network):
    _, line = fit(network, gib=None)
    assert "of 80.0 GiB, assumed: this machine has no GPU, engine.gpu_gib says what they have" in line


def test_a_cpu_is_left_alone(network):
    run = Resolved(load(["experiment=smoke"]))
    assert gpu_memory.fitted(run, network, lambda: pytest.fail("asked")) == (run, None)
    with pytest.raises(RecipeError, match="micro_tokens=null is chosen on GPUs only"):
        load(["experiment=smoke", "engine.micro_tokens=null"])


def test_a_pair_fits_together(network):
    run = Resolved(load([*RUN]))
    vars(run)["needs"] = replace(run.needs, rows_together=4)
    fitted, _ = gpu_memory.fitted(run, network, lambda: 79.1)
    assert fitted.config.engine.micro_tokens >= 4 * run.config.model.context
    assert fitted.needs is run.needs, "what is built stays"


def test_logits_are_in_float32_for_as_many_tokens_as_are_planned_with():
    assert gpu_memory.CHUNK == ON_GPU


SHAPES = {"0.5b": (896, 24, 14, 2, 4864), "1.5b": (1536, 28, 12, 2, 8960), "3b": (2048, 36, 16, 2, 11008)}
"""Of Qwen2.5: width, layers, heads, heads of keys, width of the MLP."""


@pytest.mark.parametrize(
    ("gib", "size", "lora", "overrides"),
    thinned([
        (14.6, "0.5b", 16, []),
        (22.1, "1.5b", 16, []),
        (44.4, "3b", 16, []),
        (79.1, "3b", 0, []),
        (140.0, "3b", 0, []),
        (79.1, "0.5b", 0, ["model=qwen2.5-0.5b"]),
        (79.1, "1.5b", 0, ["model=qwen2.5-1.5b"]),
        (79.1, "1.5b", 8, ["model=qwen2.5-1.5b", "model.lora_rank=8"]),
        (None, "1.5b", 16, ["engine.memory=22"]),
        (None, "3b", 0, ["engine.memory=80"]),
    ], 3),
)  # fmt: skip
def test_what_is_chosen_for_one_gpu_fits_by_the_estimate(monkeypatch, gib, size, lora, overrides):
    monkeypatch.setattr(gpus, "smallest", lambda: gib)
    width, layers, heads, keys, mlp = SHAPES[size]
    shape = transformers.Qwen2Config(
        vocab_size=151_936, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=keys, intermediate_size=mlp, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(shape)
    config = load(["experiment=textcraft_one_gpu", *overrides])
    assert config.model.path == f"Qwen/Qwen2.5-{size.upper()}-Instruct" and config.model.lora_rank == lora
    assert config.algorithm.lr == (2e-5 if lora else 1e-6)
    run = Resolved(config)
    fitted, line = gpu_memory.fitted(run, model, lambda: pytest.fail("the choice was by another GPU"))
    assert fitted.config.engine.workers == 1 and "where it runs out" not in line, line
    assert fitted.config.engine.micro_tokens >= config.model.context


@pytest.mark.slow
def test_a_choice_is_part_of_the_run_and_asks_no_gpu_twice(monkeypatch):
    """Another GPU, with another choice, does not go on with the run."""
    of = {}
    for gib in (None, 23.6, 79.1):
        monkeypatch.setattr(gpus, "smallest", lambda gib=gib: gib)
        of[gib] = identity(load(["experiment=textcraft_one_gpu"]))
    assert of[None] == of[23.6] != of[79.1]
    monkeypatch.setattr(gpus, "smallest", lambda: pytest.fail("asked"))
    assert load(["experiment=textcraft_one_gpu", "engine.memory=null"]).model.lora_rank == 16


def test_a_choice_leaves_an_algorithm_without_that_key(monkeypatch):
    monkeypatch.setattr(gpus, "smallest", lambda: 79.1)
    config = load(["name=x", "env=textcraft", "algorithm=bc", "engine=one_gpu", "engine.memory=auto",
                   "envs.textcraft.demonstrations=8"])  # fmt: skip
    assert config.model.path.endswith("3B-Instruct") and config.engine.gpu_gib == 79.1
    path = ["experiment=textcraft_one_gpu", "model.path=/models/mine"]
    assert load(path).model.path == "/models/mine"


@pytest.mark.parametrize(
    ("memory", "says"),
    [("8", "a GPU of 8 GiB is smaller than 16 GB"), ("lots", "engine.memory=lots must be auto or GB, e.g. 24")],
)
def test_a_memory_that_nothing_is_chosen_for(memory, says):
    with pytest.raises(RecipeError, match=says):
        load(["experiment=textcraft_one_gpu", f"engine.memory={memory}"])
