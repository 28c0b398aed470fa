"""verl's engines of a CPU's training workers, with the rows of :mod:`agentgym_rl.engine.platform.packing`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead

from agentgym_rl.engine.platform.packing import TokenLogProbs, entropy_of, predicting


class MicroBatches:
    """How a worker of a CPU goes through the micro-batches of an update."""

    def forward_backward_batch(self, data: TensorDict, *given: Any, **named: Any) -> list[TensorDict]:
        """A row that is longer than a micro-batch may be, or rows that stay together, are one; verl refuses them."""
        together = tu.get_non_tensor_data(data, "force_group_size", 1)
        longest = data["input_ids"].offsets().diff().reshape(-1, together).sum(1).max()
        torch.distributed.all_reduce(longest, torch.distributed.ReduceOp.MAX, self.get_data_parallel_group())  # type: ignore[attr-defined]
        tu.assign_non_tensor(data, max_token_len_per_gpu=max(int(longest), data["max_token_len_per_gpu"]))
        return super().forward_backward_batch(data, *given, **named)  # type: ignore[misc, no-any-return]

    @contextmanager
    def _gradient_sync_context(self, *, is_last_micro_batch: bool) -> Iterator[None]:
        """A worker alone casts its weights once an update: FSDP2 drops and casts them again with each micro-batch."""
        if torch.distributed.get_world_size() == 1:
            self.module.set_reshard_after_backward(is_last_micro_batch)  # type: ignore[attr-defined]
        with super()._gradient_sync_context(is_last_micro_batch=is_last_micro_batch):  # type: ignore[misc]
            yield


class PackedLanguageModel(MicroBatches, FSDPEngineWithLMHead):  # type: ignore[misc]
    """The policy. Log-probabilities and entropies are 0 where no loss reads them."""

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        inputs, arguments = super().prepare_model_inputs(micro_batch)
        if not tu.get_non_tensor_data(micro_batch, "use_remove_padding", True):
            return inputs, arguments  # verl's own settings
        places = predicting(micro_batch)
        rows = {"cu_seq_lens_q": micro_batch["input_ids"].offsets()}
        return inputs | rows | {"logits_to_keep": places}, arguments | {"places": places}

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: TensorDict, logits_processor_func: Any
    ) -> dict[str, torch.Tensor]:
        if "places" not in output_args:
            return super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)  # type: ignore[no-any-return]
        places, offsets = output_args["places"], micro_batch["input_ids"].offsets()
        logits = output.logits.squeeze(0)
        if not output_args["temperature_is_one"]:
            logits = logits / output_args["temperature_rmpad"][places].unsqueeze(1)

        def in_rows(values: torch.Tensor) -> torch.Tensor:
            whole = values.new_zeros(int(offsets[-1])).index_put((places,), values)
            return torch.nested.nested_tensor_from_jagged(whole, offsets)

        labels = output_args["input_ids_rmpad_rolled"][places]
        found = {"log_probs": in_rows(TokenLogProbs.apply(logits, labels))}  # type: ignore[no-untyped-call]
        if tu.get_non_tensor_data(micro_batch, "calculate_entropy", False):
            found["entropy"] = in_rows(entropy_of(logits))
        elif tu.get_non_tensor_data(micro_batch, "entropy_is_logged", False):
            found["entropy"] = in_rows(entropy_of(logits.detach()))
        return found


class PackedValueModel(MicroBatches, FSDPEngineWithValueHead):  # type: ignore[misc]
    """The critic."""

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        inputs, arguments = super().prepare_model_inputs(micro_batch)
        if tu.get_non_tensor_data(micro_batch, "use_remove_padding", True):
            inputs["cu_seq_lens_q"] = micro_batch["input_ids"].offsets()
        return inputs, arguments
