"""How much memory a run on a CPU will need, before it is launched.

An estimate from the model's shapes: float32 weights, gradients and AdamW's two moments of what learns, in bfloat16 also
the weights that a worker computes with, vLLM's weights, packed layers and KV cache, and for each token of a micro-batch
what the backward pass keeps. What the processes take without a model was measured.
docs/measurements.md has estimates, docs/engine.md what a run took.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from agentgym_rl.engine.recipe.schema import RecipeError

GIB = 1 << 30
FLOAT = 4
EMPTY = {"driver": 1.0, "agent-loop worker": 0.9, "training worker": 0.9, "vLLM server": 2.2, "Ray and queue": 1.1}
"""GiB of processes without a model, as measured with versions of ``constraints/cpu.txt``."""
KEPT = 1.4
"""Activations that autograd keeps, as a multiple of the linear layers' inputs and outputs."""
GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The settings that determine memory."""

    workers: int
    """Training workers."""
    servers: int
    """vLLM servers."""
    loops: int
    """Agent-loop workers."""
    micro_tokens: int
    """Of the largest micro-batch."""
    kv_cache_gib: float
    train_layers: int | None = None
    lora_rank: int = 0
    bfloat16: bool = False
    """Workers and vLLM compute in it."""
    critic: bool = False
    """It learns a model of the same size."""
    others: int = 0
    """Models beside the policy, whose weights are in files, one at a time read from them."""
    trained: int = 0
    """Those of them that learn."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """Numbers of a model that its memory follows from."""

    parameters: int
    learn: int
    """Parameters that learn."""
    linear: int
    """Parameters of linear layers, which vLLM packs for its kernels."""
    kept: float
    """Numbers that are kept for the backward pass of a token."""
    vocabulary: int


@dataclass(frozen=True, slots=True)
class Need:
    """GiB by process."""

    sure: dict[str, float]
    """Whatever the episodes are."""
    batch: dict[str, float]
    """More of it, with full micro-batches."""

    @property
    def least(self) -> float:
        return sum(self.sure.values())

    @property
    def most(self) -> float:
        return self.least + sum(self.batch.values())

    def __str__(self) -> str:
        parts = (f"{name} {gib + self.batch.get(name, 0.0):.1f}" for name, gib in self.sure.items())
        return f"up to {self.most:.1f} GiB ({', '.join(parts)})"


def shapes(plan: Plan, network: Any) -> Shapes:
    """Of a model without weights (:func:`agentgym_rl.engine.verl.network.skeleton`)."""
    import torch

    weights = dict(network.named_parameters())
    head = network.get_output_embeddings()
    linear = {
        name: layer
        for name, layer in network.named_modules()
        if isinstance(layer, torch.nn.Linear) and layer is not head
    }
    ends = sum(layer.in_features + layer.out_features for layer in linear.values())
    parameters = sum(weight.numel() for weight in weights.values())
    learn = parameters
    if plan.train_layers is not None:
        last = network.config.num_hidden_layers - plan.train_layers
        numbered = ((re.search(r"\.layers\.(\d+)\.", name), weight) for name, weight in weights.items())
        learn = sum(weight.numel() for match, weight in numbered if match and int(match[1]) >= last)
    kept = KEPT * ends * learn / parameters
    if plan.lora_rank:  # in layers whose activations are all kept
        learn = plan.lora_rank * ends
    packed = sum(layer.weight.numel() for layer in [*linear.values(), head])
    return Shapes(parameters, learn, packed, kept, head.out_features)


def need(plan: Plan, model: Shapes) -> Need:
    """Memory of the processes of a run on one machine."""
    weights, learn = FLOAT * model.parameters / GIB, FLOAT * model.learn / GIB
    states = weights + 3 * learn
    beside = (4 * weights if plan.critic else 0.0) + 2 * learn * plan.trained + (learn if plan.others else 0.0)
    number = FLOAT // 2 if plan.bfloat16 else FLOAT
    if plan.bfloat16:
        states += number * model.parameters / GIB
    server = EMPTY["vLLM server"] + number * (model.parameters + model.linear) / GIB + plan.kv_cache_gib
    token = (number * (model.kept + model.vocabulary) + FLOAT * model.vocabulary) / GIB
    sure = {
        "driver": EMPTY["driver"],
        "agent-loop worker": plan.loops * EMPTY["agent-loop worker"],
        "training worker": plan.workers * EMPTY["training worker"] + states,
        **({"models beside the policy": beside} if beside else {}),
        "vLLM server": plan.servers * server,
        "Ray and queue": EMPTY["Ray and queue"],
    }
    return Need(sure, {"training worker": plan.workers * plan.micro_tokens * token})


def kept(model: Shapes, others: int, trained: int) -> float:
    """GiB of host memory in which the workers of a run on GPUs keep models that take the policy's place.

    Each has its weights there, those that learn also two moments; while one is used, the policy has them there.
    """
    return FLOAT * model.learn * (others + 1 + 2 * (trained + 1 if trained else 0)) / GIB if others else 0.0


def machine() -> tuple[float, float]:
    """GiB that processes of this one's control group may have in all, and those that are free."""
    memory = psutil.virtual_memory()
    total = min([memory.total, *_limits()])
    return total / GIB, min(memory.available, total) / GIB


def _limits() -> list[int]:
    """Limits of this process's control groups, of version 2 or 1."""
    own_groups, limits = Path("/proc/self/cgroup"), []
    for line in own_groups.read_text().splitlines() if own_groups.is_file() else ():
        number, controllers, path = line.split(":", 2)
        top, name = (GROUPS, "memory.max") if number == "0" else (GROUPS / "memory", "memory.limit_in_bytes")
        if number == "0" or controllers == "memory":
            group = top / path.lstrip("/")
            texts = [(folder / name).read_text() for folder in (group, *group.parents) if (folder / name).is_file()]
            limits += [int(limit) for limit in texts if limit.strip().isdigit()]
    return limits


LOWER = "engine.micro_tokens, engine.kv_cache_gib, engine.workers or rollout.workers"


def report(plan: Plan, network: Any) -> str:
    """A line on the memory that a run needs.

    Args:
        network: see :func:`shapes`.

    Raises:
        RecipeError: what the run needs in any case is more than this machine has.
    """
    needed = need(plan, shapes(plan, network))
    total, free = machine()
    if needed.least > total:
        raise RecipeError(
            f"the run needs {needed.least:.1f} GiB of memory or more, {needed}, but this machine gives it {total:.1f} "
            f"GiB; choose a smaller model, or lower {LOWER}"
        )
    line = f"memory: {needed}; {free:.1f} of {total:.1f} GiB are free"
    return line if needed.most <= free else f"{line}: where it runs out, lower {LOWER}"
