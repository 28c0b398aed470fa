"""A Hugging Face model in this process: enough to play with a small model, without an engine."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.core import Task, TextEnv
from agentgym_rl.rollout.loop import play
from agentgym_rl.rollout.policies.base import Player, Usage
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.tokens import TokenConversation


@dataclass(frozen=True, slots=True)
class Generated:
    """What verl's ``LLMServerClient`` returns of a request, as far as a conversation reads it."""

    token_ids: list[int]
    log_probs: list[float]
    stop_reason: str = "completed"
    extra_fields: dict[str, Any] = field(default_factory=dict)


class Model(Protocol):
    """What plays with its own tokens: :class:`LocalModel`, :class:`agentgym_rl.rollout.policies.vllm.VllmModel`."""

    path: str
    seed: int
    context: int
    """Most tokens of an episode."""
    tokenizer: Any
    builder: Any
    usage: Usage

    async def generate(self, *, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Generated:
        """Continue ``prompt_ids`` by at most ``max_tokens`` tokens, drawn by ``seed`` where there is one."""


class LocalModel:
    """Generates with ``transformers``, one request at a time; larger models are better served by ``vllm serve``.

    Args:
        path: a Hugging Face folder or hub id.
        temperature: 0 is greedy.
        seed: of the sampling.

    Raises:
        FileNotFoundError: there is no such model.
    """

    def __init__(self, path: str, *, temperature: float, seed: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        from agentgym_rl.rollout.builder import continuous_token_builder

        try:
            self.tokenizer = AutoTokenizer.from_pretrained(path)
            self.model = AutoModelForCausalLM.from_pretrained(path).eval()
        except (OSError, ValueError) as error:
            raise FileNotFoundError(f"{path} cannot be loaded as a model, from disk or the hub: {error}") from error
        self.model.to("cuda" if torch.cuda.is_available() else "cpu")
        self.builder = continuous_token_builder(path, self.tokenizer)
        self.path, self.temperature, self.seed = path, temperature, seed
        self.context = int(self.model.config.max_position_embeddings)
        self.usage = Usage()
        self._random = torch.Generator(self.model.device).manual_seed(seed)
        self._one = threading.Lock()

    async def generate(self, *, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Generated:
        """Continue ``prompt_ids`` by at most ``sampling_params["max_tokens"]`` tokens.

        What is drawn with ``sampling_params["seed"]``, that of an episode, does not depend on other requests.
        """
        seed = sampling_params.get("seed")
        return await asyncio.to_thread(self._generate, prompt_ids, int(sampling_params["max_tokens"]), seed)

    def _generate(self, prompt_ids: list[int], limit: int, seed: int | None) -> Generated:
        import torch

        draw = self._random
        if seed is not None:
            draw = torch.Generator(self.model.device).manual_seed(turn_seed(seed, len(prompt_ids)))
        ends = self.model.generation_config.eos_token_id
        stop = set(ends if isinstance(ends, list) else [ends])
        with self._one, torch.inference_mode():
            tokens: list[int] = []
            log_probs: list[float] = []
            cache = None
            fed = torch.tensor([prompt_ids], device=self.model.device)
            while len(tokens) < limit and (not tokens or tokens[-1] not in stop):
                output = self.model(fed, past_key_values=cache, use_cache=True)
                cache, logits = output.past_key_values, output.logits[0, -1].float()
                scaled = (logits / self.temperature if self.temperature else logits).log_softmax(-1)
                drawn = scaled.exp().multinomial(1, generator=draw) if self.temperature else scaled.argmax()
                tokens.append(int(drawn))
                log_probs.append(float(scaled[tokens[-1]]))
                fed = torch.tensor([tokens[-1:]], device=self.model.device)
            self.usage.calls += 1
            self.usage.prompt_tokens += len(prompt_ids)
            self.usage.completion_tokens += len(tokens)
        return Generated(tokens, log_probs)


def local(
    model: Model, settings: RolloutSettings, prompt_tokens: int | None = None, response_tokens: int | None = None
) -> Player:
    """Plays with a model in this process; every episode has a seed of its own, from the model's, task and sample.

    Args:
        prompt_tokens: most tokens before the first reply; None is half the model's context.
        response_tokens: most tokens from the first reply on; None is what the context leaves.

    Raises:
        ValueError: the context has no room for that many.
    """
    prompt_limit = model.context // 2 if prompt_tokens is None else prompt_tokens
    response_limit = model.context - prompt_limit if response_tokens is None else response_tokens
    if min(prompt_limit, response_limit) < 1 or prompt_limit + response_limit > model.context:
        raise ValueError(
            f"{model.path} has a context of {model.context} tokens, too few for prompts of {prompt_limit} and "
            f"responses of {response_limit}"
        )

    async def one(world: TextEnv, task: Task, sample: int) -> Episode:
        episode, _ = await play(
            lambda: world,
            task,
            lambda: TokenConversation(
                server=model,
                tokenizer=model.tokenizer,
                builder=model.builder,
                sampling={"seed": _number(f"{model.seed} {task} {sample}")},
                prompt_limit=prompt_limit,
                response_limit=response_limit,
                settings=settings,
            ),
            settings,
        )
        return episode

    return Player(model.path, one, model.usage)


def turn_seed(seed: int, position: int) -> int:
    """Seed of the request that goes on at a position of the episode with a seed."""
    return _number(f"{seed} {position}")


def _number(text: str) -> int:
    """63 bits that are the same everywhere."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
