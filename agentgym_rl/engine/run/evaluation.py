"""Panels played with the current weights."""

from __future__ import annotations

import time
from statistics import fmean
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.engine.run.work import Work
from agentgym_rl.envs import Task
from agentgym_rl.eval.score import DECODINGS, score

VALIDATION = "validation"


def labels(work: Work, role: str | None) -> list[tuple[str, str]]:
    """World and label of the panels with a role; all of them for None."""
    return [
        (env, label)
        for env, world in work.config.worlds.items()
        for label, panel in world.panels.items()
        if role is None or panel.role == role
    ]


def evaluate(work: Work, name: str, role: str | None = None) -> dict[str, dict[str, Any]]:
    """Play the panels, sampled and (``run.greedy``) greedily; log and store what came of them.

    Args:
        name: of the stage, for the episodes' file and the bar.
        role: only panels of this role.

    Returns:
        ``Score.to_dict()`` by label, world and decoding.
    """
    chosen = labels(work, role)
    decodings = DECODINGS if work.config.run.greedy else ("sampled",)
    rows: list[dict[str, Any]] = []
    for env, label in chosen:
        samples = {"sampled": work.config.worlds[env].panels[label].samples, "greedy": 1}
        for decoding in decodings:
            tags = {"panel": label, "decoding": decoding}
            for item_id in work.panels[env][label].item_ids:
                for _ in range(samples[decoding]):
                    rows.append(work.panel_row(len(rows), Task.parse(item_id), decoding=decoding, tags=tags))
    if not rows:
        return {}
    begun = time.monotonic()
    played = work.trainer.play(
        rows, validate=True, progress=lambda done, total: work.bar(f"{name}: evaluate", done, total)
    )
    episodes = [episode for episode, _ in played]
    state = work.state
    state.wall_s += time.monotonic() - begun
    work.folder.write_episodes(f"val_{name}_step{state.global_step:06d}", episodes)
    result: dict[str, dict[str, Any]] = {}
    metrics = state.spent()
    for env, label in chosen:
        for decoding in decodings:
            found = score([one for one in episodes if _played_as(one, env, label, decoding)])
            result.setdefault(label, {}).setdefault(env, {})[decoding] = found.to_dict()
            prefix = f"val/{label}/{env}/" + ("" if decoding == "sampled" else "greedy_")
            metrics |= {
                f"{prefix}success": found.success,
                f"{prefix}reward": found.reward,
                f"{prefix}turns": found.turns,
                f"{prefix}error_rate": found.error_rate,
            }
    work.log.log(state.global_step, {f"stage/{name}": state.unit, **metrics})
    work.log.log_episodes(state.global_step, episodes)
    return result


def _played_as(episode: Episode, env: str, label: str, decoding: str) -> bool:
    return (episode.env, episode.tags["panel"], episode.tags["decoding"]) == (env, label, decoding)


def validation_success(work: Work, result: dict[str, dict[str, Any]]) -> float:
    """Mean sampled success over the validation panels of a result."""
    return fmean(float(result[label][env]["sampled"]["success"]) for env, label in labels(work, VALIDATION))
