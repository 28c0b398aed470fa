"""A check that vLLM samples from the weights that learn: both sides give log-probabilities of a fixed text.

Where a sync leaves something out (adapters, say), rollouts come from another policy, and nothing else fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import ray
import torch
from verl.utils import tensordict_utils as tu

from agentgym_rl.algorithms.base import Metrics
from agentgym_rl.engine.verl.updates import token_batch
from agentgym_rl.rollout.supervised import Example

TEXT = """Thought:
The door is closed. I open it first, then I look for the key in the next room.

Action:
open the door"""
TOLERANCES = {"float32": 1e-4}
"""Mean absolute difference of log-probabilities, in nats a token, by the type of vLLM's weights."""
ROUNDED = 1e-1
"""The tolerance for other types: SmolLM2-135M in bfloat16 on a CPU differs by 0.051."""
SHARE = 0.1
"""Their tolerance as a share of how far the weights have moved, where that is more, because rounding grows with the
logits: SmolLM2-135M after two updates with a rate of 1e-3 differs by 0.10 on an H100."""
DIFFERENCE = "sync/log_prob_difference"
PATIENCE_S = 600
"""Seconds that a server may take for the text."""
DOUBTED = 6e-2
"""A larger difference is told: importance ratios of the samples are wrong by as much."""

UNCHANGED = "The server still has the weights that it started with: nothing reaches it, or adapters are left out."
OTHER = "A part of the weights is missing or old, or the server's type rounds more than the training workers'."


class WeightsNotSynced(RuntimeError):
    """A vLLM server has other weights than those that learn."""


class SyncProbe:
    """Compares after a sync, and knows whether a comparison has proved anything yet."""

    def __init__(self, tokens: Sequence[int], tolerance: float, loaded: torch.Tensor, share: float = 0.0) -> None:
        """
        Args:
            tokens: the text.
            tolerance: largest mean difference, in nats a token.
            loaded: [tokens - 1], the log-probabilities of a server before the first update.
            share: the tolerance as a share of how far the weights have moved, where that is more.
        """
        self.tokens, self.tolerance, self.share, self._loaded = list(tokens), tolerance, share, loaded
        self._proven = False

    @classmethod
    def begin(cls, tokenizer: Any, rollout: Any, handles: Sequence[Any]) -> SyncProbe:
        """Ask the servers for the log-probabilities of the weights as loaded; ``rollout`` are verl's settings."""
        tokens = tokenizer.encode(TEXT, add_special_tokens=False)[: rollout.max_model_len - 1]
        exact = TOLERANCES.get(rollout.dtype)
        tolerance, share = (ROUNDED, SHARE) if exact is None else (exact, 0.0)
        return cls(tokens, tolerance, on_servers(tokens, handles)[0], share)

    def due(self, when: str) -> bool:
        """True if the next sync is to be checked; ``when`` is ``always``, ``first`` or ``never``."""
        return when == "always" or (when == "first" and not self._proven)

    def learner(self, workers: Any) -> torch.Tensor:
        """[tokens - 1]: by the training workers."""
        example = Example(self.tokens, [0.0, *[1.0] * (len(self.tokens) - 1)])
        data = token_batch([example] * workers.world_size, workers.world_size, temperature=1.0)
        tu.assign_non_tensor(data, compute_loss=False)
        log_probs: torch.Tensor = workers.compute_log_prob(data)["log_probs"].unbind()[0]
        return log_probs[:-1].float()

    def servers(self, handles: Sequence[Any]) -> list[torch.Tensor]:
        """[tokens - 1] each: by vLLM servers."""
        return on_servers(self.tokens, handles)

    def compare(self, learner: torch.Tensor, servers: Sequence[torch.Tensor]) -> Metrics:
        """Both sides after a sync.

        Returns:
            The largest difference of a server, and how far the weights have moved since they were loaded, in nats a
            token.

        Raises:
            WeightsNotSynced: a server differs by more than the tolerance; gives both numbers.
        """
        differences = [apart(server, learner) for server in servers]
        moved = apart(learner, self._loaded)
        tolerance = max(self.tolerance, self.share * moved)
        for number, (server, difference) in enumerate(zip(servers, differences, strict=True)):
            if not difference <= tolerance:
                stayed = apart(server, self._loaded) <= self.tolerance
                raise WeightsNotSynced(
                    f"vLLM server {number} does not have the weights that learn: a token of a fixed text has a mean "
                    f"log-probability of {server.mean():.6f} there and of {learner.mean():.6f} on the training "
                    f"workers; they differ by {difference:.2g} (tolerance {tolerance:.2g}), and the weights have moved "
                    f"it by {moved:.2g}. {UNCHANGED if stayed else OTHER}"
                )
        self._proven = self._proven or moved > 2 * self.tolerance
        return {DIFFERENCE: max(differences), "sync/log_prob_moved": moved}


def doubt(metrics: Metrics) -> str | None:
    """A warning where vLLM samples from probabilities that differ much from those that learn."""
    difference = metrics.get(DIFFERENCE, 0.0)
    if difference <= DOUBTED:
        return None
    return (
        f"warning: the log-probabilities of vLLM and of the training workers differ by {difference:.2g} nats a token "
        f"of a fixed text, more than {DOUBTED:g}, and so do importance ratios from 1 ({DIFFERENCE}); "
        "docs/engine.md says what may help"
    )


def on_servers(tokens: list[int], handles: Sequence[Any]) -> list[torch.Tensor]:
    """[tokens - 1] each: log-probabilities of all tokens but the first."""
    sampling = {"prompt_logprobs": 0, "max_tokens": 1, "temperature": 0.0}  # greedy: no draw of the engine is used up
    asked = [
        handle.generate.remote(prompt_ids=tokens, sampling_params=sampling, request_id=uuid4().hex)
        for handle in handles
    ]
    try:
        answers = ray.get(asked, timeout=PATIENCE_S)
    except ray.exceptions.GetTimeoutError:
        raise RuntimeError(
            f"a vLLM server gave no log-probabilities of a fixed text within {PATIENCE_S} s after a sync; its log says "
            "what it does. engine.verify_sync=never asks for none"
        ) from None
    outputs = [output.extra_fields["prompt_logprobs"] for output in answers]
    return [torch.tensor(values).flatten()[: len(tokens) - 1] for values in outputs]


def apart(tensor: torch.Tensor, other: torch.Tensor) -> float:
    """Mean absolute difference."""
    return float((tensor - other).abs().mean())
