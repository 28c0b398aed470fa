"""A Hugging Face model on vLLM, without verl's engine: the default for evaluating local models."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Any

from agentgym_rl.envs.hosts.host import PerLoop
from agentgym_rl.rollout.policies.model import Generated, ModelPolicy


def installed() -> bool:
    """Whether vLLM can be used here."""
    return find_spec("vllm") is not None


class VllmModel(ModelPolicy):
    """Generates with vLLM's asynchronous engine, any number of requests at once; answers as verl's servers do.

    The engine starts with the first request, in a process of its own, and stops at :meth:`close`. A request is sampled
    with a seed of its own (``sampling_params["seed"]``), so that its tokens do not depend on the requests beside it.
    Its log-probabilities may in the last digits, as vLLM adds up a batch of another size in another order; batch
    invariant kernels (``VLLM_BATCH_INVARIANT=1``, GPUs only) exclude that, too.

    Args:
        path: a Hugging Face folder or hub id.
        cpu: vLLM's CPU build; float32, as the run's own servers have it.
        sequences: most requests decoded at once.
        memory_fraction: share of a GPU's memory that vLLM takes.
        arguments: those of :class:`ModelPolicy`.

    Raises:
        FileNotFoundError, ValueError: see :class:`ModelPolicy`.
    """

    backend = "vllm"

    def __init__(
        self, path: str, *, cpu: bool = False, sequences: int = 256, memory_fraction: float = 0.9, **arguments: Any
    ) -> None:
        super().__init__(path, **arguments)
        self._arguments = {
            "model": path,
            "seed": self.seed,
            "max_model_len": self.context,
            "max_num_seqs": sequences,
            "gpu_memory_utilization": memory_fraction,
            "logprobs_mode": "processed_logprobs",
            "disable_log_stats": True,
            **(_on_cpu(self.context) if cpu else {}),
        }
        self._engine: Any = None
        self._starting = PerLoop(asyncio.Lock)
        self._requests = 0

    async def generate(self, *, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Generated:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        engine = await self._started()
        seed = sampling_params.get("seed")
        self._requests += 1
        sampling = SamplingParams(
            temperature=sampling_params.get("temperature", self.temperature),
            top_p=1.0,
            top_k=-1,
            max_tokens=max(1, min(int(sampling_params["max_tokens"]), self.context - len(prompt_ids))),
            logprobs=0,
            seed=None if seed is None else int(seed),
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        request = engine.generate({"prompt_token_ids": prompt_ids}, sampling, f"{request_id}-{self._requests}")
        (answer,) = [output async for output in request]
        output = answer.outputs[0]
        if output.finish_reason == "abort":
            return Generated([], [], "aborted")
        tokens = list(output.token_ids)
        self.usage.add(len(prompt_ids), len(tokens))
        log_probs = [float(known[token].logprob) for token, known in zip(tokens, output.logprobs, strict=True)]
        return Generated(tokens, log_probs)

    async def close(self) -> None:
        if self._engine is not None:
            self._engine.shutdown()
            self._engine = None

    async def _started(self) -> Any:
        async with self._starting.get():
            if self._engine is None:
                from vllm.engine.arg_utils import AsyncEngineArgs
                from vllm.v1.engine.async_llm import AsyncLLM

                self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**self._arguments))
            return self._engine


def _on_cpu(context: int) -> dict[str, Any]:
    """Prompts run whole: after a part of one, vLLM resets the request's generator, which a CPU's does not support."""
    return {
        "dtype": "float32",
        "enforce_eager": True,
        "distributed_executor_backend": "uni",
        "kv_cache_memory_bytes": 1 << 30,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(context, 8192),
    }
