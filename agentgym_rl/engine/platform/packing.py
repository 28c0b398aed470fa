"""Logits only where a loss reads them, and their log-probabilities in float32: what training workers compute.

With a vocabulary of 49,152, one float32 copy of the logits of 4,096 tokens is 0.8 GB, and with one of 151,936 it is
2.5 GB; most tokens belong to prompts and observations, which no loss reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.checkpoint import checkpoint

from agentgym_rl.engine.platform.compiled import compiled

if TYPE_CHECKING:
    from tensordict import TensorDict

READ = ("loss_mask", "observation_weight")
"""Fields of the rows that are 0 where no loss reads a token."""
ON_CPU, ON_GPU = 32, 1024
"""Tokens whose logits are copied in float32 at once: those that fit a CPU's cache, those that fill a GPU."""


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


def _in_chunks(logits: torch.Tensor, *of_tokens: torch.Tensor | None) -> Iterator[tuple[Any, ...]]:
    """``logits`` [tokens, vocabulary] some tokens at a time, with what else there is of each."""
    size = ON_GPU if logits.is_cuda else ON_CPU
    for start in range(0, len(logits), size):
        yield tuple(None if tensor is None else tensor[start : start + size] for tensor in (logits, *of_tokens))


def _over(logits: torch.Tensor, temperature: torch.Tensor | None) -> torch.Tensor:
    return logits if temperature is None else logits / temperature.unsqueeze(1)


def _wide(values: torch.Tensor) -> torch.Tensor:
    """In float32 at least."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


class TokenLogProbs(torch.autograd.Function):
    """[tokens]: log-probabilities of ``labels`` under ``logits`` [tokens, vocabulary] over ``temperature`` [tokens].

    Keeps the logits and makes nothing of their size but the gradient; torch's own functions keep three copies. Logits
    in bfloat16 are computed with in float32. ``faster`` compiles what goes over the vocabulary.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: torch.Tensor,
        labels: torch.Tensor,
        temperature: torch.Tensor | None = None,
        faster: bool = False,
    ) -> torch.Tensor:
        normaliser = compiled(_normaliser) if faster else _normaliser
        total = torch.cat([normaliser(*part) for part in _in_chunks(logits, temperature)])
        ctx.save_for_backward(logits, labels, temperature, total)
        ctx.faster = faster
        return _wide(_over(logits.gather(1, labels.unsqueeze(1)), temperature)).squeeze(1) - total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        logits, labels, temperature, total = ctx.saved_tensors
        of_logits, places = torch.empty_like(logits), labels.unsqueeze(1)
        weight = gradient if temperature is None else gradient / temperature
        write = compiled(_write_others) if ctx.faster else _write_others
        for part in _in_chunks(logits, of_logits, temperature, total, weight):
            write(*part)
        of_label = _wide(logits.gather(1, places))
        _write_others(of_label, of_label, temperature, total, weight)
        of_logits.scatter_(1, places, of_label.add_(weight.unsqueeze(1)).to(of_logits.dtype))
        return of_logits, None, None, None


def _normaliser(logits: torch.Tensor, temperature: torch.Tensor | None) -> torch.Tensor:
    return _wide(_over(logits, temperature)).logsumexp(-1)


def _write_others(
    logits: torch.Tensor,
    place: torch.Tensor,
    temperature: torch.Tensor | None,
    total: torch.Tensor,
    weight: torch.Tensor,
) -> None:
    """Write the gradient of the logits of all tokens but the label into ``place`` [tokens, vocabulary]."""
    place.copy_((_over(logits, temperature) - total.unsqueeze(1)).exp_().mul_(-weight.unsqueeze(1)))


def entropy_of(logits: torch.Tensor, temperature: torch.Tensor | None = None, *, faster: bool = False) -> torch.Tensor:
    """[tokens]: of the distributions with ``logits`` [tokens, vocabulary] over ``temperature`` [tokens], in nats.

    For a gradient each chunk is computed again, so that no float32 copy of all logits is kept. ``faster`` compiles it.
    """
    entropy = compiled(_entropy) if faster else _entropy
    return torch.cat([checkpoint(entropy, *part, use_reentrant=False) for part in _in_chunks(logits, temperature)])


def _entropy(logits: torch.Tensor, temperature: torch.Tensor | None) -> torch.Tensor:
    log_probs = _wide(_over(logits, temperature)).log_softmax(-1)
    return -(log_probs.exp() * log_probs).sum(-1)
