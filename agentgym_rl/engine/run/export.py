"""From a run's checkpoint to a Hugging Face folder: FSDP shards put together, with the tokenizer."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import transformers
from torch.distributed.tensor import DTensor, Replicate, Shard

from agentgym_rl.data.files import put_whole, user_cache
from agentgym_rl.engine.recipe.checkpoint import ACTOR, Checkpoint
from agentgym_rl.engine.run.manifest import fault, sealed
from agentgym_rl.eval.evaluation.rules import Rules, read_config, whole
from agentgym_rl.rollout.pretrained.writing import writing

DTYPES = ("auto", "float32", "bfloat16")
ADAPTER = "adapter_config.json"


def export(checkpoint: Checkpoint, out: Path, dtype: str = "auto", *, adapter: bool = False) -> Path:
    """Write a checkpoint as a folder that transformers and ``vllm serve`` load.

    It holds weights (safetensors), configuration, tokenizer, chat template, generation settings and, in
    ``agentgym_rl.json``, where it comes from and the rules it was trained by. verl's own merger rounds every weight to
    bfloat16; here the weights stay as they were played with.

    Args:
        out: a folder that does not exist yet, or is empty.
        dtype: float32, bfloat16, or auto: float32 for a run on a CPU, else bfloat16, as its vLLM servers had them.
        adapter: write LoRA adapters alone, in PEFT's format, instead of merging them into the model below them.

    Raises:
        ValueError: ``out`` holds something, the dtype is unknown, the checkpoint is damaged or has a layout other than
            FSDP's, or ``adapter`` is asked of a run without LoRA.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is unknown; choose {', '.join(DTYPES)}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} holds something already; choose another --out")
    if sealed(checkpoint.folder) and (damage := fault(checkpoint.folder)):
        raise ValueError(f"{checkpoint} is damaged: {damage}; restore it, or export another step")
    config = read_config(checkpoint.run)
    if dtype == "auto":
        dtype = "float32" if config["engine"]["device"] == "cpu" else "bfloat16"
    source = checkpoint.folder / ACTOR / "huggingface"
    network = _with_adapters(checkpoint, dtype) if adapter else _whole(checkpoint, source, dtype)
    unfinished = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with writing(out):
            shutil.copytree(source, unfinished, ignore=shutil.ignore_patterns("config.json") if adapter else None)
            network.save_pretrained(unfinished)
        with whole(checkpoint.run, "export it with that one"):
            facts = {"run": config["name"], "seed": config["seed"], "step": checkpoint.step, "dtype": dtype}
            replace(Rules.of_run(config), prompts=checkpoint.prompts).keep(unfinished, facts)
        out.parent.mkdir(parents=True, exist_ok=True)
        os.replace(unfinished, out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return out


def _whole(checkpoint: Checkpoint, source: Path, dtype: str) -> Any:
    """The model of a checkpoint; ``source`` has its configuration."""
    if (checkpoint.folder / ACTOR / ADAPTER).is_file():
        return _with_adapters(checkpoint, "float32").merge_and_unload().to(getattr(torch, dtype))
    weights = {name: tensor.to(getattr(torch, dtype)) for name, tensor in merged(checkpoint.folder / ACTOR).items()}
    architecture = transformers.AutoConfig.from_pretrained(source)
    architecture.dtype = dtype
    kind = getattr(transformers, architecture.architectures[0])
    with torch.device("meta"):
        network = kind(architecture)
    _, unexpected = network.load_state_dict(weights, strict=False, assign=True)
    network.tie_weights()
    empty = [name for name, tensor in network.named_parameters() if tensor.is_meta]
    if empty or unexpected:
        raise ValueError(f"{checkpoint}: its weights are not those of {kind.__name__} ({[*empty, *unexpected][:4]})")
    if (source / "generation_config.json").is_file():
        network.generation_config = transformers.GenerationConfig.from_pretrained(source)
    return network


def _with_adapters(checkpoint: Checkpoint, dtype: str) -> Any:
    """The model that a run with LoRA began with, and its adapters of a checkpoint."""
    from peft import LoraConfig, get_peft_model  # takes seconds to import, which other runs need not wait for

    folder = checkpoint.folder / ACTOR
    if not (folder / ADAPTER).is_file():
        raise ValueError(f"{checkpoint} has no adapters (model.lora_rank=0); export it whole")
    settings = LoraConfig.from_pretrained(str(folder))
    tiny = checkpoint.run / "model"  # the tiny model; the run may have been moved since
    base = str(tiny) if tiny.is_dir() else settings.base_model_name_or_path
    network = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    adapted = get_peft_model(network, settings)
    _, unexpected = adapted.load_state_dict(merged(folder), strict=False)
    if unexpected:
        raise ValueError(f"{checkpoint}: its adapters are not those of {base} ({unexpected[:4]})")
    return adapted


def cached(checkpoint: Checkpoint) -> Path:
    """An exported checkpoint in the user's cache, see :func:`agentgym_rl.data.files.user_cache`."""
    shards = sorted((checkpoint.folder / ACTOR).glob("model_world_size_*.pt"))
    marks = [json.dumps(checkpoint.prompts, sort_keys=True)] if checkpoint.prompts else []
    marks += [f"{file.resolve()} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in shards]
    key = hashlib.sha256("\n".join(marks).encode()).hexdigest()[:12]
    out = user_cache() / "exports" / f"{checkpoint.run.resolve().name}-{checkpoint.folder.name}-{key}"
    if not out.is_dir():
        beside = out.with_name(f".{out.name}.{os.getpid()}")
        put_whole(export(checkpoint, beside), out)
    return out


def merged(actor: Path) -> dict[str, Any]:
    """The whole tensors of a folder of FSDP shards, by name, as they were saved.

    Raises:
        ValueError: they are sharded otherwise than by FSDP, or hold code.
    """
    size = int(json.loads((actor / "fsdp_config.json").read_text())["world_size"])

    def shard(rank: int) -> dict[str, Any]:
        file = actor / f"model_world_size_{size}_rank_{rank}.pt"
        try:
            loaded: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        except UnpicklingError as error:
            raise ValueError(f"{file} holds more than tensors and plain values, and is not loaded") from error
        return loaded

    first = shard(0)
    meshes = {tuple(tensor.device_mesh.mesh.shape) for tensor in first.values() if isinstance(tensor, DTensor)}
    if len(meshes) > 1:
        raise ValueError(f"{actor} is sharded over meshes of several shapes, {sorted(meshes)}; FSDP uses one")
    # the last dimension of the mesh is FSDP's; the first, if there are two, holds replicas
    shards = [first, *(shard(rank) for rank in range(1, meshes.pop()[-1] if meshes else 1))]
    tensors: dict[str, Any] = {}
    for name, tensor in first.items():
        if not isinstance(tensor, DTensor):
            tensors[name] = tensor
            continue
        placement = tensor.placements[-1]
        parts = [weights[name].to_local() for weights in shards]
        if isinstance(placement, Replicate):
            tensors[name] = parts[0]
        elif isinstance(placement, Shard):
            tensors[name] = torch.cat(parts, dim=placement.dim)
        else:
            raise ValueError(f"{actor}: {name} is placed as {placement}, which FSDP does not save")
    return tensors
