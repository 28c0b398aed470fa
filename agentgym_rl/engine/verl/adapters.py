"""LoRA adapters merged into the weights that vLLM gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.distributed.tensor import DTensor, distribute_tensor
from verl.utils.fsdp_utils import offload_fsdp_model_to_cpu
from verl.utils.model import convert_weight_keys


def merged(weights: Mapping[str, torch.Tensor], scaling: float) -> Iterator[tuple[str, torch.Tensor]]:
    """Whole weights W + ``scaling`` B A (arXiv 2106.09685, equation 3) by the names of the model without adapters.

    Args:
        weights: of a PEFT model; sharded ones are gathered, one after the other, by all workers together.

    Raises:
        ValueError: after the last weight, when an adapter belongs to none of them.
    """
    plain = {
        name.removeprefix("base_model.model.").replace(".base_layer.", "."): tensor for name, tensor in weights.items()
    }
    adapters = {name: plain.pop(name) for name in list(plain) if "lora_" in name}
    for name, weight in plain.items():
        layer, full = name.removesuffix("weight"), whole(weight)
        if (down := adapters.pop(f"{layer}lora_A.default.weight", None)) is not None:
            full = full + scaling * (whole(adapters.pop(f"{layer}lora_B.default.weight")) @ whole(down))
        yield name, full
    if adapters:
        raise ValueError(f"the model has no weights for the adapters {sorted(adapters)[:4]}")


def with_adapters(
    weights: Mapping[str, DTensor], adapters: Mapping[str, DTensor], scaling: float
) -> Iterator[tuple[str, DTensor]]:
    """Weights with adapters from a checkpoint of as many workers, sharded as they were."""
    mesh = next(iter(weights.values())).device_mesh
    placed = {
        name: DTensor.from_local(
            tensor.to_local().to(mesh.device_type), mesh, tensor.placements, shape=tensor.shape, stride=tensor.stride()
        )
        for name, tensor in adapters.items()
    }
    for name, weight in merged({**weights, **placed}, scaling):
        yield name, distribute_tensor(weight, mesh, weights[name].placements)


def merged_weights(engine: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights that a worker sends. verl's own rounds to bfloat16, and merges in place with a copy to go back to."""
    scaling = engine.model_config.lora_alpha / engine.model_config.lora_rank
    weights = convert_weight_keys(engine.module.state_dict(), engine.module)
    try:
        with torch.no_grad():
            yield from merged(weights, scaling)
    finally:
        if engine._is_offload_param:
            offload_fsdp_model_to_cpu(engine.module)


def whole(weight: torch.Tensor) -> torch.Tensor:
    """All shards of a weight."""
    return weight.full_tensor() if isinstance(weight, DTensor) else weight.detach()
