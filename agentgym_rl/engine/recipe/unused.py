"""Keys that are accepted by type and still have no effect in a run: to set one is an error."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from agentgym_rl.algorithms.base import AlgorithmConfig, OnlineConfig
from agentgym_rl.algorithms.mixture import mixtures
from agentgym_rl.algorithms.policy_gradient import PolicyGradientConfig
from agentgym_rl.engine.recipe.config import Config, Device, Mode, Stragglers
from agentgym_rl.engine.recipe.schema import RecipeError


@dataclass(frozen=True, slots=True)
class Unused:
    """A key without an effect."""

    key: str
    """Also stands for all keys below it."""
    why: str
    in_recipes: bool = True
    """Whether it is an error in a recipe, too. A recipe may prepare what the command line switches off."""


def check_unused(config: Config, given: Collection[str] = ()) -> None:
    """No key is set that has no effect beside the others.

    Args:
        given: keys of the command line. A key of a recipe is set where its value is not the default.

    Raises:
        RecipeError: names the key and says why.
    """
    for one in _unused(config):
        named = any(key == one.key or key.startswith(f"{one.key}.") for key in given)
        if named or (one.in_recipes and _departs(config, one.key)):
            raise RecipeError(f"{one.key} has no effect: {one.why}")


def _departs(config: Config, key: str) -> bool:
    """Whether a key has another value than its default."""
    *path, name = key.split(".")
    block: Any = config
    for part in path:
        block = block[part] if isinstance(block, Mapping) else getattr(block, part)
    field = next(one for one in fields(block) if one.name == name)
    return bool(getattr(block, name) != field.default)


def _unused(config: Config) -> Iterator[Unused]:
    yield from _of_rollouts(config)
    yield from _of_engine(config)
    if not config.model.lora_rank:
        for key in ("lora_alpha", "target_modules"):
            yield Unused(f"model.{key}", "model.lora_rank=0 trains all weights")
    yield from _of_run(config)
    for name in config.envs:
        yield from _of_env(config, name)
    for key, why in config.algorithm.unused(off_policy=config.engine.off_policy).items():
        yield Unused(f"algorithm.{key}", why)
    for key, why in config.mixture.unused().items():
        yield Unused(f"mixture.{key}", why)


def _of_rollouts(config: Config) -> Iterator[Unused]:
    rollout = config.rollout
    if rollout.context == "full":
        yield Unused("rollout.keep_turns", "rollout.context=full shows all turns")
    if rollout.context != "summary":
        yield Unused("rollout.notes_tokens", f"rollout.context={rollout.context} asks for no notes")
    if not isinstance(config.algorithm, OnlineConfig):
        for key in ("rollout.temperature", "curriculum", "mixture"):
            yield Unused(key, f"algorithm={config.algorithm.name} has no training episodes", in_recipes=False)


def _of_engine(config: Config) -> Iterator[Unused]:
    engine = config.engine
    if engine.mode is Mode.SYNC:
        for key in ("ahead", "stragglers", "max_staleness"):
            yield Unused(f"engine.{key}", "engine.mode=sync rolls out each step before it learns from it")
    elif not isinstance(config.algorithm, PolicyGradientConfig):
        for key in ("ahead", "stragglers", "max_staleness"):
            yield Unused(f"engine.{key}", f"algorithm={config.algorithm.name} rolls out nothing ahead of its step")
    elif engine.stragglers is Stragglers.WAIT:
        yield Unused("engine.max_staleness", "engine.stragglers=wait takes every step's own tasks")
    if engine.mode is not Mode.SYNC:
        yield Unused("engine.seeded", f"with engine.mode={engine.mode} responses depend on when new weights arrive")
    if engine.mode is not Mode.SEPARATE_ASYNC:
        yield Unused("engine.rollout_workers", "only engine.mode=separate_async has workers for rollouts alone")
    if engine.device is Device.CPU:
        yield Unused("engine.memory_fraction", "engine.device=cpu has engine.kv_cache_gib")
        yield Unused("engine.offload", "engine.device=cpu keeps everything in host memory")
        yield Unused("engine.attention", "engine.device=cpu computes attention row by row")
    else:
        yield Unused("engine.kv_cache_gib", f"engine.device={engine.device} has engine.memory_fraction")
        yield Unused("engine.threads", f"engine.device={engine.device} does not compute with threads")


def _of_run(config: Config) -> Iterator[Unused]:
    if not config.cloning.epochs:
        for key in ("lr", "optimizer", *(() if config.run.control else ("mini_batch_trajectories",))):
            yield Unused(f"cloning.{key}", "cloning.epochs=0 skips cloning", in_recipes=False)
    for key, why in config.cloning.optimizer.unused().items():
        yield Unused(f"cloning.{key}", f"cloning.{why}")
    if not isinstance(config.algorithm, OnlineConfig):
        why = f"algorithm={config.algorithm.name} has no updates that a control could repeat"
        yield Unused("run.control", why, in_recipes=False)
    if config.model.path is not None and not config.cloning.epochs:
        yield Unused("run.cache", "the run builds no tiny model and clones nothing", in_recipes=False)


def _of_env(config: Config, name: str) -> Iterator[Unused]:
    env, place = config.envs[name], f"envs.{name}"
    if env.pool is None:
        yield Unused(f"{place}.pool_seed", f"{place}.pool=null takes all tasks")
    if env.demonstrations_file is not None:
        yield Unused(f"{place}.demonstrations", f"{place}.demonstrations_file is cloned", in_recipes=False)
    if not isinstance(config.algorithm, OnlineConfig):
        for key in ("share", "curriculum"):
            why = f"algorithm={config.algorithm.name} has no training episodes"
            yield Unused(f"{place}.{key}", why, in_recipes=False)
    if env.share and not mixtures()[config.mixture.type].uses_given_shares:
        yield Unused(f"{place}.share", f"mixture={config.mixture.type} sets the shares", in_recipes=False)
    for label, panel in env.panels.items():
        if panel.n is None:
            yield Unused(f"{place}.panels.{label}.seed", f"{place}.panels.{label}.n=null takes all tasks")


# keys of verl

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
RATE = "the learning rate follows algorithm.optimizer.schedule"
IGNORED = {
    "actor_rollout_ref.model.lora_adapter_path": "adapters start anew; merge those you have into the model's weights",
    "actor_rollout_ref.ref": "training workers keep the weights of algorithm.kl_reference, without a second model",
    f"{ACTOR}.loss_scale_factor": "algorithm.loss_aggregation=seq-mean-token-sum-norm divides by model.response_tokens",
    "algorithm.rollout_correction.loss_type": "algorithm.policy_loss is the loss",
    f"{ACTOR}.optim.lr_scheduler_type": RATE,
    f"{ACTOR}.optim.lr_warmup_steps": RATE,
    f"{ACTOR}.optim.lr_warmup_steps_ratio": RATE,
    f"{ACTOR}.optim.min_lr_ratio": RATE,
    f"{ACTOR}.optim.num_cycles": RATE,
    f"{ACTOR}.optim.total_training_steps": RATE,
    f"{ROLLOUT}.trace": "episodes are stored under episodes/",
    f"{ROLLOUT}.val_kwargs": "panels are evaluated at temperature 1, and greedily with run.greedy",
    "trainer.balance_batch": "rows keep the order of their episodes",
    "trainer.log_val_generations": "episodes are stored under episodes/",
    "trainer.rollout_data_dir": "episodes are stored under episodes/",
    "trainer.validation_data_dir": "episodes are stored under episodes/",
}
"""verl's keys that have no effect here, and why."""

OWN = {
    "actor_rollout_ref.model.lora": "model.lora_rank",
    "actor_rollout_ref.model.lora_alpha": "model.lora_alpha",
    "actor_rollout_ref.model.lora_rank": "model.lora_rank",
    "actor_rollout_ref.model.path": "model",
    "actor_rollout_ref.model.target_modules": "model.target_modules",
    "algorithm.adv_estimator": "algorithm",
    "algorithm.gamma": "algorithm.gamma",
    "algorithm.lam": "algorithm.lam",
    "algorithm.filter_groups": "algorithm.filter_groups",
    "algorithm.rollout_correction.bypass_mode": "algorithm.correction",
    "algorithm.rollout_correction.rollout_is": "algorithm.correction",
    "algorithm.rollout_correction.rollout_is_threshold": "algorithm.importance_cap",
    "algorithm.rollout_correction.rollout_rs": "algorithm.correction",
    "algorithm.rollout_correction.rollout_rs_threshold": "algorithm.correction_bounds",
    "critic.enable": "algorithm",
    "critic.fsdp.optimizer_offload": "engine.offload",
    "critic.fsdp.param_offload": "engine.offload",
    "critic.optim.lr": "algorithm.critic_lr",
    "data.max_prompt_length": "model.prompt_tokens",
    "data.max_response_length": "model.response_tokens",
    "data.seed": "seed",
    "data.train_batch_size": "algorithm.tasks_per_step",
    "trainer.critic_warmup": "algorithm.critic_warmup",
    "trainer.default_local_dir": "run.dir",
    "trainer.device": "engine.device",
    "trainer.experiment_name": "name",
    "trainer.logger": "logger.wandb",
    "trainer.n_gpus_per_node": "engine.workers",
    "trainer.nnodes": "engine.nodes",
    "trainer.project_name": "logger.project",
    "trainer.resume_mode": "run.resume",
    "trainer.save_freq": "run.save_every",
    "trainer.test_freq": "run.eval_every",
    "trainer.total_epochs": "algorithm.steps",
    "trainer.total_training_steps": "algorithm.steps",
    "trainer.v1.sampler.max_off_policy_threshold": "engine.max_staleness",
    "trainer.v1.trainer_mode": "engine.mode",
    "trainer.val_before_train": "run.evaluate_untrained",
    f"{ACTOR}.clip_ratio": "algorithm.clip",
    f"{ACTOR}.clip_ratio_c": "algorithm.dual_clip",
    f"{ACTOR}.clip_ratio_high": "algorithm.clip_high",
    f"{ACTOR}.clip_ratio_low": "algorithm.clip",
    f"{ACTOR}.entropy_coeff": "algorithm.entropy",
    f"{ACTOR}.fsdp_config.optimizer_offload": "engine.offload",
    f"{ACTOR}.fsdp_config.param_offload": "engine.offload",
    f"{ACTOR}.kl_loss_coef": "algorithm.kl_loss",
    f"{ACTOR}.loss_agg_mode": "algorithm.loss_aggregation",
    f"{ACTOR}.policy_loss": "algorithm.policy_loss",
    f"{ACTOR}.optim.betas": "algorithm.optimizer.betas",
    f"{ACTOR}.optim.clip_grad": "algorithm.optimizer.clip_grad",
    f"{ACTOR}.optim.lr": "algorithm.lr",
    f"{ACTOR}.optim.weight_decay": "algorithm.optimizer.weight_decay",
    f"{ACTOR}.ppo_epochs": "algorithm.epochs",
    f"{ACTOR}.ppo_max_token_len_per_gpu": "engine.micro_tokens",
    f"{ACTOR}.ppo_mini_batch_size": "algorithm.mini_batch_tasks",
    f"{ACTOR}.use_kl_loss": "algorithm.kl_loss",
    f"{ROLLOUT}.agent.num_workers": "rollout.workers",
    f"{ROLLOUT}.gpu_memory_utilization": "engine.memory_fraction",
    f"{ROLLOUT}.max_num_seqs": "engine.max_sequences",
    f"{ROLLOUT}.n": "algorithm.samples_per_task",
    f"{ROLLOUT}.n_gpus_per_node": "engine.rollout_workers",
    f"{ROLLOUT}.prompt_length": "model.prompt_tokens",
    f"{ROLLOUT}.response_length": "model.response_tokens",
    f"{ROLLOUT}.temperature": "rollout.temperature",
    f"{ROLLOUT}.tensor_model_parallel_size": "engine.tensor_parallel",
}
"""verl's keys that one of our own sets."""

DEFAULTS = (
    f"{ACTOR}.kl_loss_type",
    f"{ACTOR}.use_torch_compile",
    f"{ACTOR}.fsdp_config",
    f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes",
    f"{ROLLOUT}.dtype",
    f"{ROLLOUT}.enable_chunked_prefill",
    f"{ROLLOUT}.enforce_eager",
    f"{ROLLOUT}.free_cache_engine",
    f"{ROLLOUT}.engine_kwargs",
    f"{ROLLOUT}.max_num_batched_tokens",
    f"{ROLLOUT}.name",
    "actor_rollout_ref.model.enable_gradient_checkpointing",
    "actor_rollout_ref.model.override_config",
    "actor_rollout_ref.model.use_remove_padding",
    "critic.fsdp",
    "critic.model.enable_gradient_checkpointing",
    "critic.model.override_config",
    "critic.model.use_remove_padding",
    "critic.optim.clip_grad",
    "ray_kwargs",
    "transfer_queue.backend",
)
"""verl's keys that have a default of ours, which ``verl.KEY=VALUE`` replaces; those below them as well."""


OPEN = (
    f"{ACTOR}.optim.override_optimizer_config",
    f"{ROLLOUT}.engine_kwargs",
    "actor_rollout_ref.model.override_config",
    "critic.model.override_config",
    "critic.optim.override_optimizer_config",
    "data.apply_chat_template_kwargs",
    "ray_kwargs.ray_init",
)
"""verl's mappings that take any key: they are handed on to transformers, the inference engine, the chat template, the
optimizer or Ray."""


def is_open(key: str) -> bool:
    """Whether a dotted key lies in one of :data:`OPEN`."""
    return any(f"{key}.".startswith(f"{one}.") for one in OPEN)


def check_verl_keys(given: Mapping[str, Any], ours: Collection[str]) -> None:
    """No key of verl is given that this package sets, but for defaults, or that has no effect here.

    Args:
        given: dotted keys under ``verl`` with their values.
        ours: dotted keys that ``verl_config`` sets.

    Raises:
        RecipeError: names the key and says why, or which key of ours to set.
    """
    for key in given:
        for known, why in IGNORED.items():
            if _overlap(key, known):
                raise RecipeError(f"verl.{key} has no effect: {why}")
        for known, own in OWN.items():
            if _overlap(key, known):
                raise RecipeError(f"verl.{key} is set by {own}; set that")
        if any(_overlap(key, one) for one in ours) and not any(f"{key}.".startswith(f"{one}.") for one in DEFAULTS):
            raise RecipeError(f"verl.{key} is set by this package and cannot be changed")


WHOLE = {f"{ROLLOUT}.top_p": 1, f"{ROLLOUT}.top_k": -1}
"""verl's keys of sampling, with the value that samples from the whole distribution."""


def check_sampling(given: Mapping[str, Any], algorithm: AlgorithmConfig) -> None:
    """A policy gradient's probability ratios are those of the whole distribution.

    Raises:
        RecipeError: a policy gradient would sample from a part of it; names the key.
    """
    for key, whole in WHOLE.items():
        if isinstance(algorithm, PolicyGradientConfig) and given.get(key, whole) != whole:
            raise RecipeError(
                f"verl.{key}={given[key]} is refused: the ratios of algorithm={algorithm.name} would be biased; leave "
                f"it at {whole}, or set rollout.temperature"
            )


def _overlap(key: str, other: str) -> bool:
    """Whether one of two dotted keys is the other, or below it."""
    return f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.")
