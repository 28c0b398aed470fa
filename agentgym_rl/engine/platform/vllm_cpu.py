"""vLLM's plugin entry point, loaded in each of its processes (they import vLLM before verl)."""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

import wrapt

from agentgym_rl.engine.platform import vllm_alias
from agentgym_rl.engine.platform.detect import on_cpu


def keep_weight(module: ModuleType) -> None:
    """vLLM's CPU linear layers drop their weight once it is packed, so a second weight sync finds nothing to load
    into. Keep it: verl has vLLM pack again after every sync."""
    dispatch = module.dispatch_cpu_unquantized_gemm

    @wraps(dispatch)
    def dispatch_cpu_unquantized_gemm(layer: Any, remove_weight: bool) -> None:
        dispatch(layer, remove_weight=False)

    module.dispatch_cpu_unquantized_gemm = dispatch_cpu_unquantized_gemm  # type: ignore[attr-defined]


def keep_seeds(module: ModuleType) -> None:
    """vLLM's CPU sampler passes over all seeds of a batch in which one request has none, such as a greedy one beside
    sampled ones in an evaluation. The sampler that other processors have does not."""
    module.TopKTopPSampler.forward_cpu = module.TopKTopPSampler.forward_native


def register() -> None:
    """Called by vLLM at the start of each process; without effect where an accelerator is used."""
    if not on_cpu():
        return
    vllm_alias.install()
    wrapt.register_post_import_hook(keep_weight, "vllm.model_executor.layers.utils")
    wrapt.register_post_import_hook(keep_seeds, "vllm.v1.sample.ops.topk_topp_sampler")
