"""Causal attention within rows that lie one behind the other, without padding and without a mask of their tokens.

For transformers' ``AttentionInterface``, under the names that ``attn_implementation`` of a model's configuration takes:
``packed`` goes row by row with PyTorch's attention for dense rows, on any device and in any precision; ``varlen`` is
one launch of FlashAttention's kernels for rows of unequal length, which PyTorch has for GPUs, and ``packed`` where it
has none.
"""

from __future__ import annotations

from functools import cache, partial
from inspect import signature
from typing import Any

import torch
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

WIDEST = 256
"""Numbers of a head that FlashAttention has kernels for, in steps of 8."""


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    at_once: bool,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: int | None = None,
    position_ids: torch.Tensor | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Attention within rows.

    Args:
        query: [1, heads, tokens, width]; ``key`` and ``value`` may have fewer heads.
        at_once: all rows in one launch where there is a kernel for them.
        cu_seq_lens_q: [rows + 1], where the rows begin and end; without it they begin where ``position_ids`` are 0.
        max_length_q: tokens of the longest row; without it, and without ``cu_seq_lens_q``, the host waits for the
            device to learn it. Not read row by row.
        sliding_window: tokens that a token sees, itself included; None for all before it.

    Returns:
        [1, tokens, heads, width].

    Raises:
        ValueError: the model asks for what is not computed here.
    """
    _only_known(others)
    ends = _ends(cu_seq_lens_q, position_ids)
    if at_once and not dropout and has_kernel(value):
        return _in_one_launch(query, key, value, ends, max_length_q, scaling, sliding_window), None
    return _row_by_row(query, key, value, ends, dropout, scaling, sliding_window), None


attend = partial(_attend, at_once=False)
attend_at_once = partial(_attend, at_once=True)


def _row_by_row(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ends: torch.Tensor, dropout: float,
    scaling: float | None, sliding_window: int | None,
) -> torch.Tensor:  # fmt: skip
    sizes = ends.diff().tolist()
    parts = zip(*(torch.split(part, sizes, dim=2) for part in (query, key, value)), strict=True)
    each = [
        scaled_dot_product_attention(
            q, k, v, attn_mask=(window := _window(size, sliding_window, q.device)), dropout_p=dropout, scale=scaling,
            is_causal=window is None, enable_gqa=q.shape[1] != k.shape[1],
        )
        for size, (q, k, v) in zip(sizes, parts, strict=True)
    ]  # fmt: skip
    return torch.cat(each, dim=2).transpose(1, 2).contiguous()


def _in_one_launch(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ends: torch.Tensor, longest: int | None,
    scaling: float | None, sliding_window: int | None,
) -> torch.Tensor:  # fmt: skip
    ends = ends.to(torch.int32)
    longest = int(ends.diff().max()) if longest is None else longest
    # autocast leaves positions, and so queries and keys, in the precision of the weights
    q, k, v = (part.squeeze(0).transpose(0, 1).to(value.dtype) for part in (query, key, value))
    window = (-1 if sliding_window is None else sliding_window - 1, 0)
    out: Any = varlen_attn(q, k, v, ends, ends, longest, longest, scale=scaling, window_size=window, **_grouped())
    attended: torch.Tensor = out.unsqueeze(0)
    return attended


def has_kernel(value: torch.Tensor) -> bool:
    """True if PyTorch has FlashAttention for rows of unequal length, for such tensors [..., width]."""
    width = value.shape[-1]
    if not value.is_cuda or width % 8 or width > WIDEST:
        return False
    return value.dtype in (torch.bfloat16, torch.float16) and torch.cuda.get_device_capability(value.device) >= (8, 0)


@cache
def _grouped() -> dict[str, Any]:
    """The argument that lets keys have fewer heads than queries: torch 2.11 needs none, later versions do."""
    return {"enable_gqa": True} if "enable_gqa" in signature(varlen_attn).parameters else {}


def _only_known(others: dict[str, Any]) -> None:
    for name in ("softcap", "s_aux"):
        if others.get(name) is not None:
            raise ValueError(
                f"attention with {name} is not computed without padding; set "
                "verl.actor_rollout_ref.model.override_config.attn_implementation=eager and "
                "verl.actor_rollout_ref.model.use_remove_padding=false, or choose another model (docs/models.md)"
            )


def _ends(cu_seq_lens: torch.Tensor | None, positions: torch.Tensor | None) -> torch.Tensor:
    """[rows + 1]: where the rows begin, and where the last one ends."""
    if cu_seq_lens is not None:
        return cu_seq_lens
    if positions is None:
        raise ValueError("rows without padding need cu_seq_lens_q or position_ids, which say where they begin")
    flat = positions.flatten()
    return torch.cat([(flat == 0).nonzero().squeeze(1), flat.new_tensor([len(flat)])])


def _window(size: int, width: int | None, device: torch.device) -> torch.Tensor | None:
    """[size, size]: which tokens a token sees through a window; None where all before it."""
    if width is None or size <= width:
        return None
    return torch.ones(size, size, dtype=torch.bool, device=device).tril().triu(1 - width)


ALL_ATTENTION_FUNCTIONS.register("packed", attend)
ALL_ATTENTION_FUNCTIONS.register("varlen", attend_at_once)
