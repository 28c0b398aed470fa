"""Panels rolled out with the current weights."""

from __future__ import annotations

import time
from statistics import fmean
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.engine.run.run import EngineRun
from agentgym_rl.engine.verl.dataset import row
from agentgym_rl.envs import Task
from agentgym_rl.eval.score import DECODINGS, score

VALIDATION = "validation"


def labels(run: EngineRun, role: str | None) -> list[tuple[str, str]]:
    """Environment and label of the panels with a role; all of them for None."""
    return [
        (env, label)
        for env, world in run.config.worlds.items()
        for label, panel in world.panels.items()
        if role is None or panel.role == role
    ]


def evaluate(run: EngineRun, name: str, role: str | None = None) -> dict[str, dict[str, Any]]:
    """Roll out the panels, sampled and (``run.greedy``) greedily; log the scores and store the episodes.

    Args:
        name: of the stage, for the episodes' file and the bar.
        role: only panels of this role.

    Returns:
        ``Score.to_dict()`` by label, environment and decoding.
    """
    chosen = labels(run, role)
    decodings = DECODINGS if run.config.run.greedy else ("sampled",)
    rows: list[dict[str, Any]] = []
    for env, label in chosen:
        samples = {"sampled": run.config.worlds[env].panels[label].samples, "greedy": 1}
        for decoding in decodings:
            tags = {"panel": label, "decoding": decoding}
            for item_id in run.panels[env][label].item_ids:
                for _ in range(samples[decoding]):
                    rows.append(_row(run, len(rows), Task.parse(item_id), decoding=decoding, tags=tags))
    if not rows:
        return {}
    begun = time.monotonic()
    found = run.trainer.rollouts(
        rows, validate=True, progress=lambda done, total: run.bar(f"{name}: evaluate", done, total)
    )
    episodes = [rollout.episode for rollout in found]
    state = run.state
    state.wall_s += time.monotonic() - begun
    run.folder.write_episodes(f"val_{name}_step{state.global_step:06d}", episodes)
    result: dict[str, dict[str, Any]] = {}
    metrics = state.spent()
    for env, label in chosen:
        for decoding in decodings:
            scored = score([one for one in episodes if _belongs(one, env, label, decoding)])
            result.setdefault(label, {}).setdefault(env, {})[decoding] = scored.to_dict()
            prefix = f"val/{label}/{env}/" + ("" if decoding == "sampled" else "greedy_")
            metrics |= {
                f"{prefix}success": scored.success,
                f"{prefix}reward": scored.reward,
                f"{prefix}turns": scored.turns,
                f"{prefix}error_rate": scored.error_rate,
            }
    run.log.log(state.global_step, {f"stage/{name}": state.unit, **metrics})
    run.log.log_episodes(state.global_step, episodes)
    return result


def _belongs(episode: Episode, env: str, label: str, decoding: str) -> bool:
    return (episode.env, episode.tags["panel"], episode.tags["decoding"]) == (env, label, decoding)


def validation_success(run: EngineRun, result: dict[str, dict[str, Any]]) -> float:
    """Mean sampled success over the validation panels of a result."""
    return fmean(float(result[label][env]["sampled"]["success"]) for env, label in labels(run, VALIDATION))


def _row(run: EngineRun, index: int, task: Task, **fields: Any) -> dict[str, Any]:
    """One evaluation episode."""
    return row(index, task, horizon=run.config.worlds[task.env].max_turns, seed=run.seed, __rollout_n__=1, **fields)
