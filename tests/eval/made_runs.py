"""Small run folders, as a finished run leaves them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from agentgym_rl.eval.intervals import wilson

Success = float | Mapping[str, float]
"""The same in every panel, or by ``environment/panel``."""


def result(success: float, n: int = 100) -> dict[str, Any]:
    return {"success": success, "ci95": list(wilson(round(success * n), n)), "n": n, "tasks": n,
            "reward": success, "turns": 4.0, "error_rate": 0.0}  # fmt: skip


def write_run(
    folder: Path,
    *,
    algorithm: str = "grpo",
    seed: int = 0,
    stages: Mapping[str, Success],
    panels: Sequence[str] = ("toy/new",),
    digests: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    episodes: int = 1000,
    seconds: float = 120.0,
    metrics: Sequence[Mapping[str, Any]] = (),
    bounds: Mapping[str, float] | None = None,
    spent: Mapping[str, float] | None = None,
) -> Path:
    """Write a run; greedy success is 0.1 above the sampled one.

    Args:
        stages: success of each stage, sampled.
        panels: ``environment/panel`` each.
        digests: digest of a panel where it is not ``d-<panel>``.
        config: keys beside name, seed, algorithm and environments, nested.
        episodes, seconds: what the algorithm's stage spent.
        bounds: success of the random policy and the oracle on every panel.
        spent: tokens and updates of the algorithm's stage.
    """
    folder.mkdir(parents=True)
    rows = []
    for name, success in stages.items():
        panels_of: dict[str, Any] = {}
        for place in panels:
            env, label = place.split("/")
            value = success if isinstance(success, float) else success[place]
            panels_of.setdefault(label, {})[env] = {"sampled": result(value), "greedy": result(min(1.0, value + 0.1))}
        online = name == algorithm and algorithm != "bc"
        cost = {"episodes": episodes if online else 0, **(spent if online and spent else {})}
        rows.append({"name": name, "panels": panels_of, **cost, "steps": 4, "wall_s": seconds})
    digests_of: dict[str, dict[str, str]] = {}
    for place in panels:
        env, label = place.split("/")
        digests_of.setdefault(env, {})[label] = (digests or {}).get(place, f"d-{label}")
    summary = {"name": folder.name, "algorithm": algorithm, "seed": seed, "stages": rows, "panels": digests_of}
    places = [place.split("/") for place in panels]
    summary["reference"] = {
        policy: {label: {env: result(success) for env, panel in places if panel == label} for _, label in places}
        for policy, success in (bounds or {}).items()
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    resolved: dict[str, Any] = {
        "name": folder.name, "seed": seed, "run": {"dir": str(folder)}, "algorithm": {"name": algorithm, "lr": 1e-3},
        "cloning": {"epochs": 2}, "mixture": {"type": "fixed"}, "rollout": {}, "model": {},
        "envs": {env: {"split": "train"} for env in digests_of},
    }  # fmt: skip
    for key, value in (config or {}).items():
        resolved[key] = {**resolved.get(key, {}), **value} if isinstance(value, Mapping) else value
    (folder / "config.yaml").write_text(yaml.safe_dump(resolved))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics))
    return folder


def unfinish(folder: Path, stage: str) -> Path:
    """Make of a finished run one that is in a stage."""
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").unlink()
    names = [stage["name"] for stage in summary["stages"]]
    ended, now = summary["stages"][: names.index(stage)], summary["stages"][names.index(stage)]
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    total = {name: max([0, *(row.get(f"run/{name}", 0) for row in rows)]) for name in ("episodes", "wall_s")}
    state = {"results": ended, "stage_episodes": now["episodes"], "stage_wall_s": now["wall_s"], **total}
    (folder / "state.json").write_text(json.dumps(state))
    config = yaml.safe_load((folder / "config.yaml").read_text())
    for env, of_env in summary["panels"].items():
        config["envs"][env]["panels"] = {label: {"role": "test"} for label in of_env}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder
