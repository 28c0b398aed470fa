"""Imports run one way, and environments and algorithms import nothing heavy."""

import ast
import tomllib
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "agentgym_rl"

BELOW = {
    "envs": set(),
    "data": {"envs"},
    "compat": {"envs"},
    "rollout": {"envs", "data"},
    "algorithms": {"envs", "data", "rollout"},
    "eval": {"envs", "data", "rollout"},
    "engine": {"envs", "data", "rollout", "algorithms", "eval"},
    "api": {"envs", "data", "rollout", "algorithms", "engine", "eval"},
    "cli": {"envs", "data", "rollout", "algorithms", "engine", "eval", "api"},
    "__main__": {"cli"},
}
LIGHT = ("envs", "data", "eval", "compat", "algorithms")
HEAVY = {"torch", "verl", "vllm", "ray", "transformers", "numpy", "minigrid", "gymnasium"}
ALLOWED = {
    "agentgym_rl.envs.babyai": {"numpy", "minigrid", "gymnasium"},
    "agentgym_rl.compat.gymnasium": {"gymnasium"},
    "agentgym_rl.envs.hosts.ray": {"ray"},
    "agentgym_rl.algorithms.losses": {"torch"},
}


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(name: str, path: Path) -> set[str]:
    """Modules a file imports anywhere in it; of this package, the file that is really meant."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            for alias in node.names:
                member = f"{module}.{alias.name}"
                found.add(member if member in FILES else module)
    return found


@cache
def all_imports() -> dict[str, set[str]]:
    return {name: imports(name, path) for name, path in FILES.items()}


def layer(name: str) -> str:
    return [*name.split("."), ""][1]


def upward(name: str, imported: set[str]) -> list[str]:
    """Those of a module's imports that its layer may not make."""
    own = layer(name)
    ours = {other for other in imported if other.split(".")[0] == "agentgym_rl" and layer(other)}
    return sorted(other for other in ours if layer(other) not in BELOW[own] | {own})


def heavy(name: str, imported: set[str]) -> list[str]:
    allowed = {package for prefix, some in ALLOWED.items() if f"{name}.".startswith(f"{prefix}.") for package in some}
    return sorted(({other.split(".")[0] for other in imported} & HEAVY) - allowed)


def test_every_module_belongs_to_a_layer():
    assert {layer(name) for name in FILES} - {""} <= set(BELOW), "give the new folder its place in BELOW"


def test_imports_run_one_way():
    upwards = {name: upward(name, imported) for name, imported in all_imports().items() if layer(name)}
    assert {name: above for name, above in upwards.items() if above} == {}


def test_light_layers_import_nothing_heavy():
    weights = {name: heavy(name, imported) for name, imported in all_imports().items() if layer(name) in LIGHT}
    assert {name: packages for name, packages in weights.items() if packages} == {}


def test_no_import_cycles():
    graph = {name: {other for other in imported if other in FILES} - {name} for name, imported in all_imports().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def folder(name: str) -> str:
    """The folder of a module: its package."""
    return name if FILES[name].name == "__init__.py" else name.rpartition(".")[0]


def folders_between(common: str) -> dict[str, set[str]]:
    """The folders right below one, each with those that its modules import."""
    inside = {name: name.removeprefix(f"{common}.").split(".")[0] for name in FILES if folder(name) != common}
    inside = {name: top for name, top in inside.items() if name.startswith(f"{common}.")}
    graph: dict[str, set[str]] = {top: set() for top in inside.values()}
    for name, top in inside.items():
        graph[top] |= {inside[other] for other in all_imports()[name] if other in inside} - {top}
    return graph


@pytest.mark.parametrize("common", ["agentgym_rl", "agentgym_rl.envs", "agentgym_rl.envs.protocol"])
def test_no_circle_between_folders(common):
    try:
        TopologicalSorter(folders_between(common)).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_the_engine_has_four_parts_with_few_edges():
    part = {name: name.split(".")[2] for name in FILES if name.startswith("agentgym_rl.engine.")}
    edges = {
        (part[name], part[other])
        for name in part
        for other in all_imports()[name]
        if other in part and part[name] != part[other]
    }
    assert edges <= {("run", "recipe"), ("run", "verl"), ("verl", "recipe")}


def test_few_modules_read_the_configuration():
    readers = [name for name, imported in all_imports().items() if "agentgym_rl.engine.recipe.config" in imported]
    assert len(readers) <= 14, readers


def words(path: Path) -> set[str]:
    """All names and strings of a file, docstrings aside."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in prose}
    names = {getattr(node, field, None) for node in nodes for field in ("id", "attr", "name", "arg", "asname")}
    return {value for value in strings | names if isinstance(value, str)}


def test_the_engine_names_no_algorithm():
    points = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]["entry-points"]
    algorithms = points["agentgym_rl.algorithms"]
    classes = {point.partition(":")[2] for point in algorithms.values()}
    engine = {name: path for name, path in FILES.items() if layer(name) == "engine"}
    named = {name: words(path) & (algorithms.keys() | classes) for name, path in engine.items()}
    assert {name: which for name, which in named.items() if which} == {}


def test_the_rules_themselves():
    assert upward("agentgym_rl.envs.x", {"agentgym_rl.data.y", "agentgym_rl.envs.z", "json"}) == ["agentgym_rl.data.y"]
    assert upward("agentgym_rl.eval", {"agentgym_rl.engine.y", "agentgym_rl.rollout"}) == ["agentgym_rl.engine.y"]
    assert heavy("agentgym_rl.data.x", {"torch.nn", "json"}) == ["torch"]
    assert heavy("agentgym_rl.envs.babyai.levels", {"numpy", "torch"}) == ["torch"]
    assert heavy("agentgym_rl.envs.babyai", {"minigrid.core"}) == []
    assert heavy("agentgym_rl.envs.babyairplane", {"numpy"}) == ["numpy"]
    assert "agentgym_rl.envs.core" in all_imports()["agentgym_rl.envs.registry"]
