"""Checks of a run before Ray starts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentgym_rl.algorithms.base import Needs
from agentgym_rl.engine.recipe import models
from agentgym_rl.engine.recipe.config import (
    Attention,
    Config,
    Device,
    Dtype,
    EngineConfig,
    Mode,
    ModelConfig,
    Role,
    TinyModelConfig,
    VerifySync,
)
from agentgym_rl.engine.recipe.processor import has_bfloat16
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import RecipeError
from agentgym_rl.envs.extras import missing
from agentgym_rl.envs.tables import json_object
from agentgym_rl.eval.evaluation.rules import flat
from agentgym_rl.rollout import growth, pretrained
from agentgym_rl.rollout.policies.model import check_folder
from agentgym_rl.rollout.settings import Context


def check(run: Resolved, *, devices: bool = True) -> None:
    """Everything that needs neither environments, nor servers, nor verl.

    Args:
        devices: whether the run is to start here, and its GPUs must be there.

    Raises:
        RecipeError, FileNotFoundError, MissingExtra, ValueError: see the four checks.
    """
    check_config(run)
    if devices:
        check_devices(run.config.engine)
    check_model(run)
    check_micro_batch(run.config)


def check_config(run: Resolved) -> None:
    """Check that keys fit each other, which no type can.

    Raises:
        RecipeError: the message names the key.
    """
    config = run.config
    if not config.envs:
        raise RecipeError("no environments; choose env=textcraft, env=babyai or env=both")
    _ = run.curriculum  # raises where a key of it is wrong
    _check_needs(config, run.needs)
    _check_harnesses(run)
    _check_batches(config, run.needs)
    _check_engine(config)
    if config.model.lora_rank:
        _check_lora(config.engine)


def _check_harnesses(run: Resolved) -> None:
    """A program keeps its conversation itself.

    Raises:
        MissingExtra: no web server is installed.
    """
    for name in run.harnesses:
        if find_spec("uvicorn") is None:
            raise missing(f"envs.{name}.harness", "uvicorn", "serve")
        if key := run.needs.full_context or run.needs.replays or run.needs.relabels:
            raise RecipeError(
                f"{key} needs whole conversations, which the harness of envs.{name} may edit; choose another algorithm"
            )
        if run.rules.context is not Context.full:
            raise RecipeError(
                f"rollout.context={run.rules.context} does not reach envs.{name}, whose harness keeps its conversation "
                "itself; set rollout.context=full"
            )


def _check_lora(engine: EngineConfig) -> None:
    if engine.mode is Mode.SEPARATE_ASYNC:
        raise RecipeError(
            "model.lora_rank is not proven with engine.mode=separate_async; choose sync or colocate_async, or "
            "model.lora_rank=0"
        )
    if engine.verify_sync is VerifySync.NEVER:
        raise RecipeError(
            "engine.verify_sync=never would not notice adapters (model.lora_rank) that do not reach vLLM; choose first "
            "or always"
        )


def _check_engine(config: Config) -> None:
    """Check what verl checks in a worker only."""
    engine, verl = config.engine, dict(flat(config.verl))
    if engine.device is Device.CPU and engine.dtype is Dtype.BFLOAT16 and not has_bfloat16():
        raise RecipeError(
            "engine.dtype=bfloat16 would be far slower than float32: this processor has no arithmetic for it; set "
            "engine.dtype=float32, or auto"
        )
    separate = engine.mode is Mode.SEPARATE_ASYNC
    spanned = engine.own_rollout_workers or engine.workers
    if spanned % engine.tensor_parallel:
        key = "engine.rollout_workers" if separate else "engine.workers"
        raise RecipeError(f"engine.tensor_parallel={engine.tensor_parallel} does not divide {key}={spanned}")
    if separate and engine.offload:
        raise RecipeError(
            "engine.offload=true does not work with engine.mode=separate_async, which sends weights from GPU to GPU "
            "while episodes run; set engine.offload=false, or engine.mode=colocate_async"
        )
    parallel = _sequence_parallel(config)
    if engine.device is Device.CUDA and parallel > 1 and engine.attends is not Attention.FLASH_ATTENTION_2:
        raise RecipeError(
            f"sequence parallelism over {parallel} GPUs is written for flash attention; install flash-attn and set "
            f"engine.attention=flash_attention_2, not {engine.attends}"
        )
    if rope := [key for key in verl if key.startswith(ROPE)]:
        raise RecipeError(
            f"verl.{rope[0]} does not reach vLLM, which would generate with other positions; write rope_scaling into "
            "config.json of the model's folder, which both read (docs/clusters.md)"
        )
    for key, works in BACKENDS.items():
        if (backend := verl.get(key)) is not None and backend not in works[engine.device]:
            raise RecipeError(
                f"verl.{key}={backend} does not work here with engine.device={engine.device.value}; it works with "
                f"{', '.join(works[engine.device])}"
            )


SEQUENCE_PARALLEL = "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size"
"""verl's key of how many GPUs share a sequence."""


CRITIC_PARALLEL = "critic.fsdp.ulysses_sequence_parallel_size"
"""The critic's."""


ROPE = ("actor_rollout_ref.model.override_config.rope_", "critic.model.override_config.rope_")
"""verl's keys of position embeddings in training workers alone."""


def _sequence_parallel(config: Config, key: str = SEQUENCE_PARALLEL) -> int:
    gpus = dict(flat(config.verl)).get(key, 1)
    if not isinstance(gpus, int):
        raise RecipeError(f"verl.{key}={gpus} is not a whole number")
    return gpus


def check_micro_batch(config: Config) -> None:
    """On GPUs, the longest episode must fit into a micro-batch; on a CPU, it is one by itself.

    Raises:
        RecipeError: it does not; names the keys.
    """
    context, parallel = config.model.context, _sequence_parallel(config)
    tokens = config.engine.micro_tokens
    if config.engine.device is Device.CUDA and tokens is not None and tokens * parallel < context:
        raise RecipeError(
            f"an episode may take {context} tokens (model.prompt_tokens + model.response_tokens), more than fit into a "
            f"micro-batch: raise engine.micro_tokens={tokens} to {-(-context // parallel)}, or "
            "lower model.response_tokens"
        )


BACKENDS = {
    "actor_rollout_ref.actor.strategy": {Device.CPU: ["fsdp2"], Device.CUDA: ["fsdp2"]},
    "critic.strategy": {Device.CPU: ["fsdp2"], Device.CUDA: ["fsdp2"]},
    "actor_rollout_ref.rollout.name": {Device.CPU: ["vllm"], Device.CUDA: ["vllm", "sglang"]},
}
"""verl's keys that choose who computes, with what works: losses, LoRA and kept weights are FSDP2's."""


def check_devices(engine: EngineConfig) -> None:
    """The GPUs of a run on this machine must be there; those of a Ray cluster are counted when it is joined.

    Raises:
        RecipeError: there are fewer; names the keys.
    """
    if engine.ray_address is not None:
        return
    if engine.nodes > 1:
        raise RecipeError(
            f"engine.nodes={engine.nodes} needs a running Ray cluster; start one (docs/clusters.md) and set "
            "engine.ray_address=auto"
        )
    if engine.device is Device.CPU:
        return
    import torch  # takes a second

    needed, there = engine.workers + engine.own_rollout_workers, torch.cuda.device_count()
    if there < needed:
        hint = (
            f"; torch {torch.__version__} is a build for CPUs: install the GPU set-up (docs/clusters.md)"
            if torch.version.cuda is None and torch.version.hip is None
            else ""
        )
        raise RecipeError(
            f"engine.device=cuda with engine.workers={engine.workers} needs {needed} GPUs, and this machine has "
            f"{there}{hint}; lower engine.workers, join a Ray cluster with engine.ray_address, or set engine=cpu"
        )


def _check_needs(config: Config, needs: Needs) -> None:
    algorithm, name, engine = config.algorithm, config.algorithm.name, config.engine
    if algorithm.online is not None and algorithm.online.samples_per_task < needs.samples_per_task:
        raise RecipeError(
            f"algorithm={name} compares episodes of a task; algorithm.samples_per_task must be "
            f"{needs.samples_per_task} or more"
        )
    if algorithm.policy_gradient is not None and not config.rollout.temperature:
        raise RecipeError(
            f"algorithm={name} learns from the probabilities of responses, which are none at rollout.temperature=0; "
            "set rollout.temperature=1"
        )
    if needs.full_context is not None and not config.rollout.one_segment:
        raise RecipeError(
            f"{needs.full_context} needs whole conversations; set rollout.context=full and rollout.thinking=keep"
        )
    if needs.whole_steps is not None and engine.mode is not Mode.SYNC:
        raise RecipeError(
            f"{needs.whole_steps} rolls out a whole step before it learns; set engine.mode=sync, not {engine.mode}"
        )
    rows = needs.rows_together * config.model.context
    tokens = engine.micro_tokens
    if engine.device is Device.CUDA and needs.rows_together > 1 and tokens is not None and tokens < rows:
        raise RecipeError(
            f"{needs.rows_together} episodes must fit into a micro-batch: raise engine.micro_tokens="
            f"{tokens} to {needs.rows_together} times the context ({rows})"
        )
    roles = {panel.role for env in config.envs.values() for panel in env.panels.values()}
    if needs.validation is not None and Role.VALIDATION not in roles:
        raise RecipeError(
            f"{needs.validation} chooses by validation success; give a panel role=validation "
            "(envs.<name>.panels.<label>.role)"
        )
    if needs.writer is not None and config.writer.policy is None:
        raise RecipeError(
            f"{needs.writer} asks a writer; set writer=openai:<model>@<url>, or the folder or hub id of a model"
        )
    if config.writer.policy in ("oracle", "random", "human"):
        raise RecipeError(f"writer={config.writer.policy} writes no texts; give openai:<model>@<url> or a model")
    if needs.playbook is not None and config.rollout.playbook is not None:
        raise RecipeError(f"{needs.playbook} has lessons of its own; set rollout.playbook=null")
    for key, names in needs.environments.items():
        if unknown := sorted(set(names) - set(config.envs)):
            raise RecipeError(f"{key} names {', '.join(unknown)}, which the run does not have")
    demonstrations = needs.demonstrations or needs.cloning or config.cloning.epochs or config.run.control
    if demonstrations and not any(env.has_demonstrations for env in config.envs.values()):
        raise RecipeError(
            "behaviour cloning needs demonstrations; set envs.<name>.demonstrations or envs.<name>.demonstrations_file"
        )
    if needs.cloning and not config.cloning.epochs:
        raise RecipeError(f"algorithm={name} needs cloning.epochs of at least 1")


def _check_batches(config: Config, needs: Needs) -> None:
    """Workers take equal parts of an update, those that split sequences one together; verl finds out in the worker."""
    policy, engine, parallel = config.algorithm.policy_gradient, config.engine, _sequence_parallel(config)
    workers = engine.workers * engine.nodes
    if parallel < 1 or workers % parallel:
        raise RecipeError(
            f"verl.{SEQUENCE_PARALLEL}={parallel} does not divide engine.workers x engine.nodes = {workers}"
        )
    critic = _sequence_parallel(config, CRITIC_PARALLEL)
    if needs.critic is not None and critic != parallel:
        raise RecipeError(
            f"verl.{CRITIC_PARALLEL}={critic} must equal verl.{SEQUENCE_PARALLEL}={parallel}: "
            "the rows of an update are dealt to the critic's workers as to the policy's"
        )
    shares = workers // parallel
    updates = dict(needs.equal_updates)
    if config.cloning.epochs or config.run.control:
        updates["cloning.mini_batch_trajectories"] = config.cloning.mini_batch_trajectories
    for key, size in updates.items():
        if size < 1 or size % shares:
            by = f"{workers} workers" if parallel == 1 else f"{shares} groups of {parallel} workers"
            raise RecipeError(f"{key} = {size} cannot be shared equally by {by}")
    if engine.mode is Mode.SEPARATE_ASYNC and policy is not None and policy.tasks_per_step % policy.mini_batch_tasks:
        raise RecipeError(
            "engine.mode=separate_async learns in mini-batches as tasks come in: algorithm.mini_batch_tasks="
            f"{policy.mini_batch_tasks} must divide algorithm.tasks_per_step={policy.tasks_per_step}"
        )


def check_model(run: Resolved) -> None:
    """Folders of weights must exist before anything is started; ids of models are left to the hub.

    Raises:
        RecipeError: the model has fewer layers than ``model.train_layers``.
        FileNotFoundError: ``model.path`` looks like a folder that is not there; for other models
            :func:`.models.check_places`.
        MissingExtra: a model that has a name is to be fetched, and a package that this needs is not installed.
        ValueError: there is no such source of a model that has a name.
    """
    config = run.config
    models.check_places(run)
    path = config.model.path
    if path is None:
        if isinstance(config.model, TinyModelConfig):
            check_layers(config.model, config.model.layers)
        return
    if pretrained.find(path) is not None:
        pretrained.check_fetchable(path)
        return
    folder = Path(path).expanduser()
    if folder.is_dir():
        check_folder(folder, f"model.path={path}")
        check_layers(config.model, json_object(folder / "config.json").get("num_hidden_layers"))
    elif path.startswith(("/", ".", "~")) or path.count("/") != 1:
        raise FileNotFoundError(
            f"model.path={path} does not exist; give a Hugging Face folder, an id like owner/name, or a name: "
            f"{', '.join(pretrained.NAMES)}"
        )


def check_layers(model: ModelConfig, layers: int | None) -> None:
    """Raises RecipeError: a model of so many layers has fewer than ``model.train_layers``; None are not known."""
    if model.train_layers is not None and layers is not None and model.train_layers > layers:
        raise RecipeError(f"model.train_layers={model.train_layers}, but the model has {layers} layers")


def check_hosts(run: Resolved) -> None:
    """Every server that an environment runs on must be there and have the environment.

    Raises:
        ValueError: ``envs.<name>.host`` is wrong.
        EnvError: a server does not answer, or does not have the environment; names it.
    """
    for name, host in run.servers.items():
        asyncio.run(host.check(name, run.options[name]))


def check_adapters(config: Config, network: Any) -> None:
    """Each of ``model.target_modules`` must be a linear layer of the model; PEFT passes over those that are none.

    Args:
        network: the model, which needs no weights (:func:`agentgym_rl.engine.verl.network.skeleton`).

    Raises:
        RecipeError: names those that are not there, and the model's own.
    """
    if not (targets := config.model.target_modules):
        return
    import torch  # takes a second

    linear = [name for name, layer in network.named_modules() if isinstance(layer, torch.nn.Linear)]
    if missing := [name for name in targets if not any(f".{layer}".endswith(f".{name}") for layer in linear)]:
        known = sorted({layer.rpartition(".")[2] for layer in linear})
        raise RecipeError(f"model.target_modules {missing} are no linear layers of the model; it has {known}")


def check_length(config: Config, model: str) -> None:
    """The context of the run must not exceed that of the model.

    Args:
        model: folder or id.

    Raises:
        RecipeError: names the keys.
    """
    from transformers import AutoConfig  # takes a second

    text_config = AutoConfig.from_pretrained(model).get_text_config()
    longest = getattr(text_config, "max_position_embeddings", None)  # some models have no limit
    context = config.model.context
    if longest is not None and context > longest:
        raise RecipeError(
            f"model.prompt_tokens + model.response_tokens = {context}, but the model's context is {longest} tokens; "
            "lower model.response_tokens, or extend the model's (YaRN: docs/clusters.md)"
        )


def check_template(builder: Any, styles: Iterable[str] = growth.OPENINGS) -> None:
    """Check that tokens grown turn by turn are those of the chat template; ``builder`` becomes faithful to it.

    Args:
        styles: the wordings of the run's environments.

    Raises:
        RecipeError: it is not; shows both texts.
    """
    from agentgym_rl.rollout.builder import faithful  # imports verl

    for style in styles:
        try:
            growth.check(faithful(builder), style)
        except growth.Misfit as error:
            raise RecipeError(
                f"{error}; choose another model (docs/models.md), or give a template with "
                "verl.actor_rollout_ref.model.custom_chat_template"
            ) from error
