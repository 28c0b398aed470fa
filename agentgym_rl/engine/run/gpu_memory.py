"""How much memory an update takes on a GPU, and so how many tokens a micro-batch has and whether it recomputes.

An estimate from the model's shapes: float32 weights, gradients and AdamW's two moments, bfloat16 copies to compute
with, what the backward pass keeps of each token, and logits with their gradient. It takes all tokens of a micro-batch
for the model's own, and vLLM to sleep during updates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from agentgym_rl.algorithms.model import CRITIC
from agentgym_rl.engine.recipe.config import Device
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import RecipeError
from agentgym_rl.engine.run.memory import FLOAT, GIB, Plan, Shapes, kept, machine, shapes

HALF = 2
EMPTY = 3.0
"""GiB of CUDA, NCCL and a sleeping vLLM; assumed, not measured."""
USED = 0.92
"""Share of a GPU's memory that is planned with."""
ASSUMED = 80.0
"""GiB of a GPU where this machine has none."""
ENOUGH, MOST = 8192, 24576
"""Tokens of a micro-batch that fill a GPU, so that nothing need be computed twice for more, and beyond which it gains
nothing."""
STEP = 1024
CHUNK = 1024
"""Tokens whose logits are in float32 at once, :data:`agentgym_rl.engine.platform.packing.ON_GPU`."""


@dataclass(frozen=True, slots=True)
class Need:
    """Of the update on one GPU."""

    sure: float
    """GiB whatever the micro-batches are."""
    kept: float
    """Bytes of a token for the backward pass."""
    recomputed: float
    """The same where layers are computed again."""
    logits: float
    """Bytes of a token."""

    def token(self, recompute: bool) -> float:
        """GiB of a token."""
        return ((self.recomputed if recompute else self.kept) + self.logits) / GIB


def need(model: Shapes, depth: int, width: int, *, workers: int, models: int) -> Need:
    """Memory of an update.

    Args:
        depth: layers of the model.
        width: numbers between two layers.
        workers: that share the weights.
        models: that lie on the GPU, a critic among them.
    """
    gathered = model.parameters if workers == 1 else 3 * model.parameters / depth
    gradients = FLOAT * model.learn * (1 if workers == 1 else 1 + 1 / workers)  # whole until the last micro-batch
    states = FLOAT * model.parameters / workers + gradients + 2 * FLOAT * model.learn / workers + HALF * gathered
    chunk = 2 * FLOAT * CHUNK * model.vocabulary
    kept = HALF * model.kept
    return Need(
        sure=EMPTY + (models * states + chunk) / GIB,
        kept=kept,
        recomputed=HALF * depth * width + kept / depth,
        logits=2 * HALF * model.vocabulary,
    )


def fitted(run: Resolved, network: Any, smallest: Callable[[], float | None]) -> tuple[Resolved, str | None]:
    """The run with what it leaves open chosen so that updates fit a GPU, and a line that says so.

    Args:
        network: see :func:`agentgym_rl.engine.verl.network.skeleton`.
        smallest: asks for the GiB of this machine's smallest GPU; None where it has none.

    Returns:
        The same and None on a CPU.

    Raises:
        RecipeError: the model alone is too large for a GPU.
    """
    engine, model, needs = run.config.engine, run.config.model, run.needs
    if engine.device is not Device.CUDA:
        return run, None
    known = engine.gpu_gib or smallest()
    gib = known or ASSUMED
    plan = Plan(
        workers=1, servers=0, loops=0, micro_tokens=0, kv_cache_gib=0.0, train_layers=model.train_layers,
        lora_rank=model.lora_rank,
    )  # fmt: skip
    both = needs.critic is not None and not engine.offload
    sizes, shape = network.config.get_text_config(), shapes(plan, network)
    each = need(
        shape, sizes.num_hidden_layers, sizes.hidden_size, workers=engine.workers * engine.nodes, models=1 + both
    )
    if each.sure > gib:
        whose = "policy and critic" if both else "the policy"
        raise RecipeError(
            f"weights and optimizer of {whose} need {each.sure:.1f} GiB of a GPU that has {gib:.1f}: choose a smaller "
            "model, model.lora_rank, or more engine.workers, which share them"
        )
    _check_host(run, shape)
    longest = needs.rows_together * model.context
    tokens, recompute = _chosen(each, USED * gib, longest, engine.micro_tokens, engine.gradient_checkpointing)
    peak = each.sure + tokens * each.token(recompute)
    how = "computed again" if recompute else "kept"
    source = "" if known else ", assumed: this machine has no GPU, engine.gpu_gib says what they have"
    line = (
        f"memory of a GPU: up to {peak:.1f} of {gib:.1f} GiB{source} (without a batch {each.sure:.1f}); "
        f"micro-batches of {tokens} tokens, activations {how}"
    )
    if peak > gib:
        line += "; where it runs out, lower engine.micro_tokens or model.response_tokens, or set engine.offload=true"
    return run.with_engine(replace(engine, micro_tokens=tokens, gradient_checkpointing=recompute)), line


def _check_host(run: Resolved, shape: Shapes) -> None:
    """Raises RecipeError: the models in host memory do not fit into that of a machine, which is this one."""
    needs, engine = run.needs, run.config.engine
    swapped, offloaded = needs.swapped, [CRITIC] if needs.critic is not None and engine.offload else []
    gib = kept(shape, len(swapped), sum(model.trained for model in swapped.values()))
    gib = (gib + len(offloaded) * 3 * FLOAT * shape.parameters / GIB) / engine.nodes
    total, _ = machine()
    if engine.ray_address is None and gib > total:
        raise RecipeError(
            f"the models beside the policy ({', '.join([*swapped, *offloaded])}) need {gib:.1f} GiB of host memory on "
            f"each machine, but this one has {total:.1f}: choose a smaller model, model.lora_rank, or more engine.nodes"
        )


def _chosen(each: Need, gib: float, longest: int, tokens: int | None, recompute: bool | None) -> tuple[int, bool]:
    """Tokens of a micro-batch, no fewer than the longest row has, and whether layers are computed again."""

    def fit(again: bool) -> int:
        return int((gib - each.sure) / each.token(again)) // STEP * STEP

    if recompute is None:
        recompute = fit(False) < (max(longest, ENOUGH) if tokens is None else tokens)
    return tokens or max(longest, min(MOST, fit(recompute))), recompute
