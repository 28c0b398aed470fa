"""Corrections of verl's modules, made as each is imported: of what they assume of accelerators, attention and runs.

Every correction names the assumption. ``tests/engine/test_contracts.py`` pins the symbols and signatures relied on, so
that an upgrade of verl fails there and not in a worker.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from types import ModuleType
from typing import Any

import wrapt

RUN = "AGENTGYM_RL_RUN"
"""Environment variable of all processes of a running engine: what tells it from others on the machine."""
WHOLE = "AGENTGYM_RL_WHOLE"
"""Environment variable of them: ``1`` where no response is aborted, so that none is looked at before its end."""


def process_group(module: ModuleType) -> None:
    """``verl.utils.distributed`` opens ``cpu:gloo,<device>:<backend>``; torch rejects ``cpu`` named twice."""
    open_with_ray = module.initialize_global_process_group_ray

    @wraps(open_with_ray)
    def initialize_global_process_group_ray(timeout_second: int | None = None, backend: str | None = None) -> None:
        open_with_ray(timeout_second=timeout_second, backend=backend or "cpu:gloo")

    module.initialize_global_process_group_ray = initialize_global_process_group_ray  # type: ignore[attr-defined]


def fsdp_engines(module: ModuleType) -> None:
    """``verl.workers.engine.fsdp`` has engines for ``cuda`` and ``npu`` only, which need flash attention: without it
    they mask all tokens of a micro-batch from each other, and round log-probabilities to bfloat16."""
    from agentgym_rl.engine.platform.packed_engines import PackedLanguageModel, PackedValueModel

    for model_type, engine in (("language_model", PackedLanguageModel), ("value_model", PackedValueModel)):
        for of_device in (module.EngineRegistry._engines[model_type][name] for name in ("fsdp", "fsdp2")):
            of_device |= {"cpu": engine, "cuda": engine}


def value_head(module: ModuleType) -> None:
    """``verl.utils.model.load_valuehead_model`` demands flash attention and blames trl for any failure."""

    def load_valuehead_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        from transformers import AutoModelForTokenClassification

        return AutoModelForTokenClassification.from_pretrained(
            local_path,
            dtype=torch_dtype,
            config=model_config,
            attn_implementation=model_config._attn_implementation,
            trust_remote_code=trust_remote_code,
        )

    module.load_valuehead_model = load_valuehead_model  # type: ignore[attr-defined]


def weight_receiver(module: ModuleType) -> None:
    """``BucketedWeightReceiver`` counts on ``.to(device)`` copying out of shared memory; on the CPU it is a view.

    A view that outlives the segment raises ``BufferError`` on closing it. Tensors are copied, and a failure of the
    callback is raised after the segment was closed and the sender answered, so that it is neither hidden nor a hang.
    """
    receive = module.BucketedWeightReceiver.receive_weights

    @wraps(receive)
    def receive_weights(self: Any, on_bucket_received: Callable[[list[tuple[str, Any]], bool], None]) -> None:
        failures: list[Exception] = []

        def copying(weights: list[tuple[str, Any]], is_last: bool) -> None:
            if failures:
                return
            try:
                on_bucket_received([(name, tensor.clone()) for name, tensor in weights], is_last)
            except Exception as error:  # noqa: BLE001 - raised when all buckets are received
                failures.append(error.with_traceback(None))

        receive(self, copying)
        with suppress(AttributeError):  # tcmalloc keeps the copies' memory, which no turn needs
            ctypes.CDLL(None).MallocExtension_ReleaseFreeMemory()
        if failures:
            raise failures[0]

    module.BucketedWeightReceiver.receive_weights = receive_weights


def weight_sockets(module: ModuleType) -> None:
    """A worker and its vLLM server meet at a path that is made of Ray's job id, the same in every new cluster.

    Two runs on a machine would take each other's weights, or wait for each other for ever.
    """
    for kind in (module.BucketedWeightSender, module.BucketedWeightReceiver):
        kind.__init__ = _with_own_path(kind.__init__)


def _with_own_path(begin: Callable[..., None]) -> Callable[..., None]:
    @wraps(begin)
    def __init__(self: Any, zmq_handle: str, *args: Any, **kwargs: Any) -> None:
        begin(self, f"{zmq_handle}-{os.environ.get(RUN, '')}", *args, **kwargs)

    return __init__


def whole_responses(module: ModuleType) -> None:
    """``vllm_async_server`` takes a response after each of its tokens, from its first one on and as text, too.

    A rollout reads the ids at the end. Only where responses are aborted, verl waits for the first token of each.
    """
    from vllm.sampling_params import RequestOutputKind

    kind = {"output_kind": RequestOutputKind.FINAL_ONLY} if os.environ.get(WHOLE) == "1" else {}
    module.SamplingParams = partial(module.SamplingParams, detokenize=False, **kind)  # type: ignore[attr-defined]


TRANSFER = "verl.workers.rollout.vllm_rollout.bucketed_weight_transfer"

ON_CPU: dict[str, Callable[[ModuleType], None]] = {"verl.utils.distributed": process_group, TRANSFER: weight_receiver}
EVERYWHERE: dict[str, Callable[[ModuleType], None]] = {
    "verl.workers.engine.fsdp.transformer_impl": fsdp_engines,
    "verl.utils.model": value_head,
    TRANSFER: weight_sockets,
    "verl.workers.rollout.vllm_rollout.vllm_async_server": whole_responses,
}


def install(*, on_cpu: bool) -> None:
    """Correct each module when it is imported: on GPUs, too, by those of :data:`EVERYWHERE`."""
    for corrections in (ON_CPU, EVERYWHERE) if on_cpu else (EVERYWHERE,):
        for name, correction in corrections.items():
            wrapt.register_post_import_hook(correction, name)
