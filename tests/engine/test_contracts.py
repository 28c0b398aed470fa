"""What this package relies on in verl 0.9.1 and vLLM 0.28 (on GPUs 0.24), by name, so that an upgrade fails here."""

import ast
import asyncio
import gc
import importlib
import importlib.util
import inspect
import logging
import os
import pickle
import socket
import subprocess
import sys
from importlib.metadata import entry_points, version
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("verl")
pytest.importorskip("vllm")

import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from verl.single_controller.ray import base as ray_groups
from verl.trainer.ppo.v1 import trainer_base

from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.engine.platform import corrections, vllm_cpu
from agentgym_rl.engine.platform.gloo_weights import GlooWeights
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.verl import cluster, environment
from agentgym_rl.engine.verl import mapping as verl_config
from agentgym_rl.engine.verl.buffer import AsyncEpisodeBuffer, EpisodeBuffer
from agentgym_rl.engine.verl.by_rows import ByRows
from agentgym_rl.engine.verl.modes import TRAINERS, SeparateTrainer, client_of, end_balancer
from agentgym_rl.engine.verl.rows import pack
from agentgym_rl.engine.verl.trainer import AgentTrainer
from agentgym_rl.engine.verl.worker import AgentWorker

SIGNATURES = """
verl.plugin.platform.get_platform
verl.plugin.platform.platform_manager.PlatformRegistry.register platform
verl.plugin.platform.platform_manager.PlatformRegistry.get name
verl.plugin.platform.platform_manager.set_platform platform
verl.utils.distributed.initialize_global_process_group_ray timeout_second backend
verl.workers.engine.base.EngineRegistry.register model_type backend device vendor
verl.workers.engine.base.EngineRegistry.get_engine_cls model_type backend
verl.workers.rollout.vllm_rollout.bucketed_weight_transfer.BucketedWeightReceiver.receive_weights self \
on_bucket_received
vllm.model_executor.layers.utils.dispatch_cpu_unquantized_gemm layer remove_weight
verl.trainer.ppo.v1.replay_buffer.ReplayBuffer.__init__ self trainer_mode trainer_config max_off_policy_threshold \
max_off_policy_strategy sampler_kwargs poll_interval refill_fn filter_groups_metric train_batch_size gen_batch_size \
max_inflight_gen_batches sync_refill_failed_groups
verl.trainer.ppo.v1.replay_buffer.ReplayBuffer._materialize_batch self partition_id selected_prompt_uids \
partition_snapshot
verl.trainer.ppo.v1.replay_buffer.ReplayBuffer._select_prompt_uids self partition_id sampleable_keys batch_size
verl.trainer.ppo.v1.replay_buffer.ReplayBuffer._wait_for_next_poll self partition_id last_debug_time
verl.trainer.ppo.v1.replay_buffer.ReplayBuffer.sample self global_steps partition_id batch_size
verl.single_controller.ray.base.RayWorkerGroup._get_master_addr_port self pg bundle_index master_port_range
verl.trainer.ppo.v1.trainer_base.register_trainer name
verl.trainer.ppo.v1.trainer_base.get_trainer_cls name
verl.trainer.ppo.v1.trainer_base.PPOTrainer.__init__ self config
verl.trainer.ppo.v1.trainer_base.PPOTrainer._balance_batch self batch metrics logging_prefix keep_minibatch
verl.trainer.ppo.v1.trainer_base.PPOTrainer._compute_advantage self batch metrics
verl.trainer.ppo.rollout_corr_helper.compute_rollout_rejection_mask log_ratio response_mask rollout_rs \
rollout_rs_threshold
verl.trainer.ppo.metric_utils.get_metric_data_with_optional_routed_experts keys partition_id fields \
moe_lb_metrics_interval global_steps accumulator kv_batch_get
verl.trainer.ppo.v1.trainer_base.PPOTrainer._update_critic self batch metrics
verl.workers.engine_workers.ActorRolloutRefWorker.compute_log_prob self data
verl.utils.torch_functional.masked_whiten values mask shift_mean
verl.workers.utils.padding.response_to_nested tensor response_mask
transfer_queue.KVBatchMeta.select_keys self keys_to_select
verl.trainer.ppo.v1.trainer_base.PPOTrainer.init self
verl.trainer.ppo.v1.trainer_base.PPOTrainer._setup self
verl.trainer.ppo.v1.trainer_base.PPOTrainer.step self metrics timing_raw
verl.trainer.ppo.v1.trainer_base.PPOTrainer._next_train_batch self num_prompts
verl.trainer.ppo.v1.trainer_base.PPOTrainer._init_resource_pool_mgr self
verl.trainer.ppo.v1.trainer_base.PPOTrainer._save_checkpoint self
verl.trainer.ppo.v1.trainer_base.PPOTrainer._load_checkpoint self
verl.trainer.ppo.v1.trainer_base.PPOTrainer._compute_metrics self batch metrics timing_raw global_steps epoch
verl.trainer.ppo.v1.trainer_base.PPOTrainer.get_llm_client self
verl.trainer.ppo.v1.trainer_base.PPOTrainer.get_teacher_client self
verl.trainer.ppo.v1.trainer_base.PPOTrainer.get_reward_handles self
verl.checkpoint_engine.CheckpointEngineManager.update_weights self global_steps
verl.experimental.agent_loop.agent_loop.AgentLoopManager.__init__ self config llm_client teacher_client \
reward_loop_worker_handles
verl.trainer.ppo.v1.AgentLoopManagerTQ.create args kwargs
verl.trainer.ppo.v1.AgentLoopManagerTQ.generate_sequences self prompts
verl.experimental.agent_loop.agent_loop.AgentLoopBase.__init__ self trainer_config server_manager tokenizer processor \
dataset_cls data_config hf_model_type kwargs
verl.experimental.agent_loop.agent_loop.AgentLoopBase.run self sampling_params kwargs
verl.experimental.agent_loop.agent_loop.AgentLoopOutput prompt_ids response_ids response_mask response_logprobs \
routed_experts multi_modal_data reward_score num_turns metrics extra_fields mm_processor_kwargs mm_processor_output
verl.experimental.agent_loop.agent_loop.AgentLoopMetrics generate_sequences tool_calls compute_score num_preempted
verl.workers.rollout.llm_server.LLMServerClient.generate self request_id prompt_ids sampling_params image_data \
video_data audio_data mm_processor_kwargs kwargs
verl.workers.rollout.llm_server.LLMServerClient._acquire_server self request_id extra
verl.workers.rollout.llm_server.LLMServerClient._release_server self server_id request_id
verl.workers.rollout.llm_server.LLMServerClient.__init__ self config load_balancer_handle kwargs
verl.workers.rollout.replica.get_rollout_replica_class rollout disaggregation_enabled
verl.utils.rollout_trace.rollout_trace_attr sample_index step rollout_n name validate trace
verl.workers.rollout.replica.TokenOutput token_ids log_probs routed_experts stop_reason num_preempted extra_fields
verl.utils.tokenizer.continuous_token_wiring.create_continuous_token_builder tokenizer model_family hf_model_type \
chat_template_kwargs mm_processor_kwargs processor builder_kwargs
verl.utils.tokenizer.continuous_token.ContinuousTokenBuilder.build_initial_tokens self messages tools images videos \
audios mm_inputs_out
verl.utils.tokenizer.continuous_token.ContinuousTokenBuilder.merge_assistant_tokens self runtime_token_ids \
assistant_token_ids
verl.utils.tokenizer.continuous_token.ContinuousTokenBuilder.merge_context_tokens self previous_messages \
updated_messages runtime_token_ids tools
verl.utils.tokenizer.continuous_token.ContinuousTokenBuilder._render_tokens self messages add_generation_prompt tools
verl.utils.tokenizer.continuous_token.MergeResult token_ids appended_token_count kind inserted_token_ids \
removed_prefix_token_count
verl.utils.tokenizer.hf_tokenizer name_or_path correct_pad_token correct_gemma2 kwargs
verl.workers.utils.losses.ppo_loss config model_output data dp_group
verl.workers.engine_workers.ActorRolloutRefWorker.init_model self
verl.workers.engine_workers.ActorRolloutRefWorker.set_loss_fn self loss_fn
verl.workers.engine_workers.ActorRolloutRefWorker.update_actor self data
verl.workers.engine_workers.ActorRolloutRefWorker.save_checkpoint self local_path hdfs_path global_step max_ckpt_to_keep
verl.workers.engine_workers.ActorRolloutRefWorker.load_checkpoint self local_path hdfs_path del_local_after_load
verl.single_controller.base.decorator.register dispatch_mode execute_mode blocking materialize_futures
verl.utils.tensordict_utils.get_tensordict tensor_dict non_tensor_dict
verl.utils.tensordict_utils.assign_non_tensor_data tensor_dict key val
verl.utils.tensordict_utils.assign_non_tensor tensor_dict kwargs
verl.utils.tensordict_utils.get_non_tensor_data data key default
transfer_queue.init conf
transfer_queue.close
transfer_queue.storage.bootstrap.StorageBootstrapProvider.register_provider name
transfer_queue.storage.bootstrap.simple_storage_bootstrap.initialize_simple_storage conf
transfer_queue.kv_batch_put keys partition_id fields tags data_parser
transfer_queue.kv_batch_get keys partition_id select_fields
transfer_queue.kv_clear keys partition_id
transfer_queue.TransferQueueClient.kv_retrieve_meta self keys partition_id create
transfer_queue.get_client
transfer_queue.KVBatchMeta keys tags partition_id fields extra_info
verl.trainer.constants_ppo.get_ppo_ray_runtime_env config
verl.utils.config.validate_config config use_reference_policy use_critic
verl.utils.config.omega_conf_to_dataclass config dataclass_type
verl.utils.dataset.rl_dataset.collate_fn data_list
verl.utils.debug.marked_timer name timing_raw color domain category
verl.utils.metric.reduce_metrics metrics
verl.workers.engine.fsdp.transformer_impl.FSDPEngine._merged_lora_per_tensor_param self
verl.workers.engine.fsdp.transformer_impl.FSDPEngine._gradient_sync_context self is_last_micro_batch
verl.workers.engine.fsdp.transformer_impl.FSDPEngine.forward_backward_batch self data loss_function forward_only
verl.workers.engine.fsdp.transformer_impl.FSDPEngineWithLMHead.prepare_model_inputs self micro_batch
verl.workers.engine.fsdp.transformer_impl.FSDPEngineWithLMHead.prepare_model_outputs self output output_args \
micro_batch logits_processor_func
verl.workers.engine.fsdp.transformer_impl.FSDPEngineWithValueHead.prepare_model_outputs self output output_args \
micro_batch logits_processor_func
verl.workers.engine.base.BaseEngine.train_batch self data loss_function
verl.trainer.ppo.v1.trainer_base.PPOTrainer._compute_old_log_prob self batch metrics
verl.trainer.ppo.rollout_corr_helper.compute_offpolicy_metrics old_log_prob rollout_log_prob response_mask
verl.trainer.ppo.rollout_corr_helper.compute_is_metrics rollout_is_weights raw_rollout_is_weights \
log_ratio_for_metrics response_mask rollout_is rollout_is_threshold rollout_is_threshold_lower
verl.trainer.ppo.rollout_corr_helper._parse_rollout_is_threshold threshold_spec
verl.trainer.ppo.core_algos.agg_loss loss_mat loss_mask loss_agg_mode dp_size batch_num_tokens global_batch_size \
loss_scale_factor
verl.workers.utils.padding.response_from_nested tensor response_mask
verl.single_controller.base.decorator.make_nd_compute_dataproto_dispatch_fn mesh_name
verl.utils.fsdp_utils.offload_fsdp_model_to_cpu model empty_cache
verl.utils.model.convert_weight_keys state_dict model
verl.workers.rollout.vllm_rollout.utils.extract_prompt_logprobs output num_prompt_logprobs result_dict
verl.workers.rollout.vllm_rollout.vllm_async_server.vLLMHttpServer.generate self prompt_ids sampling_params request_id \
image_data video_data audio_data mm_processor_kwargs priority kv_transfer_params
verl.trainer.config.CheckpointConfig _target_ save_contents load_contents async_save strict save_lora_only
"""


def resolve(dotted):
    parts = dotted.split(".")
    cut = len(parts) - 1
    while importlib.util.find_spec(parts[0]) and not _is_module(".".join(parts[:cut])):
        cut -= 1
    resolved = importlib.import_module(".".join(parts[:cut]))
    for part in parts[cut:]:
        resolved = getattr(resolved, part)
    return resolved


def _is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_versions_are_the_ones_that_were_run():
    assert version("verl") == "0.9.1"
    assert version("vllm").startswith("0.28.0" if torch.version.cuda is None else "0.24.0")
    assert version("TransferQueue") == "0.1.11"


@pytest.mark.parametrize("line", SIGNATURES.strip().splitlines(), ids=lambda line: line.split()[0])
def test_signature(line):
    dotted, *parameters = line.split()
    assert list(inspect.signature(resolve(dotted)).parameters) == parameters


def declared(module, function):
    """Parameters of a function as the source file has them, whatever was patched since."""
    tree = ast.parse(Path(importlib.util.find_spec(module).origin).read_text())
    (definition,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    return [argument.arg for argument in definition.args.args]


def test_signatures_of_what_is_replaced():
    ours = ["local_path", "torch_dtype", "model_config", "trust_remote_code"]
    assert declared("verl.utils.model", "load_valuehead_model") == ours
    assert list(inspect.signature(resolve("verl.utils.model.load_valuehead_model")).parameters) == ours


@pytest.mark.parametrize(("ours", "theirs"), [
    (AgentTrainer, "verl.trainer.ppo.v1.trainer_base.PPOTrainer"),
    (ByRows, "verl.trainer.ppo.v1.trainer_base.PPOTrainer"),
    (SeparateTrainer, "verl.trainer.ppo.v1.trainer_separate_async.PPOTrainerSeparateAsync"),
    (EpisodeBuffer, "verl.trainer.ppo.v1.replay_buffer.ReplayBuffer"),
    (AsyncEpisodeBuffer, "verl.trainer.ppo.v1.replay_buffer.ReplayBufferAsync"),
    (AgentWorker, "verl.experimental.separation.engine_workers.DetachActorWorker"),
    (GlooWeights, "verl.checkpoint_engine.CheckpointEngine"),
])  # fmt: skip
def test_overrides_take_what_verl_passes(ours, theirs):
    theirs = resolve(theirs)
    for name, method in vars(ours).items():
        if not inspect.isfunction(method) or not hasattr(theirs, name) or name == "__init__":
            continue
        parameters = list(inspect.signature(getattr(theirs, name)).parameters)
        if parameters == ["self", "kwargs"]:  # what a checkpoint engine's build_topology says
            continue
        assert list(inspect.signature(method).parameters) == parameters, name


def test_our_methods_are_new_to_verl_or_meant_as_overrides():
    meant = {
        AgentTrainer: {
            "__init__",
            "_init_resource_pool_mgr",
            "_add_prompts_to_generate",
            "_load_checkpoint",
            "_save_checkpoint",
        },
        ByRows: {"_compute_advantage", "_compute_metrics", "_compute_old_log_prob"},
        EpisodeBuffer: {
            "__init__",
            "_clear_groups",
            "_materialize_batch",
            "_select_prompt_uids",
            "_sync_metadata_from_transfer_queue",
            "_wait_for_next_poll",
        },
        AsyncEpisodeBuffer: {"_has_enough_samples", "_stale_terminal_keys"},
        AgentWorker: {
            "__init__",
            "clear_cpu_model",
            "compute_log_prob",
            "init_model",
            "load_checkpoint",
            "restore_model_from_cpu",
            "save_checkpoint",
            "save_model_to_cpu",
        },
    }
    for ours, names in meant.items():
        methods = {name for name, value in vars(ours).items() if inspect.isfunction(value)}
        inherited = {name for base in ours.__mro__[1:-1] for name in vars(base)}
        assert methods & inherited == names, ours


# the platform


def test_our_platform_is_complete_and_active():
    from verl.plugin.platform import get_platform, platform_base, platform_manager

    from agentgym_rl.engine.platform.cpu import PlatformCPU

    assert not inspect.isabstract(PlatformCPU)
    mine = PlatformCPU()
    for name in platform_base.PlatformBase.__abstractmethods__:
        assert name in vars(PlatformCPU), name
        if callable(getattr(PlatformCPU, name)):
            ours, theirs = (
                list(inspect.signature(getattr(kind, name)).parameters)
                for kind in (PlatformCPU, platform_base.PlatformBase)
            )
            assert ours == theirs, name
    assert (mine.device_name, mine.communication_backend_name(), mine.ray_resource_name()) == ("cpu", "gloo", "GPU")
    assert mine.is_available() and mine.is_platform_available() and not mine.is_ipc_supported()
    with mine.nvtx_range("x"):
        mine.synchronize()
    assert torch.zeros(1).to(mine.current_device()).device.type == "cpu"
    assert hasattr(platform_manager, "_current_platform")
    assert platform_manager.PlatformRegistry.get("cpu") is PlatformCPU
    assert isinstance(get_platform(), PlatformCPU)


def test_the_device_module_answers_what_verl_asks_of_one():
    from agentgym_rl.engine.platform.cpu import PlatformCPU

    device = PlatformCPU().device_module
    free, total = device.mem_get_info()
    assert 0 < free <= total
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
        assert 0 < getattr(device, name)() < total
    state = device.get_rng_state()
    drawn = torch.rand(3)
    device.set_rng_state(state)
    assert torch.equal(torch.rand(3), drawn)
    for name in ("synchronize", "empty_cache", "ipc_collect", "reset_peak_memory_stats"):
        getattr(device, name)()
    device.set_device(0)
    assert isinstance(device.get_device_name(), str)


def test_entry_points():
    assert {point.value for point in entry_points(group="verl.plugins")} >= {
        "agentgym_rl.engine.platform.plugin:register"
    }
    assert {point.value for point in entry_points(group="vllm.general_plugins")} >= {
        "agentgym_rl.engine.platform.vllm_cpu:register"
    }


def test_fsdp_engines_are_registered_for_the_cpu():
    from verl.workers.engine import EngineRegistry
    from verl.workers.engine.fsdp import transformer_impl

    for strategy in ("fsdp", "fsdp2"):
        for kind, of_verl in (
            ("language_model", transformer_impl.FSDPEngineWithLMHead),
            ("value_model", transformer_impl.FSDPEngineWithValueHead),
        ):
            assert of_verl in EngineRegistry.get_engine_cls(kind, strategy).__mro__[1:]


def test_registries_know_us():
    from verl.checkpoint_engine import CheckpointEngineRegistry
    from verl.experimental.agent_loop import agent_loop
    from verl.trainer.ppo.utils import Role
    from verl.trainer.ppo.v1.trainer_base import get_trainer_cls

    assert agent_loop._agent_loop_registry["agentgym"] == {"_target_": "agentgym_rl.rollout.agent_loop.AgentGymLoop"}
    for mode, ours in TRAINERS.items():
        assert issubclass(ours, get_trainer_cls(mode)) and issubclass(ours, AgentTrainer)
    assert CheckpointEngineRegistry.get("gloo") is GlooWeights
    assert {"ActorRollout", "ActorRolloutRef", "Critic"} <= set(Role.__members__)
    assert str(Role.Critic) == "critic"  # names the critic's folder in a checkpoint


def test_agent_loop_workers_can_be_told_of_their_servers_later():
    """``EarlyManager`` puts its own worker class in place and its workers' clients in after they have started."""
    from verl.experimental.agent_loop.agent_loop import AgentLoopManager
    from verl.trainer.ppo.v1 import AgentLoopManagerTQ
    from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

    from agentgym_rl.engine.verl.agent_loops import EarlyManager, EarlyWorker

    worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class
    assert issubclass(EarlyWorker, worker) and issubclass(EarlyManager, AgentLoopManagerTQ)
    (source,) = (inspect.getsource(base.__init__) for base in worker.__mro__ if base.__name__ == "AgentLoopWorker")
    for name in ("llm_client", "teacher_client", "reward_loop_worker_handles"):
        assert f"self.{name} = {name}" in source
    for name in ("config", "tokenizer", "processor", "dataset_cls", "hf_model_type"):
        assert f"self.{name} =" in source or f"self.{name}:" in source
    assert "self.agent_loop_workers_class" in inspect.getsource(AgentLoopManager._init_agent_loop_workers)
    assert "self.agent_loop_workers" in inspect.getsource(AgentLoopManagerTQ.generate_sequences)


def test_the_rows_of_a_prompt_have_what_verls_own_have(monkeypatch):
    """``EarlyWorker`` writes the fields that are read, as verl's worker writes them, in one call."""
    from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
    from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

    from agentgym_rl.engine.verl.agent_loops import EarlyWorker

    theirs = AgentLoopWorkerTQ.__ray_metadata__.modified_class
    our_parameters, their_parameters = (
        [name for name in inspect.signature(worker._run_prompt).parameters if name != "_ray_trace_ctx"]
        for worker in (EarlyWorker, theirs)
    )
    assert our_parameters == their_parameters
    puts = []

    async def put(**fields):
        puts.append(fields)

    monkeypatch.setattr(tq, "async_kv_put", put)
    monkeypatch.setattr(tq, "async_kv_batch_put", put)

    def ended(length):
        turn = Turn(response="", action=None, observation="", reward=0.0, invalid=False, tokens=(0, length))
        return Episode(
            env="maze", item_id=f"of {length}", ending=Ending.TERMINATED, reward=0.0, success=False, max_turns=1,
            turns=[turn],
        )  # fmt: skip

    def output(length):
        return AgentLoopOutput(
            prompt_ids=[1, 2], response_ids=list(range(length)), response_mask=[1] * length,
            response_logprobs=[-0.5] * length, reward_score=0.25, num_turns=3,
            metrics=AgentLoopMetrics(generate_sequences=0.0, tool_calls=0.0),
            extra_fields={
                "episode": ended(length), "min_global_steps": 4, "max_global_steps": 5, "reward_extra_info": {},
            },
        )  # fmt: skip

    episodes = [[output(3), output(2)], [output(4)]]
    plays = iter(episodes)

    async def each(sampling, **row):
        assert row["item_id"] == "maze_1" and sampling == {"top_k": 1}
        return next(plays)

    worker = object.__new__(EarlyWorker)
    worker._episodes = SimpleNamespace(run=each)
    prompt = {"uid": "7", "item_id": "maze_1", "global_steps": 5, "__rollout_n__": 2}
    asyncio.run(worker._run_prompt(prompt, {"top_k": 1}, {"validate": False}))
    running, ours, finished = puts
    assert (running["tag"], finished["tag"]) == ({"status": "running"}, {"status": "finished"})
    assert ours["keys"] == ["7_0_0", "7_0_1", "7_1_0"] and ours["partition_id"] == "train"
    assert finished["key"] == "7" and pickle.loads(finished["fields"]["episodes"]) == [ended(2), ended(4)]

    puts.clear()
    verls = object.__new__(theirs)
    verls.processor = verls.reward_loop_worker_handles = None
    verls.distillation_enabled = False
    for session, outputs in enumerate(episodes):
        asyncio.run(verls._agent_loop_postprocess(outputs, False, **prompt, session_id=session))
    assert [key for put in puts for key in put["keys"]] == ours["keys"]
    added = {
        "own_tokens": [3, 2, 4],
        "own_by_third": [[0, 3, 0], [0, 2, 0], [0, 4, 0]],
        "score": [0.25] * 3,
        "num_turns": [3] * 3,
    }
    assert {name: [tag.pop(name) for tag in ours["tags"]] for name in added} == added
    assert [tag for put in puts for tag in put["tags"]] == ours["tags"]
    rows = [row for put in puts for row in put["fields"]]
    for name in sorted(ours["fields"].keys()):
        for our_row, row in zip(ours["fields"], rows, strict=True):
            if isinstance(our_row[name], torch.Tensor):
                assert our_row[name].dtype == row[name].dtype and our_row[name].tolist() == row[name].tolist(), name
            else:
                assert our_row[name] == row[name], name

    async def fail(sampling, **row):
        raise RuntimeError("no environment")

    puts.clear()
    worker._episodes = SimpleNamespace(run=fail, lost=lambda row, error: [output(1)])
    asyncio.run(worker._run_prompt(prompt, {}, {"validate": True}))
    assert puts[1]["keys"] == ["7_0_0", "7_1_0"] and puts[2]["tag"] == {"status": "finished"}
    assert pickle.loads(puts[2]["fields"]["episodes"]) == [ended(1)] * 2, "every prompt has all its episodes"


def test_servers_are_reached_without_verls_balancer(monkeypatch):
    """Without the balancer, every client has the servers."""
    import ray
    from verl.workers.rollout.llm_server import LLMServerManager

    source = inspect.getsource(LLMServerManager)
    for name in ("server_addresses", "server_handles", "global_load_balancer"):
        assert f"self.{name} = " in source

    killed = []
    monkeypatch.setattr(ray, "kill", killed.append)
    servers = SimpleNamespace(server_addresses=["a"], server_handles=["server of a"], global_load_balancer="balancer")
    end_balancer(servers)
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"name": "vllm", "full_determinism": False}}})
    for _ in range(2):
        assert asyncio.run(client_of(config, servers)._acquire_server("episode")) == ("a", "server of a")
    assert killed == ["balancer"]


def test_a_worker_method_is_called_on_every_worker():
    from verl.single_controller.base import decorator

    assert hasattr(decorator.Dispatch, "ONE_TO_ALL")
    marked = getattr(AgentWorker.set_optimizer, decorator.MAGIC_ATTR)
    assert marked["dispatch_mode"] == decorator.Dispatch.ONE_TO_ALL


def optimized(**changes):
    """verl's own engine, with one weight of 1, after two updates with the gradients 3 and -1."""
    from verl.workers.config import FSDPOptimizerConfig

    engine = object.__new__(resolve("verl.workers.engine.fsdp.transformer_impl.FSDPEngine"))
    engine.module, engine.optimizer_config = torch.nn.Linear(1, 1, bias=False), FSDPOptimizerConfig(lr=1.0)
    engine._qat_enabled = False
    engine.optimizer = engine._build_optimizer(engine.module)
    engine.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(engine.optimizer, lambda step: 1.0)
    worker = object.__new__(AgentWorker)
    worker.actor = SimpleNamespace(engine=engine)
    weight = engine.module.weight
    torch.nn.init.ones_(weight)
    worker.set_optimizer(**{"lr": 0.25, "weight_decay": 0.0, "betas": (0.9, 0.999), "clip_grad": 1.0, **changes})
    for gradient in (3.0, -1.0):
        weight.grad = torch.full_like(weight, gradient)
        engine.optimizer_step()
    return worker, weight.item()


@pytest.mark.parametrize("changes", [{"lr": 0.1}, {"weight_decay": 0.1}, {"betas": (0.5, 0.999)}, {"clip_grad": 9.0}])
def test_every_setting_of_the_optimizer_moves_the_weights(changes):
    assert optimized(**changes)[1] != pytest.approx(optimized()[1], abs=1e-3)


def test_a_learning_rate_is_that_of_verls_scheduler_too():
    worker, _ = optimized(lr=0.5)
    assert worker.actor.engine.lr_scheduler_step() == 0.5, "verl logs it, and sets it for the next update"
    assert worker.actor.engine.optimizer.state
    worker.reset_optimizer()
    assert not worker.actor.engine.optimizer.state


def test_a_reward_lands_on_the_last_token():
    from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

    fields = AgentLoopOutput(
        prompt_ids=[1, 2], response_ids=[3, 4, 5], response_mask=[1, 0, 1], response_logprobs=[-1.0, 0.0, -2.0],
        reward_score=0.5, num_turns=2, metrics=AgentLoopMetrics(), extra_fields={"episode": {"env": "x"}},
    ).as_dict()  # fmt: skip
    assert fields["rm_scores"].tolist() == [0.0, 0.0, 0.5]
    assert fields["extra_fields"] == {"episode": {"env": "x"}}
    assert fields["rollout_log_probs"].tolist() == [-1.0, 0.0, -2.0]


# the replay buffer


def test_the_buffer_is_built_as_verl_builds_one(monkeypatch):
    """``_build_replay_buffer`` on a trainer without anything else, with the settings of a recipe."""
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    config = verl_config.verl_config(Resolved(recipes.load(["experiment=smoke"])), "somewhere", Path("run"))
    trainer = SimpleNamespace(config=config, trainer_mode="sync", _add_prompts_to_generate=None)
    buffer = PPOTrainer._build_replay_buffer(trainer)
    assert type(buffer).__name__ == "EpisodeBuffer" and buffer.poll_interval < 0.1
    for name in ("pending_keys", "running_keys", "finished_keys", "failure_keys"):
        assert getattr(buffer, name)["train"] == set()
    seen = []
    monkeypatch.setattr(tq, "kv_batch_get", lambda **_: {"episodes": [pack([])["episodes"]]})
    buffer.finished_keys["train"], buffer.running_keys["train"] = {"a"}, {"b", "c"}
    buffer.progress = lambda done, total: seen.append((done, total))
    assert isinstance(buffer._wait_for_next_poll("train", 0.0), float)
    assert seen == [(1, 3)]


def test_failed_episodes_leave_the_batch_and_are_counted(monkeypatch):
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    from agentgym_rl.data.episode import Ending, Episode
    from agentgym_rl.engine.verl.buffer import NothingToLearn

    def episode(ending):
        return Episode(env="counter", item_id="counter_1", ending=ending, reward=0.0, success=False, max_turns=5)

    endings = {"a": Ending.TERMINATED, "b": Ending.ENV_ERROR, "c": Ending.TURN_LIMIT}
    cleared = []

    def batch_of(self, partition_id, selected_prompt_uids, partition_snapshot):
        keys = [key for key in ("a_0_0", "b_0_0", "c_0_0", "c_0_1") if key[0] in selected_prompt_uids]
        return tq.KVBatchMeta(partition_id=partition_id, keys=keys, tags=[{"of": key} for key in keys])

    def stored(keys, partition_id, select_fields):
        return {"episodes": [pack([episode(endings[key])])["episodes"] for key in keys]}

    monkeypatch.setattr(ReplayBuffer, "_materialize_batch", batch_of)
    monkeypatch.setattr(tq, "kv_batch_get", stored)
    monkeypatch.setattr(tq, "kv_clear", lambda keys, partition_id: cleared.append((partition_id, keys)))
    buffer = EpisodeBuffer("sync", OmegaConf.create(), None, "drop", OmegaConf.create())
    buffer.finished_keys |= {"train": set("abc"), "val": set("abc")}
    survivors = ["a_0_0", "c_0_0", "c_0_1"]  # c was folded: two samples, one episode
    batch = buffer._materialize_batch("train", [*"abc"], {})
    assert (batch.keys, batch.tags, cleared) == (survivors, [{"of": key} for key in survivors], [("train", ["b_0_0"])])
    assert [episode.ending for episode in buffer.take_episodes().values()] == list(endings.values())
    assert buffer.take_episodes() == {}
    with pytest.raises(NothingToLearn, match="all 1 episodes"):
        buffer._materialize_batch("train", ["b"], {})
    assert buffer._materialize_batch("val", ["b"], {}).keys == []


# the configuration

ADDITIONS = {
    "data.agentgym": "read by our agent loop",
    "trainer.v1.agentgym": "read by our trainer",
    "data.agentgym_envs": "read by our agent loop",
    "actor_rollout_ref.agentgym": "read by our worker",
    "actor_rollout_ref.rollout.enable_sleep_mode": "a field of RolloutConfig",
    "actor_rollout_ref.actor.fsdp_config.mixed_precision": "a field of FSDPEngineConfig",
    "actor_rollout_ref.actor.checkpoint.save_lora_only": "a field of CheckpointConfig",
    "critic.fsdp.mixed_precision": "a field of FSDPEngineConfig",
    "ray_kwargs.ray_init.num_gpus": "an argument of ray.init",
    "actor_rollout_ref.model.override_config.attn_implementation": "an attribute of the Hugging Face configuration",
    "critic.model.override_config.attn_implementation": "an attribute of the Hugging Face configuration",
    "actor_rollout_ref.rollout.engine_kwargs.vllm.distributed_executor_backend": "an argument of vLLM's engine",
    "actor_rollout_ref.rollout.engine_kwargs.vllm.kv_cache_memory_bytes": "an argument of vLLM's engine",
}
"""Keys that verl's defaults do not have, and who reads them."""


def test_keys_that_verl_has():
    defaults = verl_config.defaults()
    OmegaConf.set_struct(defaults, False)
    unknown = set()
    for device, mode in product(("cpu", "gpu"), TRAINERS):
        run = Resolved(config := recipes.load(["experiment=smoke", f"engine={device}", f"engine.mode={mode}"]))
        ours = verl_config._common(run, "m", Path("run")) | verl_config._device(run, 0)
        ours |= verl_config._mode(config) | verl_config._correction(config)
        for key in ours:
            parent, _, leaf = key.rpartition(".")
            block = OmegaConf.select(defaults, parent)
            if block is None or leaf not in block.keys():  # noqa: SIM118  a key without a value is not `in`
                unknown.add(key)
    assert unknown == set(ADDITIONS)


def test_fields_of_verls_dataclasses():
    from dataclasses import fields

    from verl.workers.config import FSDPEngineConfig, RolloutConfig

    assert "enable_sleep_mode" in {field.name for field in fields(RolloutConfig)}
    assert "mixed_precision" in {field.name for field in fields(FSDPEngineConfig)}


def test_the_environment_of_workers_can_be_extended():
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    assert isinstance(get_ppo_ray_runtime_env(verl_config.defaults())["env_vars"], dict)


# corrections


def test_a_value_head_loads_without_flash_attention(tmp_path):
    from transformers import AutoConfig, AutoModelForTokenClassification, Qwen2Config

    shape = Qwen2Config(
        vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=16, num_labels=1,
    )  # fmt: skip
    AutoModelForTokenClassification.from_config(shape).save_pretrained(tmp_path)
    module = SimpleNamespace()
    corrections.value_head(module)
    config = AutoConfig.from_pretrained(tmp_path)
    for load in (module.load_valuehead_model, resolve("verl.utils.model.load_valuehead_model")):
        critic = load(str(tmp_path), torch.float32, config, False)
        assert critic.config._attn_implementation == "sdpa"
        assert critic(torch.tensor([[1, 2, 3]])).logits.shape == (1, 3, 1)


class Receiver:
    """Hands out views of one buffer that it reuses, and cleans up at the end."""

    def __init__(self):
        self.buffer = torch.zeros(2)
        self.cleaned = 0

    def receive_weights(self, on_bucket_received):
        try:
            for number in range(3):
                self.buffer.fill_(number)
                on_bucket_received([("weight", self.buffer.view(2))], number == 2)
        finally:
            self.cleaned += 1


@pytest.fixture
def receiver():
    kind = type("Corrected", (Receiver,), {"receive_weights": Receiver.receive_weights})
    corrections.weight_receiver(SimpleNamespace(BucketedWeightReceiver=kind))
    return kind()


def test_received_weights_are_copies(receiver):
    received = []
    receiver.receive_weights(lambda weights, is_last: received.append((weights[0][1], is_last)))
    assert [(tensor.tolist(), is_last) for tensor, is_last in received] == [
        ([0.0, 0.0], False), ([1.0, 1.0], False), ([2.0, 2.0], True),
    ]  # fmt: skip


def test_a_failure_while_receiving_is_raised_after_the_sender_was_answered(receiver):
    calls = []

    def fail(weights, is_last):
        calls.append(receiver.buffer[0].item())
        raise KeyError("no such weight")

    with pytest.raises(KeyError, match="no such weight"):
        receiver.receive_weights(fail)
    assert (calls, receiver.buffer[0].item(), receiver.cleaned) == ([0.0], 2.0, 1)


def test_two_runs_on_a_machine_send_weights_along_different_paths(monkeypatch):
    """Ray's job id, of which verl makes the path, is 01000000 in every new cluster."""
    assert cluster.RUN == corrections.RUN
    module = SimpleNamespace(**{
        name: type(name, (), {"__init__": lambda self, zmq_handle, bucket_size_mb=512: vars(self).update(locals())})
        for name in ("BucketedWeightSender", "BucketedWeightReceiver")
    })  # fmt: skip
    corrections.weight_sockets(module)
    paths = {}
    for run in ("one", "other"):
        monkeypatch.setenv(corrections.RUN, run)
        sender = module.BucketedWeightSender(zmq_handle="ipc:///tmp/weights.sock", bucket_size_mb=64)
        receiver = module.BucketedWeightReceiver("ipc:///tmp/weights.sock")
        assert sender.zmq_handle == receiver.zmq_handle and sender.bucket_size_mb == 64
        paths[run] = sender.zmq_handle
    assert paths["one"] != paths["other"] and all(path.startswith("ipc:///tmp/weights.sock") for path in paths.values())


@pytest.mark.parametrize(("variable", "kind"), [("1", "FINAL_ONLY"), ("0", "CUMULATIVE"), (None, "CUMULATIVE")])
def test_servers_take_a_response_once_where_none_is_aborted(monkeypatch, variable, kind):
    """verl's server makes its parameters by the name in its module, and reads ids alone."""
    assert environment.WHOLE == corrections.WHOLE
    generate = resolve("verl.workers.rollout.vllm_rollout.vllm_async_server.vLLMHttpServer.generate")
    assert "SamplingParams" in generate.__code__.co_names
    module = SimpleNamespace(SamplingParams=resolve("vllm.SamplingParams"))
    monkeypatch.delenv(corrections.WHOLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(corrections.WHOLE, variable)
    corrections.whole_responses(module)
    made = module.SamplingParams(max_tokens=3, logprobs=0, temperature=0.5)
    assert (made.output_kind.name, made.detokenize, made.max_tokens, made.temperature) == (kind, False, 3, 0.5)


@pytest.mark.slow
def test_weights_travel_over_shared_memory(tmp_path):
    """verl's own sender and receiver, between two threads, with the receiver as it is corrected here."""
    import asyncio
    from threading import Thread

    from verl.workers.rollout.vllm_rollout import bucketed_weight_transfer as transfer

    parameters = inspect.signature(transfer.BucketedWeightSender.__init__).parameters
    assert {"zmq_handle", "bucket_size_mb", "use_shm"} <= set(parameters)
    handle = f"ipc://{tmp_path}/weights.sock"
    sent = {f"layer{number}": torch.full((300, 300), float(number)) for number in range(8)}
    sender = transfer.BucketedWeightSender(zmq_handle=handle, bucket_size_mb=1, use_shm=True)

    async def weights():
        for item in sent.items():
            yield item

    received = {}
    target = transfer.BucketedWeightReceiver(zmq_handle=handle, device=torch.device("cpu"), use_shm=True)
    thread = Thread(target=lambda: target.receive_weights(lambda some, is_last: received.update(some)), daemon=True)
    thread.start()
    asyncio.run(sender.async_send_weights(weights()))
    thread.join(20)
    assert not thread.is_alive()
    gc.collect()
    assert received.keys() == sent.keys()
    assert all(torch.equal(received[name], sent[name]) for name in sent)


def test_a_process_group_names_the_cpu_once():
    calls = []
    module = SimpleNamespace(initialize_global_process_group_ray=lambda **settings: calls.append(settings))
    corrections.process_group(module)
    module.initialize_global_process_group_ray()
    module.initialize_global_process_group_ray(timeout_second=5, backend="nccl")
    assert calls == [
        {"timeout_second": None, "backend": "cpu:gloo"}, {"timeout_second": 5, "backend": "nccl"},
    ]  # fmt: skip


def test_workers_meet_on_a_port_that_no_connection_is_lent():
    """Another process took a lent one before the workers listened on it."""
    first, end = trainer_base.RayWorkerGroup.keywords["master_port_range"]
    lent = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert first < end <= max(lent, 32_768)
    with socket.socket() as listener:
        listener.bind(("", first))
        _, port = ray_groups.get_master_addr_port._function([first, end])
    assert first < int(port) < end


def test_vllms_server_does_not_silence_our_warnings():
    importlib.import_module("verl.workers.rollout.vllm_rollout.vllm_async_server")
    assert logging.getLogger("agentgym_rl.rollout.loop").isEnabledFor(logging.WARNING)
    assert all(handler.level <= logging.WARNING for handler in logging.root.handlers)


def test_linear_layers_keep_their_weight():
    calls = []

    def dispatch(layer, remove_weight):
        calls.append((layer, remove_weight))

    module = SimpleNamespace(dispatch_cpu_unquantized_gemm=dispatch)
    vllm_cpu.keep_weight(module)
    module.dispatch_cpu_unquantized_gemm("layer", remove_weight=True)
    module.dispatch_cpu_unquantized_gemm("layer", True)
    assert calls == [("layer", False)] * 2


def test_vllm_looks_the_function_up_when_it_packs():
    """A name imported at the top of a module would be the uncorrected one."""
    for name in ("linear", "vocab_parallel_embedding"):
        source = Path(importlib.util.find_spec(f"vllm.model_executor.layers.{name}").origin).read_text()
        tree = ast.parse(source)
        top = [alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
        assert "dispatch_cpu_unquantized_gemm" in source and "dispatch_cpu_unquantized_gemm" not in top


# in processes of their own


def python(code, *, path=(), **variables):
    """Standard output of a fresh interpreter; a variable given as ``None`` is taken out of its environment."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "TQDM_DISABLE": "1", **variables}
    environment = {key: value for key, value in environment.items() if value is not None}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.split()


def distribution(folder, name, number):
    info = folder / f"{name.replace('-', '_')}-{number}.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    return folder


ALIASED = """
import sys
sys.path = [entry for entry in sys.path if "site-packages" not in entry] + sys.argv[1:]
from importlib.metadata import PackageNotFoundError, version
sys.path.insert(0, PACKAGE)
from agentgym_rl.engine.platform import vllm_alias
vllm_alias.install()
vllm_alias.install()
assert sum(type(finder).__module__ == vllm_alias.__name__ for finder in sys.meta_path) == 1
try:
    print(version("vllm"))
except PackageNotFoundError:
    print("none")
"""


@pytest.mark.parametrize(
    ("installed", "answer"),
    [
        ({"vllm-cpu": "0.28.0"}, "0.28.0+cpu"),
        ({"vllm-cpu": "0.28.0+cpu"}, "0.28.0+cpu"),
        ({"vllm-cpu": "0.28.0", "vllm": "0.24.0"}, "0.24.0"),
        ({"vllm": "0.28.0+cpu"}, "0.28.0+cpu"),
        ({}, "none"),
    ],
)
def test_who_answers_for_vllm(tmp_path, installed, answer):
    for name, number in installed.items():
        distribution(tmp_path, name, number)
    package = Path(corrections.__file__).parents[3]
    assert python(f"PACKAGE = {str(package)!r}\n{ALIASED}", path=[tmp_path]) == [answer]


STATE = """
import verl
from verl.plugin.platform import platform_manager
from agentgym_rl.engine.platform import vllm_alias, vllm_cpu
import sys
vllm_cpu.register()
import verl.utils.distributed as d, verl.utils.model as m
print("cpu" in platform_manager.PlatformRegistry.registered_names())
print(any(type(finder).__module__ == vllm_alias.__name__ for finder in sys.meta_path))
print(hasattr(d.initialize_global_process_group_ray, "__wrapped__"))
print(m.load_valuehead_model.__module__)
"""
CUDA_TORCH = "import torch\ntorch.version.cuda = torch.version.cuda or '13.0'\n"
ACTIVE = ["True", "True", "True", "agentgym_rl.engine.platform.corrections"]
ASIDE = ["False", "False", "False", "agentgym_rl.engine.platform.corrections"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "platform", "state"),
    [
        pytest.param("", "cuda", ASIDE, id="told to use CUDA"),
        pytest.param(CUDA_TORCH, None, ASIDE, id="a CUDA build of torch"),
        pytest.param("", None, ACTIVE, id="a CPU build of torch"),
        pytest.param(CUDA_TORCH, "cpu", ACTIVE, id="a CUDA build, told to use the CPU"),
    ],
)
def test_the_plugin_steps_aside(before, platform, state):
    if torch.version.cuda is not None and not before:
        pytest.skip("needs a CPU build of torch")
    assert python(before + STATE, VERL_PLATFORM=platform) == state


def test_seeds_count_beside_requests_that_have_none():
    module = pytest.importorskip("vllm.v1.sample.ops.topk_topp_sampler")
    vllm_cpu.keep_seeds(module)
    sampler = module.TopKTopPSampler("raw_logprobs")

    def drawn():
        seeded = {0: torch.Generator().manual_seed(3)}
        return int(sampler.forward_cpu(torch.zeros(2, 10_000), seeded, None, None)[0][0])

    assert drawn() == drawn()
