"""The engine's side of policies: a run's checkpoint, and the backend of a local model."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar

from agentgym_rl.engine.run.local_model import arguments, folder_of, transformers_model
from agentgym_rl.envs.extras import missing, needs
from agentgym_rl.rollout.conversation import Respond
from agentgym_rl.rollout.policies import ModelOptions, Policy, is_place
from agentgym_rl.rollout.policies import open_policy as open_named
from agentgym_rl.rollout.policies.scripted import Function

if TYPE_CHECKING:
    from agentgym_rl.eval.evaluation.rules import Rules

T = TypeVar("T")

BACKENDS = ("auto", "vllm", "transformers")
LOCAL = ("backend", "prompt_tokens", "response_tokens")
"""Keys that a local model reads."""
PAID = ("price", "max_cost", "per_minute", "without")
"""Keys that a model behind an API reads."""


def rules_of(folder: str | None) -> Rules | None:
    """The rules that a local model was trained by, where its folder has them."""
    from agentgym_rl.eval.evaluation.rules import Rules

    return None if folder is None else Rules.beside(Path(folder))


def open_policy(name: str, rules: Rules, *, backend: str = "auto", sequences: int = 256, **options: Any) -> Policy:
    """The policy that a command names, see :mod:`agentgym_rl.rollout.policies`.

    Args:
        rules: give the limits of tokens of a local model.
        backend: of a local model: vLLM, or transformers where vLLM is not installed.
        sequences: most requests that vLLM decodes at once.
        options: those of :class:`ModelOptions` beside.

    Raises:
        ValueError: there is no such policy or backend, a backend has no effect, or the model's context is too small.
        FileNotFoundError: there is no such model.
        MissingExtra: verl, whose tokens a local model needs, or the backend is not installed.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend {backend!r} is unknown; choose {', '.join(BACKENDS)}")
    if backend != "auto" and not is_place(name):
        raise ValueError(f"backend is for a local model, not for policy {name!r}; leave it out")
    all_options = ModelOptions(
        prompt_tokens=rules.prompt_tokens, response_tokens=rules.response_tokens,
        template_arguments=rules.template_arguments, style=rules.settings.style.value,
        prompts=rules.prompts, **options,
    )  # fmt: skip
    return open_named(name, all_options, lambda name, options: local_model(name, options, backend, sequences))


def check_samples(policy: str, samples: int, temperature: float) -> None:
    """Raises ValueError: several samples are asked of a greedy model, which are all the same."""
    if samples > 1 and temperature == 0 and policy not in ("oracle", "random"):
        raise ValueError(f"{samples} samples of a greedy model are the same episode; give temperature 1, say")


def function(respond: Respond) -> Function:
    """A policy of a function, which is told apart from another of its name by its source, or else by its bytecode.

    Raises:
        ValueError: it is none, or one that is to be awaited.
    """
    if not callable(respond) or inspect.iscoroutinefunction(respond):
        raise ValueError(f"policy={respond!r}: give a name, or a function, not an async one, that returns the response")
    policy = Function(respond)
    policy.weights = sha256(repr(_text_of(respond)).encode()).hexdigest()[:12]
    return policy


def _text_of(respond: Any) -> Any:
    """The source of a function or of an object's class, with the texts and numbers that a function takes from around
    it, from its defaults or from a ``partial``, such as a prompt; None of what is not written in Python."""
    if isinstance(respond, partial):
        return _text_of(respond.func), _plain([*respond.args, *chain(*sorted(respond.keywords.items()))])
    is_function = isinstance(respond, (FunctionType, MethodType))
    called = respond if is_function else type(respond).__call__
    if not isinstance(called, (FunctionType, MethodType)):
        return None
    try:
        source: Any = inspect.getsource(respond if is_function else type(respond))
    except (OSError, TypeError):
        source = _instructions(called.__code__)
    around = [cell.cell_contents for cell in called.__closure__ or ()]
    defaults = [parameter.default for parameter in inspect.signature(called).parameters.values()]
    return source, _plain([*around, *defaults])


def _plain(values: list[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, (str, int, float))]


def _instructions(code: CodeType) -> list[Any]:
    constants = [_instructions(value) if isinstance(value, CodeType) else value for value in code.co_consts]
    return [code.co_code, code.co_names, constants]


async def closing(policy: Policy, work: Awaitable[T]) -> T:
    """The result of ``work``, after which the policy is closed."""
    try:
        return await work
    finally:
        await policy.close()


def local_model(name: str, options: ModelOptions, backend: str = "auto", sequences: int = 256) -> Policy:
    """A Hugging Face model or a run's checkpoint in this process; see :func:`open_policy`."""
    with needs(name, "cpu"):
        from agentgym_rl.engine.platform import vllm_cpu
        from agentgym_rl.engine.platform.detect import on_cpu
        from agentgym_rl.engine.verl.environment import environment
        from agentgym_rl.rollout.policies import vllm
    if backend == "vllm" and not vllm.installed():
        raise missing("backend=vllm", "vllm", "cpu")
    if backend == "transformers" or not vllm.installed():
        return transformers_model(name, options)
    folder = folder_of(name)
    assert folder is not None
    os.environ.update(environment("cpu" if on_cpu() else "cuda"))
    vllm_cpu.register()
    return vllm.VllmModel(folder, cpu=on_cpu(), sequences=sequences, **arguments(name, options))
