"""Model and LoRA rank that fit the memory of one GPU (``engine.memory``)."""

from __future__ import annotations

from collections.abc import Collection

from omegaconf import DictConfig

from agentgym_rl.engine.recipe.schema import RecipeError

CHOICES: dict[int, tuple[str, ...]] = {
    16: ("model=qwen2.5-0.5b", "model.lora_rank=16"),
    24: ("model=qwen2.5-1.5b", "model.lora_rank=16"),
    48: ("model=qwen2.5-3b", "model.lora_rank=16"),
    80: ("model=qwen2.5-3b", "model.lora_rank=0", "algorithm.lr=1e-6"),
}
"""Overrides by the GB of a GPU: adapters, or all weights, which take smaller steps.

They fit by the estimate of the launch (:mod:`agentgym_rl.engine.run.gpu_memory`)."""
LEAST = 0.9
"""GiB that a GPU has at least for each GB that it is sold with: a T4 of 16 GB has 14.6."""


def smallest() -> float | None:
    """GiB of this machine's smallest GPU; None where it has none."""
    import torch

    cuda = torch.cuda
    sizes = [cuda.get_device_properties(index).total_memory / 2**30 for index in range(cuda.device_count())]
    return min(sizes, default=None)


def chosen(composed: DictConfig, given: Collection[str]) -> list[str]:
    """The overrides that ``engine.memory`` stands for; none with auto where this machine has no GPU.

    Args:
        composed: the run without them.
        given: keys of the command line, which stay as they are.

    Raises:
        RecipeError: it is neither auto nor a number, or too little.
    """
    memory = str(composed.engine.memory)
    gib = smallest() if memory == "auto" else _number(memory)
    if gib is None:
        return []
    fit = [size for size in CHOICES if size * LEAST <= gib]
    if not fit:
        raise RecipeError(
            f"engine.memory={memory}: a GPU of {gib:.3g} GiB is smaller than {min(CHOICES)} GB, the least that a model "
            "is chosen for; engine.memory=null leaves it to model and model.lora_rank"
        )
    fixed = {*given, *(["model"] if "model.path" in given else [])}
    if "model.lora_rank" in given or "lr" not in composed.algorithm:
        fixed.add("algorithm.lr")
    overrides = (*CHOICES[max(fit)], f"engine.gpu_gib={gib:g}")
    return [word for word in overrides if word.partition("=")[0] not in fixed]


def _number(memory: str) -> float:
    try:
        return float(memory)
    except ValueError:
        raise RecipeError(f"engine.memory={memory} must be auto or GB, e.g. 24") from None
