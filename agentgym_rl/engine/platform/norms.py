"""Norms of a language model in one pass over the activations, as PyTorch has it for GPUs.

transformers writes a norm as six operations, most of them in float32. With the shape of Qwen2.5-1.5B they move more
bytes than all other operations between the matrix products together.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch

FUSED = frozenset({"LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm"})
"""Norms of transformers that scale by their weight what they have divided by its root mean square, and no more."""


def fuse_norms(model: torch.nn.Module) -> int:
    """Compute those norms of a model that are known in one pass; returns how many they are."""
    norms = [module for module in model.modules() if type(module).__name__ in FUSED]
    for module in norms:
        module.forward = MethodType(_forward, module)
    return len(norms)


def _forward(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    if hidden_states.dtype != self.weight.dtype:  # there is no kernel for two precisions
        return type(self).forward(self, hidden_states)  # type: ignore[no-any-return]
    with torch.autocast(hidden_states.device.type, enabled=False):  # it would compute in float32, and return it
        return torch.rms_norm(hidden_states, self.weight.shape, self.weight, self.variance_epsilon)
