"""verl's engines of training workers, with the rows of :mod:`agentgym_rl.engine.platform.packing`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from tensordict import TensorDict
from torch.distributed.fsdp import FSDPModule
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_id, get_device_name
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead

import agentgym_rl.engine.platform.attention  # noqa: F401 - registers itself with transformers
from agentgym_rl.engine.platform.compiled import compile_layers
from agentgym_rl.engine.platform.norms import fuse_norms
from agentgym_rl.engine.platform.packing import TokenLogProbs, entropy_of, predicting

OF_VERL = ("use_fused_kernels", "distillation_use_topk", "calculate_sum_pi_squared")
"""Settings of a micro-batch under which verl's own engine computes it."""


class PackedRows:
    """How a worker goes through the micro-batches of an update or of a pass without gradients."""

    def _build_module(self) -> torch.nn.Module:
        module: torch.nn.Module = super()._build_module()  # type: ignore[misc]
        if get_device_name() == "cuda":
            fuse_norms(module)
        if self._compiles:
            compile_layers(module)
        return module

    @property
    def _compiles(self) -> bool:
        """``engine.compile`` on a GPU."""
        return bool(self.engine_config.use_torch_compile)  # type: ignore[attr-defined]

    def forward_backward_batch(
        self, data: TensorDict, loss_function: Callable[..., Any] | None, forward_only: bool = False
    ) -> list[TensorDict]:
        """A row that is longer than a micro-batch may be, or rows that stay together, are one; verl refuses them."""
        together = tu.get_non_tensor_data(data, "force_group_size", 1)
        longest = data["input_ids"].offsets().diff().reshape(-1, together).sum(1).max().to(get_device_id())
        torch.distributed.all_reduce(longest, torch.distributed.ReduceOp.MAX, self.get_data_parallel_group())  # type: ignore[attr-defined]
        share = -(-int(longest) // self.ulysses_sequence_parallel_size)  # type: ignore[attr-defined]
        tu.assign_non_tensor(data, max_token_len_per_gpu=max(share, data["max_token_len_per_gpu"]))
        outputs: list[TensorDict] = super().forward_backward_batch(data, loss_function, forward_only)  # type: ignore[misc]
        if forward_only:
            self._put_back()
        return outputs

    def _put_back(self) -> None:
        """FSDP2 may keep the weights gathered after a pass without gradients.

        What is then written into the weights would be lost, and they would be saved as the copies that it computes
        with.
        """
        for module in self.module.modules():  # type: ignore[attr-defined]
            if isinstance(module, FSDPModule):
                module.reshard()

    def forward_step(self, micro_batch: TensorDict, loss_function: Any, forward_only: bool) -> Any:
        """The host reads what it must know of the rows before they go to the device, and need not wait for it."""
        self._ends = ends = micro_batch["input_ids"].offsets().to(torch.int32)
        self._longest, self._tokens = int(ends.diff().max()), int(ends[-1])
        self._places = predicting(micro_batch)
        return super().forward_step(micro_batch, loss_function, forward_only)  # type: ignore[misc]

    def _packs(self, micro_batch: TensorDict) -> bool:
        """True if this class computes the micro-batch; False leaves it to verl's."""
        of_verl = any(tu.get_non_tensor_data(micro_batch, name, False) for name in OF_VERL)
        if of_verl or self.use_ulysses_sp or self.pad_to_length:  # type: ignore[attr-defined]
            return False
        return bool(tu.get_non_tensor_data(micro_batch, "use_remove_padding", True))

    def _rows(self, device: torch.device) -> dict[str, Any]:
        """Where rows begin and end, in the words of transformers."""
        ends = self._ends.to(device, non_blocking=True)
        return {
            "cu_seq_lens_q": ends,
            "cu_seq_lens_k": ends,
            "max_length_q": self._longest,
            "max_length_k": self._longest,
        }

    @contextmanager
    def _gradient_sync_context(self, *, is_last_micro_batch: bool) -> Iterator[None]:
        """A worker alone casts its weights once an update: FSDP2 drops and casts them again with each micro-batch."""
        if torch.distributed.get_world_size() == 1 and isinstance(self.module, FSDPModule):  # type: ignore[attr-defined]
            self.module.set_reshard_after_backward(is_last_micro_batch)  # type: ignore[attr-defined]
        with super()._gradient_sync_context(is_last_micro_batch=is_last_micro_batch):  # type: ignore[misc]
            yield


class PackedLanguageModel(PackedRows, FSDPEngineWithLMHead):  # type: ignore[misc]
    """The policy. Log-probabilities and entropies are 0 where no loss reads them."""

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        inputs, arguments = super().prepare_model_inputs(micro_batch)
        if not self._packs(micro_batch):
            return inputs, arguments
        device = micro_batch["input_ids"].device
        places = self._places.to(device, non_blocking=True)
        return inputs | self._rows(device) | {"logits_to_keep": places}, arguments | {"places": places}

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: TensorDict, logits_processor_func: Any
    ) -> dict[str, torch.Tensor]:
        if "places" not in output_args:
            return super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)  # type: ignore[no-any-return]
        places, offsets = output_args["places"], micro_batch["input_ids"].offsets()
        logits = output.logits.squeeze(0)
        temperature = None if output_args["temperature_is_one"] else output_args["temperature_rmpad"][places]

        def in_rows(values: torch.Tensor) -> torch.Tensor:
            of_all = values.new_zeros(self._tokens).index_put((places,), values)
            return torch.nested.nested_tensor_from_jagged(of_all, offsets)

        labels, faster = output_args["input_ids_rmpad_rolled"][places], self._compiles
        outputs = {"log_probs": in_rows(TokenLogProbs.apply(logits, labels, temperature, faster))}  # type: ignore[no-untyped-call]
        if tu.get_non_tensor_data(micro_batch, "calculate_entropy", False):
            outputs["entropy"] = in_rows(entropy_of(logits, temperature, faster=faster))
        elif tu.get_non_tensor_data(micro_batch, "entropy_is_logged", False):
            outputs["entropy"] = in_rows(entropy_of(logits.detach(), temperature, faster=faster))
        return outputs


class PackedValueModel(PackedRows, FSDPEngineWithValueHead):  # type: ignore[misc]
    """The critic."""

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        inputs, arguments = super().prepare_model_inputs(micro_batch)
        if self._packs(micro_batch):
            inputs |= self._rows(micro_batch["input_ids"].device)
        return inputs, arguments
