"""What makes two runs' tiny models, or cloned weights, the same."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.run.folder import versions

MODEL = {"split", "difficulty", "pool", "pool_seed", "options"}
"""Keys of a world that say from which text a tokenizer is trained."""
NOT_CLONED = {"share", "curriculum", "host"}
"""Keys of a world that cloning and its evaluation do not see."""


def digest(config: Config, *, cloned: bool) -> str:
    """First 12 hex digits over everything that a tiny model, or weights cloned from it, depend on."""
    worlds = {}
    for name, world in config.worlds.items():
        facts = asdict(world)
        worlds[name] = {key: facts[key] for key in facts if (key not in NOT_CLONED if cloned else key in MODEL)}
    parts: dict[str, object] = {
        "seed": config.seed,
        "model": asdict(config.model),
        "style": config.rollout.style,
        "action_format": config.rollout.action_format,
    }
    if cloned:
        files = [world.expert_file for world in config.worlds.values() if world.expert_file is not None]
        parts |= {
            "bc": asdict(config.bc),
            "rollout": asdict(config.rollout),
            "files": {file: hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files},
            "workers": [config.engine.device, config.engine.workers * config.engine.nodes],
            "verl": config.verl,
            "versions": {key: value for key, value in versions().items() if key != "git"},
        }
    text = json.dumps([parts, worlds], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
