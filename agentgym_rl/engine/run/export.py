"""From a run's checkpoint to a Hugging Face folder: FSDP shards put together, with the tokenizer."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import transformers
from torch.distributed.tensor import DTensor, Replicate, Shard

from agentgym_rl.algorithms.bc import Cloning
from agentgym_rl.algorithms.control import Control
from agentgym_rl.data.files import read_jsonl, user_cache
from agentgym_rl.engine.run.manifest import PROMPTS, fault, sealed
from agentgym_rl.envs.tables import json_object
from agentgym_rl.eval.evaluation.rules import Rules, read_config, whole
from agentgym_rl.rollout.pretrained.writing import writing

DTYPES = ("auto", "float32", "bfloat16")
ACTOR, ADAPTER = "actor", "adapter_config.json"
_STEP = re.compile(r"global_step_(\d+)")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights of a run at a step."""

    run: Path
    folder: Path
    """``global_step_N``, in the run or in the cache of cloned weights."""
    step: int
    now: Mapping[str, str] | None = None
    """The prompts that go with it in the run's state, which may have other ones since."""

    @property
    def prompts(self) -> Mapping[str, str]:
        """What the policy reads before the first observation, by environment."""
        file = self.folder / PROMPTS
        return self.now if self.now is not None else json_object(file) if file.is_file() else {}

    def __str__(self) -> str:
        return f"{self.run} at step {self.step}"


def find(place: str, step: int | None = None) -> Checkpoint:
    """The checkpoint that a place stands for.

    Args:
        place: the folder of a run, for the weights its algorithm led to; ``<run>:<stage>`` for those at the end of a
            stage (bc, control, ...); or ``<run>/checkpoints/global_step_N``.
        step: of a run, the weights of this global step.

    Raises:
        FileNotFoundError: there is no such run or checkpoint; names those there are.
        ValueError: the run has no such stage.
    """
    folder = Path(place)
    if (match := _STEP.fullmatch(folder.name)) is not None:
        return _checked(Checkpoint(folder.parent.parent, folder, int(match[1])))
    if not folder.exists() and ":" in place:
        name, _, stage = place.rpartition(":")
        return _of_stage(Path(name), stage)
    read_config(folder)
    if step is not None:
        return _checked(Checkpoint(folder, folder / "checkpoints" / f"global_step_{step}", step))
    state = _state(folder)
    if Control.stage in _stages(folder):  # trained on after the algorithm, from where cloning ended
        state = state["learnt"]
    weights, prompts = folder / "checkpoints" / state["checkpoint"], state.get("prompts")
    return _checked(Checkpoint(folder, weights, int(state["global_step"]), prompts))


def is_run(place: str) -> bool:
    """True if a place is that of a run, of a stage of one, or of a checkpoint."""
    folder = Path(place)
    run = Path(place.rpartition(":")[0]) if not folder.exists() and ":" in place else folder
    return (run / "config.yaml").is_file() or (folder / ACTOR / "fsdp_config.json").is_file()


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
    return out if out.is_dir() else export(checkpoint, out)


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


def _checked(checkpoint: Checkpoint) -> Checkpoint:
    if not (checkpoint.folder / ACTOR / "fsdp_config.json").is_file():
        there = sorted(
            (folder.name for folder in (checkpoint.run / "checkpoints").glob("global_step_*")),
            key=lambda name: int(name.rpartition("_")[2]),
        )
        raise FileNotFoundError(
            f"{checkpoint.folder} holds no checkpoint; {checkpoint.run} has {', '.join(there) or 'none'}"
        )
    return checkpoint


def _state(run: Path) -> Mapping[str, Any]:
    file = run / "state.json"
    state: dict[str, Any] = json_object(file) if file.is_file() else {}
    if not state.get("checkpoint"):
        raise FileNotFoundError(f"{run} has no checkpoint yet; a run saves one at the end of each stage")
    return state


def _stages(run: Path) -> dict[str, int]:
    """The last global step of each stage of a run."""
    last_steps: dict[str, int] = {}
    for row in read_jsonl(run / "metrics.jsonl", torn_end=True):
        last_steps |= {key.removeprefix("stage/"): int(row["step"]) for key in row if key.startswith("stage/")}
    return last_steps


def _of_stage(run: Path, stage: str) -> Checkpoint:
    read_config(run)
    stages = _stages(run)
    if stage not in stages:
        raise ValueError(f"{run} has no stage {stage!r}; it has {', '.join(stages) or 'none'}")
    folder = run / "checkpoints" / f"global_step_{stages[stage]}"
    if stage == Cloning.stage and not folder.is_dir():
        state = _state(run)
        origin = (state.get("learnt") or state)["origin"]
        folder = run / "checkpoints" / (origin or folder.name)  # that of a cache is absolute
    return _checked(Checkpoint(run, folder, stages[stage]))
