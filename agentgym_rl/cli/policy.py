"""Options of the commands that take a policy, and the bar that shows how its model is fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym_rl.api.policies import rules_of
from agentgym_rl.engine.run.local_model import folder_of
from agentgym_rl.envs.progress import progress_bar
from agentgym_rl.rollout import pretrained

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentgym_rl.eval.evaluation.rules import Rules
    from agentgym_rl.rollout.policies import Policy

PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy",
        help="oracle, random, a Hugging Face folder or hub id, smollm2_135m, a run (runs/NAME[:STAGE]), or "
        "openai:<model>@<url>; the key of an API is read from OPENAI_API_KEY.",
    ),
]
Backend = Annotated[str, typer.Option(help="Of a local model: auto, vllm or transformers.")]


def fetched(name: str) -> str:
    """The folder of a pretrained model by name; a bar shows how it is fetched."""
    subject = ""
    with progress_bar(name, lambda: f": {subject}") as bar:

        def show(doing: str, done: int, total: int) -> None:
            nonlocal subject
            subject = doing
            bar(done, total)

        return pretrained.local(name, show)


def rules_for(policy: str, **changes: Any) -> Rules:
    """The rules of a policy's episodes: those its weights were trained by, else the defaults, with changes.

    Raises:
        FileNotFoundError, ValueError, MissingExtra: see :func:`folder_of`.
    """
    from agentgym_rl.eval.evaluation.rules import Rules

    return (rules_of(folder_of(policy, fetched)) or Rules()).but(**changes)


def spent(models: Iterable[Policy]) -> Iterator[str]:
    """A line on each model that counts its calls."""
    for model in models:
        if (usage := model.usage) is not None:
            tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
            yield f"{model.name}: {usage.calls} calls, {tokens}"
