"""What a training worker computes most of, compiled for GPUs: one kernel where PyTorch starts one an operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


@cache
def compiled(function: Function) -> Function:
    """The function, compiled for any number of tokens when it is first called."""
    faster: Any = torch.compile(function, dynamic=True)
    return faster  # type: ignore[no-any-return]


def compile_layers(model: torch.nn.Module) -> int:
    """Compile each layer of a model of transformers when it is first called; returns how many they are.

    Only what a layer computes: FSDP2's hooks around it, which gather its weights, stay as they are.
    """
    names = set(getattr(model, "_no_split_modules", None) or ())  # of transformers: the layers that FSDP2 wraps
    layers = [module for module in model.modules() if type(module).__name__ in names]
    for module in layers:
        module.forward = torch.compile(module.forward, dynamic=True)
    return len(layers)
