"""Log-probabilities of sampled tokens under any weights of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.utils import tensordict_utils as tu
from verl.workers.utils.padding import response_from_nested

from agentgym_rl.algorithms.rows import PerToken, Row, WithEngine
from agentgym_rl.engine.verl import rows as queue
from agentgym_rl.engine.verl.fields import field_of
from agentgym_rl.engine.verl.settings import Settings
from agentgym_rl.engine.verl.updates import token_batch
from agentgym_rl.engine.verl.weights import Weights
from agentgym_rl.rollout.supervised import Example


class Scorer:
    """Has the training workers compute them, as other updates do, at the temperature of rollouts."""

    def __init__(self, verl: Any, settings: Settings, weights: Weights) -> None:
        self.verl, self.settings, self.weights = verl, settings, weights

    def write(self, batch: KVBatchMeta, by: str | Path | None, field: str, *, entropy: bool = False) -> None:
        """Have the workers write a field of the rows of a batch, of which each worker takes as many.

        Args:
            by: see :meth:`.weights.Weights.using`.
            entropy: also ``<field>_entropy``.
        """
        compute, temperature = self.verl.actor_rollout_wg.compute_log_prob, self.settings.temperature
        with self.weights.using(by):
            queue.log_probs_of(batch, compute, temperature, field, entropy=entropy)

    def of_batch(
        self, batch: KVBatchMeta, rows: Sequence[Row], by: str | Path | None, name: str, *, entropy: bool, read: bool
    ) -> list[Row]:
        """Rows of a batch with one more stream, which stays in the queue; with ``read`` it comes here, too."""
        chosen = batch.select_keys([str(row.segment) for row in rows])
        filled = upsample_batch_to_divisible_size(chosen, self.settings.workers, self.verl.tokenizer.eos_token_id)
        self.write(filled, by, field_of(name), entropy=entropy)
        if padding := filled.keys[len(chosen) :]:
            tq.kv_clear(keys=padding, partition_id=batch.partition_id)
        names = [name, f"{name}_entropy"] if entropy else [name]
        if not read:
            return with_streams(rows, {name: [WithEngine()] * len(rows) for name in names})
        fields = queue.get(chosen, *map(field_of, names))
        sizes = [(tag["prompt_len"], tag["seq_len"]) for tag in chosen.tags]
        return with_streams(rows, {name: behind(sizes, fields[field_of(name)].unbind()) for name in names})

    def of_tokens(self, rows: Sequence[Row], by: str | Path | None, name: str, *, entropy: bool) -> list[Row]:
        """Rows that have their tokens with one more stream."""
        examples = [row.segment for row in rows if isinstance(row.segment, Example)]
        size = -(-len(rows) // self.settings.workers) * self.settings.workers
        data = token_batch([examples[place % len(rows)] for place in range(size)], size, self.settings.temperature)
        tu.assign_non_tensor(data, compute_loss=False, calculate_entropy=entropy)
        with self.weights.using(by):
            output = self.verl.actor_rollout_wg.compute_log_prob(data)
        names = {name: "log_probs"} | ({f"{name}_entropy": "entropy"} if entropy else {})
        streams = {name: response_from_nested(output[of], data["response_mask"]).unbind() for name, of in names.items()}
        sizes = [(example.prompt or 1, len(example.input_ids)) for example in examples]
        return with_streams(rows, {name: behind(sizes, values) for name, values in streams.items()})


def behind(sizes: Sequence[tuple[int, int]], values: Sequence[torch.Tensor]) -> list[PerToken]:
    """One number for each token of rows, 0 on the prompt.

    Args:
        sizes: tokens of the prompt, and of the whole row.
        values: of the last tokens of each row, at least those behind the prompt.
    """
    return [
        PerToken([0.0] * prompt + row[len(row) - (tokens - prompt) :].tolist())
        for (prompt, tokens), row in zip(sizes, values, strict=False)  # rows that were added to share them are behind
    ]


def with_streams(rows: Sequence[Row], streams: Mapping[str, Sequence[PerToken]]) -> list[Row]:
    """Rows with more streams, by name those of all rows."""
    return [
        replace(row, streams={**row.streams, **{name: values[place] for name, values in streams.items()}})
        for place, row in enumerate(rows)
    ]
