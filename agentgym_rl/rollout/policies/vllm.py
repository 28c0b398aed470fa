"""A Hugging Face model on vLLM, without verl's engine: what evaluation plays local models with."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Any

from agentgym_rl.rollout.policies.base import Usage
from agentgym_rl.rollout.policies.model import Generated, turn_seed


def installed() -> bool:
    """Whether vLLM can be used here."""
    return find_spec("vllm") is not None


class VllmModel:
    """Generates with vLLM's asynchronous engine, any number of requests at once; answers as verl's servers do.

    The engine starts with the first request, in a process of its own, and stops at :meth:`close`. A request is sampled
    with a seed of its own (``sampling_params["seed"]``), so that what it draws does not depend on the requests beside
    it. Its log-probabilities may in the last digits, as vLLM adds up a batch of another size in another order; batch
    invariant kernels (``VLLM_BATCH_INVARIANT=1``, GPUs only) exclude that, too.

    Args:
        path: a Hugging Face folder or hub id.
        temperature: 0 is greedy.
        seed: of the sampling.
        context: most tokens of an episode; None is the model's own limit.
        cpu: vLLM's CPU build; float32, as the run's own servers have it.
        sequences: most requests decoded at once.
        memory_fraction: share of a GPU's memory that vLLM takes.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: it has no room for ``context`` tokens.
    """

    def __init__(
        self,
        path: str,
        *,
        temperature: float,
        seed: int,
        context: int | None = None,
        cpu: bool = False,
        sequences: int = 256,
        memory_fraction: float = 0.9,
    ) -> None:
        from transformers import AutoConfig, AutoTokenizer

        from agentgym_rl.rollout.builder import continuous_token_builder

        try:
            self.tokenizer = AutoTokenizer.from_pretrained(path)
            config = AutoConfig.from_pretrained(path)
        except (OSError, ValueError) as error:
            raise FileNotFoundError(f"{path} cannot be loaded as a model, from disk or the hub: {error}") from error
        most = int(config.get_text_config().max_position_embeddings)
        if context is not None and context > most:
            raise ValueError(f"{path} has a context of {most} tokens, and the rules ask for {context}")
        self.builder = continuous_token_builder(path, self.tokenizer)
        self.path, self.temperature, self.seed = path, temperature, seed
        self.context = most if context is None else context
        self.usage = Usage()
        self._arguments = {
            "model": path,
            "seed": seed,
            "max_model_len": self.context,
            "max_num_seqs": sequences,
            "gpu_memory_utilization": memory_fraction,
            "logprobs_mode": "processed_logprobs",
            "disable_log_stats": True,
            **(_on_cpu(self.context) if cpu else {}),
        }
        self._engine: Any = None
        self._starting = asyncio.Lock()
        self._requests = 0

    async def generate(self, *, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Generated:
        """Continue ``prompt_ids`` by at most ``sampling_params["max_tokens"]`` tokens.

        Args:
            request_id: of the episode; its turns are requests of their own.
            sampling_params: ``max_tokens``, and ``seed`` of the episode.
        """
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        engine = await self._started()
        seed = sampling_params.get("seed")
        self._requests += 1
        how = SamplingParams(
            temperature=self.temperature,
            top_p=1.0,
            top_k=-1,
            max_tokens=max(1, min(int(sampling_params["max_tokens"]), self.context - len(prompt_ids))),
            logprobs=0,
            seed=None if seed is None else turn_seed(int(seed), len(prompt_ids)),
        )
        how.output_kind = RequestOutputKind.FINAL_ONLY
        request = engine.generate({"prompt_token_ids": prompt_ids}, how, f"{request_id}-{self._requests}")
        (answer,) = [one async for one in request]
        said = answer.outputs[0]
        if said.finish_reason == "abort":
            return Generated([], [], "aborted")
        tokens = list(said.token_ids)
        self.usage.calls += 1
        self.usage.prompt_tokens += len(prompt_ids)
        self.usage.completion_tokens += len(tokens)
        log_probs = [float(known[token].logprob) for token, known in zip(tokens, said.logprobs, strict=True)]
        return Generated(tokens, log_probs)

    async def close(self) -> None:
        """Stop the engine; it starts again when asked again."""
        if self._engine is not None:
            self._engine.shutdown()
            self._engine = None

    async def _started(self) -> Any:
        async with self._starting:
            if self._engine is None:
                from vllm.engine.arg_utils import AsyncEngineArgs
                from vllm.v1.engine.async_llm import AsyncLLM

                self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**self._arguments))
            return self._engine


def _on_cpu(context: int) -> dict[str, Any]:
    """Prompts are taken in whole: after a part of one vLLM turns the request's generator back, which a CPU's cannot."""
    return {
        "dtype": "float32",
        "enforce_eager": True,
        "distributed_executor_backend": "uni",
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(context, 8192),
    }
