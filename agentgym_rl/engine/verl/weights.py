"""How large a model's weights are, from its configuration alone."""

from __future__ import annotations


def largest_tensor(model: str) -> int:
    """Bytes of the largest weight of a model (a folder or a hub id) in float32; no weight is loaded."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        network = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model))
    return max(4 * int(weight.numel()) for weight in network.parameters())
