"""Questions and their queries: one function a kind of question, one module a difficulty."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentgym_rl.envs.sqlgym.templates import aggregate, join, nested, simple
from agentgym_rl.envs.sqlgym.templates.draft import Draft, Draw

TEMPLATES: Mapping[str, tuple[Callable[[Draw], Draft], ...]] = {
    "simple": simple.TEMPLATES,
    "join": join.TEMPLATES,
    "aggregate": aggregate.TEMPLATES,
    "nested": nested.TEMPLATES,
}
"""Kinds of questions by difficulty."""

__all__ = ["TEMPLATES", "Draft", "Draw"]
