"""What a run on GPUs is refused for before Ray starts, and what becomes of its keys; nothing here needs a GPU."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sweep import thinned

pytest.importorskip("verl")

import ray
import torch
from omegaconf import OmegaConf

from agentgym_rl.engine.platform import detect
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe import config as recipe_config
from agentgym_rl.engine.recipe import preflight
from agentgym_rl.engine.recipe.compose import RecipeError, load
from agentgym_rl.engine.recipe.config import Mode
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run import session, sweep
from agentgym_rl.engine.verl import cluster, environment, mapping

GPU = ["experiment=smoke", "engine=gpu", "cloning.mini_batch_trajectories=8", "algorithm.tasks_per_step=8",
       "algorithm.mini_batch_tasks=8"]  # fmt: skip
OWN = ["name=mine", "env=textcraft", "algorithm=grpo", "engine=gpu"]
YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096}


def settings(*overrides):
    return mapping.verl_config(Resolved(load([*GPU, *overrides])), "model", Path("run"))


# a model of one's own


@pytest.mark.parametrize("word", ["model", "model.path"])
def test_a_model_of_ones_own_has_lengths_fit_for_it(word):
    config = load([*OWN, f"{word}=Qwen/Qwen2.5-3B-Instruct"])
    preflight.check_config(Resolved(config))
    assert (config.model.path, config.model.prompt_tokens) == ("Qwen/Qwen2.5-3B-Instruct", 1024)
    assert (config.model.response_tokens, config.run.eval_every, config.run.save_every) == (8192, 25, 25)
    assert (config.engine.workers, config.rollout.workers) == (8, None)


def test_a_path_leaves_the_lengths_of_a_recipe_as_they_are():
    config = load(["experiment=textcraft_grpo_3b", "model.path=Qwen/Qwen2.5-1.5B-Instruct"])
    assert (config.model.path, config.model.response_tokens) == ("Qwen/Qwen2.5-1.5B-Instruct", 10240)
    with pytest.raises(RecipeError, match=r"model\.path is no key of the tiny model"):
        load([*OWN, "model=tiny", "model.path=somewhere"])


def test_a_run_is_no_longer_than_its_model(tmp_path):
    from transformers import Qwen2Config

    Qwen2Config(max_position_embeddings=4096).save_pretrained(tmp_path)
    check = partial(preflight.check_length, model=str(tmp_path))
    check(load([*OWN, f"model={tmp_path}", "model.response_tokens=3072"]))
    with pytest.raises(
        RecipeError, match=r"= 4097, but the model's context is 4096 tokens; lower model\.response_tokens"
    ):
        check(load([*OWN, f"model={tmp_path}", "model.response_tokens=3073"]))
    Qwen2Config(max_position_embeddings=8192, rope_scaling=YARN).save_pretrained(tmp_path)
    check(load([*OWN, f"model={tmp_path}", "model.response_tokens=3073"]))


# GPUs


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ([], r"engine\.workers=8 needs 8 GPUs, and this machine has 2"),
        (["engine.workers=2", "engine.mode=separate_async"], r"needs 3 GPUs, and this machine has 2"),
        (["engine.workers=2"], None),
        (["engine.ray_address=auto"], None),
        (["engine.nodes=2"], r"engine\.nodes=2 needs a running Ray cluster; .*engine\.ray_address=auto"),
        (["engine=cpu", "engine.workers=3"], None),
        (["engine=cpu", "engine.nodes=2"], r"engine\.nodes=2 needs a running Ray cluster"),
        (["engine=cpu", "engine.nodes=2", "engine.ray_address=auto"], None),
    ],
)
def test_gpus_are_counted_at_once(overrides, says, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    engine = load(["name=x", "engine=gpu", *overrides]).engine
    if says is None:
        preflight.check_devices(engine)
        return
    with pytest.raises(RecipeError, match=says):
        preflight.check_devices(engine)


def test_a_machine_without_a_gpu_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(RecipeError, match=r"is a build for CPUs: install the GPU set-up .* or set engine=cpu"):
        preflight.check_devices(load(["name=x", "engine=gpu"]).engine)


@pytest.mark.parametrize(
    ("overrides", "says"),
    thinned(
        [
            (["engine.micro_tokens=767"], r"may take 768 tokens .*raise engine\.micro_tokens=767 to 768"),
            (["model.response_tokens=40000", "engine.micro_tokens=24576"], r"may take 40256 tokens"),
            (["engine.tensor_parallel=3"], r"tensor_parallel=3 does not divide engine\.workers=8"),
            (
                ["engine.mode=separate_async", "engine.rollout_workers=2", "engine.tensor_parallel=4"],
                r"tensor_parallel=4 does not divide engine\.rollout_workers=2",
            ),
            (["engine.mode=separate_async", "engine.offload=true"], r"engine\.offload=true does not work with"),
            (["verl.actor_rollout_ref.actor.strategy=megatron"], "strategy=megatron does not work here"),
            (
                ["verl.actor_rollout_ref.rollout.name=trtllm"],
                "name=trtllm does not work here .*works with vllm, sglang",
            ),
            (["engine=cpu", "verl.actor_rollout_ref.rollout.name=sglang"], "works with vllm$"),
            (
                [
                    "engine.attention=varlen",
                    "verl.actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=2",
                ],
                "sequence parallelism over 2 GPUs is written for flash attention; install .*, not varlen",
            ),
            (
                ["verl.actor_rollout_ref.model.override_config.rope_scaling={rope_type: yarn, factor: 2.0}"],
                r"override_config\.rope_scaling\.rope_type does not reach vLLM.*write rope_scaling into",
            ),
            (["engine.attention=flash"], r"engine\.attention='flash' is unknown; choose auto, flash_attention_2"),
            (["engine=cpu", "engine.attention=sdpa"], r"engine\.attention has no effect"),
            (["engine.dtype=auto"], r"engine\.dtype has no effect"),
            (["run.keep_checkpoints=0"], r"keep_checkpoints must be at least 1"),
            (["run.max_hours=0"], r"run\.max_hours must be greater than 0"),
        ],
        3,
    ),
)
def test_refused_before_ray_starts(overrides, says):
    with pytest.raises(RecipeError, match=says):
        config = load([*GPU, *overrides])
        preflight.check_config(Resolved(config))
        preflight.check_micro_batch(config)


def test_sequence_parallelism_makes_room_for_longer_episodes():
    parallel = "verl.actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=2"
    preflight.check_micro_batch(load([*GPU, "engine.micro_tokens=384", parallel]))


# keys


@pytest.mark.parametrize("name", ["sdpa", "packed", "varlen", "flash_attention_2"])
def test_attention(name):
    config = settings(f"engine.attention={name}")
    for model in (config.actor_rollout_ref.model, config.critic.model):
        assert model.override_config.attn_implementation == name


@pytest.mark.parametrize(("installed", "name"), [(True, "flash_attention_2"), (False, "varlen")])
def test_attention_is_what_is_installed(installed, name, monkeypatch):
    monkeypatch.setattr(recipe_config, "has_flash_attention", lambda: installed)
    assert settings().actor_rollout_ref.model.override_config.attn_implementation == name
    config = mapping.verl_config(Resolved(load(["experiment=smoke"])), "model", Path("run"))
    assert config.critic.model.override_config.attn_implementation == "packed", "on a CPU"


@pytest.mark.parametrize(
    "key",
    thinned(
        [
            "actor_rollout_ref.model.override_config.attn_implementation",
            "actor_rollout_ref.model.override_config.sliding_window",
            "critic.model.override_config.attn_implementation",
            "actor_rollout_ref.rollout.engine_kwargs.vllm.max_cudagraph_capture_size",
            "actor_rollout_ref.rollout.engine_kwargs.sglang.attention_backend",
            "actor_rollout_ref.actor.optim.override_optimizer_config.fused",
            "ray_kwargs.ray_init.runtime_env.env_vars.NCCL_DEBUG",
            "data.apply_chat_template_kwargs.enable_thinking",
        ],
        4,
    ),
)
def test_what_lies_below_an_open_mapping_of_verl_is_handed_on(key):
    engine = "verl.actor_rollout_ref.rollout.name=" + ("sglang" if "sglang" in key else "vllm")
    critic = ["algorithm=ppo"] if key.startswith("critic") else []
    assert OmegaConf.select(settings(*critic, engine, f"verl.{key}=7"), key) == 7


@pytest.mark.parametrize(
    "key",
    thinned(
        [
            "actor_rollout_ref.rollout.name=sglang",
            "actor_rollout_ref.rollout.quantization=fp8",
            "actor_rollout_ref.model.use_fused_kernels=true",
            "actor_rollout_ref.model.use_liger=true",
            "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=2",
        ],
        3,
    ),
)
def test_what_verl_offers_is_reachable(key):
    name, _, value = key.partition("=")
    config = load([*GPU, "engine.attention=flash_attention_2", f"verl.{key}"])
    preflight.check_config(Resolved(config))
    assert str(OmegaConf.select(settings(f"verl.{key}"), name)).lower() == value


def test_offload_covers_the_critic():
    config = settings("algorithm=ppo", "engine.offload=true")
    for block in (config.actor_rollout_ref.actor.fsdp_config, config.critic.fsdp):
        assert block.param_offload is block.optimizer_offload is True


def test_paths_of_data_mean_the_same_on_every_node(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes.json").write_text("{}")
    (tmp_path / "compact").mkdir()
    config = settings("envs.textcraft.options={recipes: recipes.json, style: compact, other: not/there}")
    options = config.data.agentgym_envs.textcraft
    assert options == {"recipes": f"{tmp_path}/recipes.json", "style": "compact", "other": "not/there"}


def test_variables_for_every_node(monkeypatch):
    engine = load([*GPU, "engine.env={NCCL_SOCKET_IFNAME: eth0, MINE: '1'}"]).engine
    variables = session.variables(engine)
    assert (variables["NCCL_SOCKET_IFNAME"], variables["MINE"]) == ("eth0", "1")
    assert variables[environment.WHOLE] == "1"
    assert session.variables(replace(engine, mode=Mode.COLOCATE_ASYNC))[environment.WHOLE] == "0"  # aborts responses
    assert variables["VLLM_USE_FLASHINFER_SAMPLER"] == variables["VLLM_DISABLE_COMPILE_CACHE"] == "0"
    for name in ("HF_HOME", "HTTPS_PROXY", "no_proxy", "NCCL_DEBUG", "SHELL_LEVEL"):
        monkeypatch.setenv(name, "set")
    passed = environment.passed_on()
    assert {"HF_HOME", "HTTPS_PROXY", "no_proxy", "NCCL_DEBUG"} <= passed.keys()
    assert "SHELL_LEVEL" not in passed and "PATH" not in passed


# recipes


def test_own_recipes_are_found_in_the_current_folder_and_where_they_are_said_to_be(tmp_path, monkeypatch):
    for place, steps in (("here/recipes", 3), ("there", 4)):
        (tmp_path / place / "experiment").mkdir(parents=True)
        text = f"# @package _global_\nname: own\nalgorithm: {{steps: {steps}}}\n"
        (tmp_path / place / "experiment" / "own.yaml").write_text(text)
    monkeypatch.chdir(tmp_path / "here")
    assert load(["experiment=own"]).algorithm.steps == 3
    monkeypatch.setenv(recipes.FOLDERS, str(tmp_path / "there"))
    assert load(["experiment=own"]).algorithm.steps == 4
    monkeypatch.setenv(recipes.FOLDERS, str(tmp_path))
    with pytest.raises(RecipeError, match="has no recipes; it needs folders like experiment, env"):
        load(["experiment=own"])


@pytest.mark.slow
def test_a_recipe_is_shown_where_no_engine_is_installed():
    program = (
        "import sys\n"
        "for name in ('ray', 'torch', 'vllm', 'transformers'): sys.modules[name] = None\n"
        "from agentgym_rl.cli import main\n"
        "key = 'verl.actor_rollout_ref.model.use_liger=true'\n"
        "sys.argv = ['agentgym-rl', 'train', 'experiment=textcraft_grpo_3b', key, '--show']\n"
        "main()\n"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "path: Qwen/Qwen2.5-3B-Instruct" in shown.stdout


# detection


@pytest.mark.parametrize(
    ("cuda", "chosen", "cpu"), [("13.0", "", False), (None, "", True), ("13.0", "cpu", True), (None, "cuda", False)]
)
def test_which_platform(cuda, chosen, cpu, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setenv("VERL_PLATFORM", chosen)
    assert detect.on_cpu.__wrapped__() is cpu


def test_packed_rows_do_not_see_each_other_with_sdpa():
    """verl hands rows without padding to transformers with their positions alone."""
    from transformers import AutoModelForCausalLM, Qwen2Config

    torch.manual_seed(0)
    shape = Qwen2Config(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=32,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(shape, attn_implementation="sdpa").eval()
    rows = [torch.arange(1, 6), torch.arange(7, 15)]
    positions = torch.cat([torch.arange(len(row)) for row in rows])
    with torch.inference_mode():
        packed = model(torch.cat(rows)[None], attention_mask=None, position_ids=positions[None], use_cache=False).logits
        single = [model(row[None], use_cache=False).logits for row in rows]
    torch.testing.assert_close(packed, torch.cat(single, dim=1), atol=1e-5, rtol=1e-5)


# a cluster


def nodes(*gpus):
    return [
        {
            "Alive": True,
            "NodeID": f"{number + 1:056x}",
            "NodeManagerHostname": f"host{number}",
            "Resources": {"GPU": gpus_of_node},
        }
        for number, gpus_of_node in enumerate(gpus)
    ]


def test_a_cluster_is_given_time_to_grow_and_then_told_what_it_lacks(monkeypatch):
    monkeypatch.setattr(cluster.time, "sleep", lambda seconds: None)
    joined = iter([8, 8, 16])
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"GPU": float(next(joined))})
    config = settings("engine.nodes=2", "cloning.mini_batch_trajectories=16", "algorithm.tasks_per_step=16")
    cluster.await_gpus(config, 60)
    assert next(joined, None) is None, "it went on when all were there"
    monkeypatch.setattr(ray, "cluster_resources", dict)
    with pytest.raises(cluster.RayNotStarted, match=r"needs 16 GPUs .*, and the Ray cluster has 0 after"):
        cluster.await_gpus(config, 0)
    separate = settings(f"engine.mode={Mode.SEPARATE_ASYNC}", "engine.rollout_workers=2")
    with pytest.raises(cluster.RayNotStarted, match="needs 10 GPUs"):
        cluster.await_gpus(separate, 0)


def test_a_folder_that_a_node_does_not_see(tmp_path, monkeypatch):
    class Remote:
        """Runs on a node: only the first has this machine's files."""

        def __init__(self, look):
            self.look = look

        def options(self, scheduling_strategy):
            self.node = scheduling_strategy.node_id
            return self

        def remote(self, path):
            return int(self.node, 16) == 1 and self.look(path)

    monkeypatch.setattr(ray, "remote", lambda **_: Remote)
    monkeypatch.setattr(ray, "get", lambda answers: answers)
    monkeypatch.setattr(ray, "nodes", lambda: nodes(8, 8, 0))
    with pytest.raises(cluster.NotShared, match=r"host1 cannot see the run folder .*storage that all nodes share"):
        cluster.check_shared(tmp_path)
    monkeypatch.setattr(ray, "nodes", lambda: nodes(8))
    cluster.check_shared(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("nodes", "tasks", "overrides", "loops", "units"),
    thinned(
        [
            (1, 32, [], 8, 2),
            (1, 256, [], 16, 2),
            (1, 1024, [], 32, 8),
            (8, 1024, [], 64, 16),
            (2, 32, ["rollout.workers=3"], 3, 4),
        ],
        3,
    ),
)
def test_agent_loops_and_storage_follow_batch_and_nodes(nodes, tasks, overrides, loops, units):
    sizes = (f"algorithm.tasks_per_step={tasks}", "algorithm.samples_per_task=8", f"engine.nodes={nodes}")
    config = settings("algorithm=grpo", *sizes, *overrides)
    assert config.actor_rollout_ref.rollout.agent.num_workers == loops
    assert config.transfer_queue.backend.SimpleStorage.num_data_storage_units == units


def test_on_a_cpu_there_is_one_of_each():
    config = load(["experiment=smoke", "algorithm=grpo", "algorithm.tasks_per_step=1024"])
    cpu = mapping.verl_config(Resolved(config), "model", Path("run"))
    assert cpu.actor_rollout_ref.rollout.agent.num_workers == 1
    assert cpu.transfer_queue.backend.SimpleStorage.num_data_storage_units == 1


def test_a_sweep_is_shown_where_there_are_no_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    swept = [*GPU, "seed=0,1"]
    assert len(sweep.jobs(swept, show=True)) == 2
    with pytest.raises(RecipeError, match="this machine has 0"):
        sweep.jobs(swept)
