"""Hugging Face models in this process, with the tokens that training uses."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.data.files import user_cache
from agentgym_rl.envs.core import Message, Task, TextEnv
from agentgym_rl.envs.splits import fingerprint
from agentgym_rl.rollout import growth
from agentgym_rl.rollout.loop import Watch, run_episode
from agentgym_rl.rollout.policies.base import Policy, Usage
from agentgym_rl.rollout.seeds import seed_of
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.texts import Written, write
from agentgym_rl.rollout.tokens import TokenConversation


@dataclass(frozen=True, slots=True)
class Generated:
    """What verl's ``LLMServerClient`` returns for a request, as far as a conversation reads it."""

    token_ids: list[int]
    log_probs: list[float]
    stop_reason: str = "completed"
    extra_fields: dict[str, Any] = field(default_factory=dict)


FILES = {
    "config.json": ("config.json",),
    "tokenizer": ("tokenizer*", "vocab*", "*.model"),
    "weights": ("*.safetensors", "*.bin"),
}
"""What a Hugging Face model folder has, by names of files."""


def check_folder(folder: Path, name: str) -> None:
    """A folder that is named as a model is one.

    Raises:
        FileNotFoundError: it lacks what a model has.
    """
    for what, patterns in FILES.items():
        if not any(file for pattern in patterns for file in folder.glob(pattern)):
            raise FileNotFoundError(f"{name} has no {what}; it is not a Hugging Face model folder")


def weights_of(folder: Path) -> str:
    """Identifies the weights in a folder: its name in the user's cache, where no folder changes, or else a digest of
    names, sizes and times of its files; empty for a hub id."""
    if folder.resolve().is_relative_to(user_cache().resolve()):
        return folder.name
    stats = [(file.name, file.stat()) for file in sorted(folder.glob("*")) if file.is_file()]
    marks = [f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats]
    return fingerprint("\n".join(marks), 12) if marks else ""


class ModelPolicy(Policy):
    """A model whose episodes have exact tokens. Each episode has a seed of its own, from the model's, task and sample.

    Args:
        path: a Hugging Face folder or hub id.
        temperature: 0 is greedy.
        seed: of the sampling.
        prompt_tokens: most tokens before the first response; None is half the model's context.
        response_tokens: most tokens from the first response on; None is what the context leaves.
        template_arguments: of the chat template.
        style: wording of the episodes, which the chat template must render.
        prompts: what it reads before the first observation, by environment.
        name: identifies the policy in results; the path by default.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: its context has no room for that many tokens, or an episode's tokens would not be those of its chat
            template (:class:`~agentgym_rl.rollout.growth.Misfit`).
    """

    usage: Usage
    temperature: float
    seed: int
    prompt_tokens: int
    response_tokens: int

    def __init__(
        self,
        path: str,
        *,
        temperature: float,
        seed: int,
        prompt_tokens: int | None = None,
        response_tokens: int | None = None,
        template_arguments: Mapping[str, Any] | None = None,
        style: str = "agentgym",
        prompts: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        from transformers import AutoConfig, AutoTokenizer

        from agentgym_rl.rollout.builder import continuous_token_builder

        if Path(path).is_dir():
            check_folder(Path(path), path)
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(path)
            config = AutoConfig.from_pretrained(path)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise FileNotFoundError(f"{path} cannot be loaded as a model, from disk or the hub: {reason}") from error
        context = int(config.get_text_config().max_position_embeddings)
        prompt = context // 2 if prompt_tokens is None else prompt_tokens
        response = context - prompt if response_tokens is None else response_tokens
        if min(prompt, response) < 1 or prompt + response > context:
            raise ValueError(
                f"{path} has a context of {context} tokens, too few for prompts of {prompt} and responses of {response}"
            )
        self.prompt_tokens, self.response_tokens, self.context = prompt, response, prompt + response
        self.builder = continuous_token_builder(path, self.tokenizer, template_arguments or {})
        growth.check(self.builder, style)
        self.path, self.name, self.weights, self.usage = path, name or path, weights_of(Path(path)), Usage()
        self.temperature, self.seed, self.prompts = temperature, seed, prompts or {}

    @abstractmethod
    async def generate(self, *, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Generated:
        """Continue ``prompt_ids``.

        Args:
            request_id: of the episode; each of its turns is a request.
            sampling_params: ``max_tokens`` and, optionally, a ``temperature`` other than the model's, and the ``seed``
                of the request. What is drawn with a seed does not depend on other requests.
        """

    async def write(self, messages: Sequence[Message], *, seed: int, temperature: float, max_tokens: int) -> Written:
        sampling = {"seed": seed, "temperature": temperature, "max_tokens": max_tokens}
        return await write(self, self.tokenizer, self.builder, self.context, messages, sampling)

    async def run(
        self, env: TextEnv, task: Task, settings: RolloutSettings, sample: int = 0, watch: Watch | None = None
    ) -> Episode:
        def conversation() -> TokenConversation:
            return TokenConversation(
                server=self,
                tokenizer=self.tokenizer,
                builder=self.builder,
                sampling={"seed": seed_of(self.seed, task, sample)},
                prompt_limit=self.prompt_tokens,
                response_limit=self.response_tokens,
                settings=settings,
            )

        preface = self.preface(env, task)
        episode, _ = await run_episode(lambda: env, task, conversation, settings, watch=watch, preface=preface)
        return episode


class TransformersModel(ModelPolicy):
    """Generates with ``transformers``, one request at a time: enough for a small model."""

    backend = "transformers"

    def __init__(self, path: str, **arguments: Any) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        super().__init__(path, **arguments)
        self.model = AutoModelForCausalLM.from_pretrained(path).eval()
        self.model.to("cuda" if torch.cuda.is_available() else "cpu")
        self._random = torch.Generator(self.model.device).manual_seed(self.seed)
        self._one = threading.Lock()

    async def generate(self, *, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Generated:
        limit, seed = int(sampling_params["max_tokens"]), sampling_params.get("seed")
        temperature = sampling_params.get("temperature", self.temperature)
        return await asyncio.to_thread(self._generate, prompt_ids, limit, seed, temperature)

    def _generate(self, prompt_ids: list[int], limit: int, seed: int | None, temperature: float) -> Generated:
        import torch

        draw = self._random
        if seed is not None:
            draw = torch.Generator(self.model.device).manual_seed(int(seed))
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
                scaled = (logits / temperature if temperature else logits).log_softmax(-1)
                drawn = scaled.exp().multinomial(1, generator=draw) if temperature else scaled.argmax()
                tokens.append(int(drawn))
                log_probs.append(float(scaled[tokens[-1]]))
                fed = torch.tensor([tokens[-1:]], device=self.model.device)
            self.usage.add(len(prompt_ids), len(tokens))
        return Generated(tokens, log_probs)
