"""How large a model's weights are, from its configuration alone."""

from __future__ import annotations

from typing import Any


def skeleton(model: str) -> Any:
    """A model (a folder or a hub id) without weights, only their shapes."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model))


def largest_tensor(network: Any) -> int:
    """Bytes of the largest weight of a :func:`skeleton` in float32."""
    return max(4 * int(weight.numel()) for weight in network.parameters())
