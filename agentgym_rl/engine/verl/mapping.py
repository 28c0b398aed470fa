"""From a run's configuration to verl's: the one place that knows verl's keys."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from agentgym_rl.algorithms.config import OnlineConfig, PolicyGradientConfig
from agentgym_rl.algorithms.correction import BOUNDS, Correction
from agentgym_rl.algorithms.model import Critic
from agentgym_rl.engine.recipe.compose import RecipeError
from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import nearest, to_dict
from agentgym_rl.engine.recipe.verl_keys import check_sampling, check_verl_keys, is_open
from agentgym_rl.envs.extras import missing
from agentgym_rl.eval.evaluation.rules import flat

PACKAGE = "agentgym_rl.engine"
ESTIMATOR = "agentgym_rl"
"""Name of the estimator for algorithms that compute their own advantages."""
_OF_REWARDS = ("score", "rewards", "advantages", "returns")
"""Metrics that verl logs under ``critic/`` of every algorithm, though few have a critic."""


def renamed(metric: str) -> str:
    """Our name of a metric of verl: ``reward/score/mean`` for ``critic/score/mean``."""
    family, _, rest = metric.partition("/")
    return f"reward/{rest}" if family == "critic" and rest.partition("/")[0] in _OF_REWARDS else metric


BUCKET = 64
"""MiB of shared memory in which weights travel to vLLM on a CPU; the largest tensor must fit."""


def defaults() -> DictConfig:
    """verl's own ``ppo_trainer`` configuration; its package, which imports Ray, is not imported for it.

    Raises:
        MissingExtra: verl is not installed.
    """
    spec = find_spec("verl")
    if spec is None or spec.origin is None:
        raise missing("a key of verl", "verl", "cpu")
    return deepcopy(_composed(str(Path(spec.origin).parent / "trainer" / "config")))


@cache
def _composed(folder: str) -> DictConfig:
    """Composed once a process, though every job of a sweep asks for it."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(folder, version_base=None):
        return compose("ppo_trainer")


def check_verl(run: Resolved) -> None:
    """Refuse keys under ``verl`` before anything is built; raises what :func:`verl_config` does."""
    if run.config.verl:
        verl_config(run, "model", Path(run.config.run.dir))


def verl_config(run: Resolved, model_path: str, run_dir: Path, largest_tensor: int = 0) -> DictConfig:
    """verl's configuration of a run.

    Args:
        largest_tensor: bytes of the model's largest weight in float32, for which weights on their way to vLLM need room
            on a CPU (:func:`agentgym_rl.engine.verl.network.largest_tensor`).

    Raises:
        RecipeError: ``verl`` names a key that verl does not have, a value of the wrong type, or a key that this package
            sets itself.
    """
    config = run.config
    result, given = defaults(), dict(flat(config.verl))
    ours = _common(run, model_path, run_dir) | _device(run, largest_tensor) | _mode(config) | _correction(config)
    OmegaConf.set_struct(result, False)  # some of verl's keys are optional and absent from its defaults
    for key, value in ours.items():
        OmegaConf.update(result, key, value, merge=True)
    OmegaConf.set_struct(result, True)
    for key, value in given.items():
        try:
            OmegaConf.update(result, key, value, merge=True, force_add=is_open(key))
        except (OmegaConfBaseException, AttributeError) as error:
            raise RecipeError(_said(result, key, error)) from error
    check_verl_keys(given, ours)
    check_sampling(given, config.algorithm)
    return result


def _said(verl: DictConfig, key: str, error: Exception) -> str:
    """The error of a key under ``verl``; for an unknown one with those that are there."""
    if not isinstance(error, ConfigKeyError | ConfigAttributeError):
        return f"verl.{key}: {error}"
    block, words = "verl", key.split(".")
    while isinstance(below := verl.get(words[0]), DictConfig):
        verl, block = below, f"{block}.{words.pop(0)}"
    names = [str(name) for name in verl]
    return f"verl.{key} is unknown{nearest(words[0], names)}; {block} has {', '.join(names) or 'no keys'}"


def _common(run: Resolved, model_path: str, run_dir: Path) -> dict[str, Any]:
    config, needs = run.config, run.needs
    engine, model, rollout = config.engine, config.model, config.rollout
    online, policy = _online(config), _policy(config)
    micro_tokens = engine.micro_tokens or model.context  # left open until the model is known
    critic = needs.critic or Critic(lr=1e-5)
    actor, generation = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    return {
        # data
        "data.custom_cls.path": f"pkg://{PACKAGE}.verl.dataset",
        "data.custom_cls.name": "TaskDataset",
        "data.train_files": [f"{name}:{env.split}:1" for name, env in config.envs.items()],
        "data.val_files": [f"{name}:{env.split}:1" for name, env in config.envs.items()],
        "data.train_batch_size": policy.tasks_per_step,
        "data.max_prompt_length": model.prompt_tokens,
        "data.max_response_length": model.response_tokens,
        "data.dataloader_num_workers": 0,
        "data.seed": config.seed,
        "data.agentgym": to_dict(run.rules),
        "data.agentgym_envs": {name: _env(run, name) for name in config.envs},
        # algorithm
        "algorithm.adv_estimator": ESTIMATOR if needs.estimator is None else needs.estimator.name,
        "algorithm.gamma": 1.0 if needs.estimator is None else needs.estimator.gamma,
        "algorithm.lam": 1.0 if needs.estimator is None else needs.estimator.lam,
        "algorithm.use_kl_in_reward": False,
        # policy
        "actor_rollout_ref.model.path": model_path,
        "actor_rollout_ref.model.lora_rank": model.lora_rank,
        "actor_rollout_ref.model.lora_alpha": model.lora_alpha,
        "actor_rollout_ref.model.target_modules": model.target_modules or "all-linear",
        "actor_rollout_ref.model.lora.merge": model.lora_rank > 0,  # vLLM gets whole weights, as without adapters
        "actor_rollout_ref.agentgym": {"train_layers": model.train_layers},
        f"{actor}.strategy": "fsdp2",
        f"{actor}.optim.lr": online.lr,
        f"{actor}.optim.weight_decay": online.optimizer.weight_decay,
        f"{actor}.optim.betas": list(online.optimizer.betas),
        f"{actor}.optim.clip_grad": online.optimizer.clip_grad,
        f"{actor}.ppo_mini_batch_size": policy.mini_batch_tasks,
        f"{actor}.ppo_epochs": policy.epochs,
        f"{actor}.use_dynamic_bsz": True,
        f"{actor}.ppo_max_token_len_per_gpu": micro_tokens,
        f"{actor}.loss_agg_mode": policy.loss.aggregation.value,
        f"{actor}.entropy_coeff": policy.loss.entropy,
        f"{actor}.use_kl_loss": False,  # verl's reference is a second model; ours is kept by the workers
        f"{actor}.data_loader_seed": config.seed,
        f"{actor}.checkpoint.save_lora_only": model.lora_rank > 0,
        f"{actor}.fsdp_config.param_offload": engine.offload,
        f"{actor}.fsdp_config.optimizer_offload": engine.offload,
        f"{actor}.fsdp_config.seed": config.seed,
        "critic.fsdp.param_offload": engine.offload,
        "critic.fsdp.optimizer_offload": engine.offload,
        # rollout
        f"{generation}.name": "vllm",
        f"{generation}.mode": "async",
        f"{generation}.n": online.samples_per_task,
        f"{generation}.temperature": rollout.temperature if config.algorithm.online else 1.0,
        f"{generation}.prompt_length": model.prompt_tokens,
        f"{generation}.response_length": model.response_tokens,
        f"{generation}.max_model_len": model.context,
        f"{generation}.max_num_seqs": engine.max_sequences,
        # of all prompts that begin together; vLLM's buffers grow with it
        f"{generation}.max_num_batched_tokens": max(model.context, min(8192, 32 * engine.max_sequences)),
        f"{generation}.tensor_model_parallel_size": engine.tensor_parallel,
        f"{generation}.gpu_memory_utilization": engine.memory_fraction,
        f"{generation}.log_prob_use_dynamic_bsz": True,
        f"{generation}.log_prob_max_token_len_per_gpu": micro_tokens,
        f"{generation}.calculate_log_probs": True,
        f"{generation}.seed": config.seed,
        f"{generation}.agent.default_agent_loop": "agentgym",
        f"{generation}.agent.num_workers": agent_loops(config),
        f"{generation}.multi_turn.enable": True,
        # critic
        "critic.enable": needs.critic is not None,
        "critic.strategy": "fsdp2",
        "critic.model.path": model_path,
        "critic.optim.lr": critic.lr,
        "critic.optim.weight_decay": critic.weight_decay,
        "critic.optim.clip_grad": 1.0,
        "critic.ppo_mini_batch_size": policy.mini_batch_tasks,
        "critic.use_dynamic_bsz": True,
        "critic.ppo_max_token_len_per_gpu": micro_tokens,
        "critic.forward_max_token_len_per_gpu": micro_tokens,
        # trainer
        "trainer.nnodes": engine.nodes,
        "trainer.n_gpus_per_node": engine.workers,
        "trainer.total_training_steps": max(1, online.steps),
        "trainer.total_epochs": 1,
        "trainer.critic_warmup": critic.warmup,
        "trainer.default_local_dir": str(run_dir / "checkpoints"),
        "trainer.resume_mode": "disable",  # our trainer restores its own state together with verl's
        "trainer.val_before_train": False,
        "trainer.project_name": config.logger.project,
        "trainer.experiment_name": config.name,
        "trainer.logger": [],
        "trainer.v1.agentgym": {"fewest_samples": needs.samples_per_task, "verify_sync": engine.verify_sync.value},
        "trainer.v1.sampler.custom_sampler.path": f"pkg://{PACKAGE}.verl.buffer",
        "reward.num_workers": 0,  # episodes bring their reward
        "transfer_queue.enable": True,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": storage_units(config),
    }


def episodes_per_step(config: Config) -> int:
    """Training episodes under way at once, without those of steps ahead."""
    online = _online(config)
    return online.tasks_per_step * online.samples_per_task


def agent_loops(config: Config) -> int:
    """Agent-loop processes of all nodes: ``rollout.workers``.

    By default one on a CPU. On GPUs one for every 128 episodes of a step, which is 3 s of its CPU (20 turns of 1.3 ms,
    ``docs/measurements.md``), but no fewer than 8 and no more than 32 a node.
    """
    if config.rollout.workers is not None:
        return config.rollout.workers
    if config.engine.device == "cpu":
        return 1
    return min(32 * config.engine.nodes, max(8, -(-episodes_per_step(config) // 128)))


def storage_units(config: Config) -> int:
    """Processes that hold the rows of the TransferQueue.

    One on a CPU, which then needs no process of its own. On GPUs two a node, as TransferQueue advises, and no fewer
    than one for every 1,024 episodes of a step, because each serves one request at a time.
    """
    if config.engine.device == "cpu":
        return config.engine.nodes
    return max(2 * config.engine.nodes, -(-episodes_per_step(config) // 1024))


def _env(run: Resolved, name: str) -> dict[str, Any]:
    """What an agent loop reads of an environment: its options, host and harness."""
    env, harness = run.config.envs[name], run.harnesses.get(name)
    settings = _anywhere(env.options) | ({"host": env.host} if env.host else {})
    return settings if harness is None else settings | {"harness": asdict(harness.anywhere())}


def _anywhere(options: dict[str, Any]) -> dict[str, Any]:
    """Options of an environment for processes with another current folder: a path that exists here is absolute."""
    return {
        key: str(Path(value).resolve()) if isinstance(value, str) and _is_path(value) else value
        for key, value in options.items()
    }


def _is_path(value: str) -> bool:
    return ("/" in value or bool(Path(value).suffix)) and Path(value).exists()


def _device(run: Resolved, largest_tensor: int) -> dict[str, Any]:
    """Settings that differ between a CPU and GPUs."""
    config = run.config
    alone = config.engine.workers * config.engine.nodes == 1
    common = {
        "actor_rollout_ref.model.use_remove_padding": True,
        "actor_rollout_ref.model.override_config.attn_implementation": config.engine.attends.value,
        "actor_rollout_ref.actor.fsdp_config.reshard_after_forward": not alone,  # alone, it has nothing to gather again
        "critic.model.use_remove_padding": True,
        "critic.model.override_config.attn_implementation": config.engine.attends.value,
        "critic.fsdp.reshard_after_forward": not alone,
        # a model that is not split runs in the process of vLLM's engine, which would only wait for another
        "actor_rollout_ref.rollout.engine_kwargs.vllm.distributed_executor_backend": "uni"
        if config.engine.tensor_parallel == 1
        else "mp",
    }
    return common | (_on_gpus(config) if config.engine.device == "cuda" else _on_cpu(run, largest_tensor))


def _on_gpus(config: Config) -> dict[str, Any]:
    recompute = config.engine.gradient_checkpointing is not False
    return {
        "trainer.device": "cuda",
        "actor_rollout_ref.actor.fsdp_config.use_torch_compile": config.engine.compile,
        "actor_rollout_ref.ref.fsdp_config.use_torch_compile": config.engine.compile,
        "critic.fsdp.use_torch_compile": config.engine.compile,
        "actor_rollout_ref.model.enable_gradient_checkpointing": recompute,
        "critic.model.enable_gradient_checkpointing": recompute,
    }


def _on_cpu(run: Resolved, largest_tensor: int) -> dict[str, Any]:
    config = run.config
    model, actor, generation = "actor_rollout_ref.model", "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    workers, rollout_workers = config.engine.workers, config.engine.own_rollout_workers
    computed, short = ("bfloat16", "bf16") if config.engine.bfloat16 else ("float32", "fp32")
    precision = {"param_dtype": short, "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    return {
        "trainer.device": "cpu",
        "ray_kwargs.ray_init.num_gpus": workers + rollout_workers,  # logical: one a worker
        "ray_kwargs.ray_init.num_cpus": 8 + 4 * (workers + rollout_workers),  # logical: actors that mostly wait
        f"{model}.enable_gradient_checkpointing": False,
        f"{actor}.use_torch_compile": False,
        f"{actor}.fsdp_config.use_torch_compile": False,
        f"{actor}.fsdp_config.model_dtype": "float32",
        f"{actor}.fsdp_config.mixed_precision": precision,
        "critic.model.enable_gradient_checkpointing": False,
        "critic.fsdp.use_torch_compile": False,
        "critic.fsdp.model_dtype": "float32",
        "critic.fsdp.mixed_precision": precision,
        f"{generation}.dtype": computed,
        f"{generation}.enforce_eager": True,
        f"{generation}.free_cache_engine": False,
        f"{generation}.enable_sleep_mode": False,
        # after a part of a prompt vLLM sets back the request's generator, which a CPU's does not support
        f"{generation}.enable_chunked_prefill": not run.seeded,
        f"{generation}.checkpoint_engine.update_weights_bucket_megabytes": max(BUCKET, -(-largest_tensor >> 20)),
        f"{generation}.engine_kwargs.vllm.kv_cache_memory_bytes": int(config.engine.kv_cache_gib * (1 << 30)),
    }


def _online(config: Config) -> OnlineConfig:
    """The algorithm's keys; their defaults for an algorithm that has no rollouts of its own."""
    return config.algorithm.online or OnlineConfig()


def _policy(config: Config) -> PolicyGradientConfig:
    """The algorithm's keys; without a policy gradient, a batch that verl's checks accept."""
    if (policy := config.algorithm.policy_gradient) is not None:
        return policy
    workers = config.engine.workers * config.engine.nodes
    return PolicyGradientConfig(tasks_per_step=workers, mini_batch_tasks=workers)


def _correction(config: Config) -> dict[str, Any]:
    """verl's fields of :mod:`agentgym_rl.algorithms.correction`."""
    policy = _policy(config)
    chosen = policy.correction.chosen(off_policy=config.engine.off_policy)
    low, high = policy.correction.bounds or BOUNDS.get(chosen, (1.0, 1.0))
    inverse = f"{1 / high}_{1 / low}"  # verl's k1 is the logarithm of the inverse ratio
    fields: dict[str, Any] = {}
    match chosen:
        case Correction.TIS:
            fields = {"rollout_is": "token", "rollout_is_threshold": policy.correction.cap}
        case Correction.ICEPOP:
            fields = {"rollout_is": "token", "rollout_is_threshold": f"{low}_{high}"}
        case Correction.MIS:
            fields = {"rollout_is": "sequence", "rollout_is_threshold": high}
            fields |= {"rollout_rs": "seq_sum_k1", "rollout_rs_threshold": inverse}
        case Correction.GEO_RS:
            fields = {"rollout_rs": "seq_mean_k1", "rollout_rs_threshold": inverse}
        case Correction.BYPASS:
            fields = {"bypass_mode": True}
    return {f"algorithm.rollout_correction.{name}": value for name, value in fields.items()}


def _mode(config: Config) -> dict[str, Any]:
    """How rollouts and updates share time and machines."""
    engine, generation, policy = config.engine, "actor_rollout_ref.rollout", _policy(config)
    settings: dict[str, Any] = {"trainer.v1.trainer_mode": engine.mode.value}
    buffer = "trainer.v1.sampler.custom_sampler.name"
    if engine.mode == "sync":
        return settings | {buffer: "EpisodeBuffer"}
    # a task of step s is due in s: verl counts its lateness from there, not from when it was begun
    late = 1 if engine.stragglers == "wait" else engine.max_staleness - engine.ahead + 1
    settings |= {
        buffer: "AsyncEpisodeBuffer",
        f"trainer.v1.{engine.mode}.num_warmup_batches": engine.ahead,
        "trainer.v1.sampler.max_off_policy_threshold": late,
        "trainer.v1.sampler.max_off_policy_strategy": "drop" if engine.stragglers == "cap" else "wait",
    }
    if engine.mode == "separate_async":
        settings |= {
            "actor_rollout_ref.hybrid_engine": False,
            "trainer.v1.separate_async.parameter_sync_step": max(1, policy.tasks_per_step // policy.mini_batch_tasks),
            f"{generation}.nnodes": engine.nodes,
            f"{generation}.n_gpus_per_node": engine.rollout_workers,
            f"{generation}.checkpoint_engine.backend": "gloo" if engine.device == "cpu" else "nccl",
        }
        if engine.device == "cpu":
            settings[f"{generation}.checkpoint_engine.custom_backend_module"] = f"{PACKAGE}.platform.gloo_weights"
    return settings
