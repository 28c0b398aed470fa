"""No padding, and logits only where a loss reads them: what training workers of a CPU compute.

The rows of a micro-batch lie one behind the other, and attention goes row by row, so that no token is computed for
nothing. With a vocabulary of 49,152, one float32 copy of the logits of 4,096 tokens is 0.8 GB; most tokens belong to
prompts and observations, which no loss reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import FunctionCtx
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

if TYPE_CHECKING:
    from tensordict import TensorDict

READ = ("loss_mask", "observation_weight")
"""Fields of the rows that are 0 where no loss reads a token."""
CHUNK = 32
"""Tokens whose logits are copied at once where a copy is needed."""


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    cu_seq_lens_q: torch.Tensor,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention within each row, for transformers' ``AttentionInterface``.

    Args:
        query: [1, heads, tokens, width]; ``key`` and ``value`` may have fewer heads.
        cu_seq_lens_q: [rows + 1], where the rows begin and end.
        sliding_window: tokens that a token sees, itself included; None for all before it.

    Returns:
        [1, tokens, heads, width].
    """
    sizes = cu_seq_lens_q.diff().tolist()
    parts = zip(*(torch.split(part, sizes, dim=2) for part in (query, key, value)), strict=True)
    each = [
        scaled_dot_product_attention(
            q, k, v, attn_mask=(window := _window(size, sliding_window, q.device)), dropout_p=dropout, scale=scaling,
            is_causal=window is None, enable_gqa=q.shape[1] != k.shape[1],
        )
        for size, (q, k, v) in zip(sizes, parts, strict=True)
    ]  # fmt: skip
    return torch.cat(each, dim=2).transpose(1, 2).contiguous(), None


def _window(size: int, width: int | None, device: torch.device) -> torch.Tensor | None:
    """[size, size]: which tokens a token sees through a window; None where all before it."""
    if width is None or size <= width:
        return None
    return torch.ones(size, size, dtype=torch.bool, device=device).tril().triu(1 - width)


def predicting(data: TensorDict | Mapping[str, torch.Tensor]) -> torch.Tensor:
    """[places]: the places before the tokens that a loss reads, among the tokens of all rows; at least one.

    The fields :data:`READ` lie over the whole rows, or over their ends from the first response on.
    """
    ids: Any = data["input_ids"]
    offsets = ids.offsets().tolist()
    read = torch.zeros(offsets[-1], dtype=torch.bool, device=ids.device)
    for name in READ:
        if name in data:
            for end, mask in zip(offsets[1:], data[name].unbind(), strict=True):
                read[end - len(mask) : end] |= mask != 0
    places = read[1:].nonzero().squeeze(1)
    return places if len(places) else places.new_zeros(1)


def _wide(values: torch.Tensor) -> torch.Tensor:
    """In float32 at least."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


class TokenLogProbs(torch.autograd.Function):
    """[tokens]: log-probabilities of ``labels`` under ``logits`` [tokens, vocabulary].

    Keeps the logits and makes nothing of their size but the gradient; torch's own functions keep three copies. Logits
    in bfloat16 are computed with in float32.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        total = torch.cat([_wide(part).logsumexp(-1) for part in torch.split(logits, CHUNK)])
        ctx.save_for_backward(logits, labels, total)
        return _wide(logits.gather(1, labels.unsqueeze(1)).squeeze(1)) - total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        logits, labels, total = ctx.saved_tensors
        found = torch.empty_like(logits)
        rows = (one.unsqueeze(1) for one in (labels, total, gradient))
        parts = zip(*(torch.split(one, CHUNK) for one in (found, logits, *rows)), strict=True)
        for place, part, label, normaliser, weight in parts:
            place.copy_((part - normaliser).exp_().mul_(-weight).scatter_add_(1, label, weight))
        return found, None


def entropy_of(logits: torch.Tensor) -> torch.Tensor:
    """[tokens]: of the distributions with ``logits`` [tokens, vocabulary], in nats."""
    parts = (_wide(part) for part in torch.split(logits, CHUNK))
    return torch.cat([-(part.softmax(-1) * part.log_softmax(-1)).sum(-1) for part in parts])


ALL_ATTENTION_FUNCTIONS.register("packed", attend)  # so do the settings of a CPU call it
