"""What scripts import of the package, also inside functions that only a long run calls, is there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(file for folder in ("benchmarks", "examples", "scripts") for file in (ROOT / folder).rglob("*.py"))


def taken(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Module and name of each ``from agentgym_rl... import name``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "agentgym_rl":
            yield from ((node.module or "", alias.name) for alias in node.names)


def path_of(module: str) -> Path | None:
    place = ROOT / module.replace(".", "/")
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


@cache
def has(file: Path) -> frozenset[str]:
    """Names that a module defines or imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {alias.asname or alias.name for alias in names}
    return frozenset(found)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.relative_to(ROOT)))
def test_what_a_script_imports_is_there(script):
    for module, name in taken(ast.parse(script.read_text(encoding="utf-8"))):
        file = path_of(module)
        lazy = file is not None and "def __getattr__" in file.read_text(encoding="utf-8")
        assert file is not None and (lazy or name in has(file) or path_of(f"{module}.{name}")), f"{module}.{name}"
