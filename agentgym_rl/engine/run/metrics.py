"""Metrics of a step's training episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from agentgym_rl.algorithms.base import Metrics
from agentgym_rl.algorithms.groups import uneven
from agentgym_rl.algorithms.mixture.variance import rewards_by_task
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.engine.run.evaluation import figures
from agentgym_rl.eval.score import errors, score


def episode_metrics(episodes: Sequence[Episode], whole: Callable[[str], str] = str) -> Metrics:
    """Training episodes by environment, and how model and environment shared their time.

    Args:
        whole: the environment that a part of one is counted as.
    """
    metrics: Metrics = {}
    for env in sorted({whole(episode.env) for episode in episodes}):
        of_env = [episode for episode in episodes if whole(episode.env) == env]
        metrics |= figures(score(of_env, ""), f"env/{env}/") | cut_share(of_env, f"env/{env}/")
        metrics |= lost(of_env, f"env/{env}/")
        metrics |= gradient_groups(of_env, f"env/{env}/")
        metrics[f"env/{env}/max_turns"] = max(episode.max_turns for episode in of_env)
    metrics |= gradient_groups(episodes, "rollout/")
    turns = [turn for episode in episodes for turn in episode.turns]
    model_s, env_s = sum(turn.model_s for turn in turns), sum(turn.env_s for turn in turns)
    if faults := sum(episode.parser_faults for episode in episodes):
        metrics["rollout/parser_faults"] = faults
    metrics |= {f"errors/{kind}": number for kind, number in errors(episodes).items()}
    metrics |= cut_share(episodes, "curriculum/")
    metrics["curriculum/max_turns"] = max(episode.max_turns for episode in episodes)
    metrics["rollout/slowest_s"] = max(episode.seconds for episode in episodes)
    if model_s + env_s > 0:
        metrics["rollout/model_wait_frac"] = model_s / (model_s + env_s)
        metrics["rollout/env_wait_frac"] = env_s / (model_s + env_s)
    return metrics


def cut_share(episodes: Sequence[Episode], prefix: str) -> Metrics:
    """Share of the episodes that count which the turn limit ended; no metric where none counts."""
    cut = [episode.ending is Ending.TURN_LIMIT for episode in episodes if episode.ending.counts]
    return {f"{prefix}cut_share": fmean(cut)} if cut else {}


def lost(episodes: Sequence[Episode], prefix: str) -> Metrics:
    """Shares of episodes that the context limit ended, and of turns with an invalid action, where an episode counts."""
    counted = [episode for episode in episodes if episode.ending.counts]
    if not counted:
        return {}
    metrics = {f"{prefix}context_share": fmean(episode.ending is Ending.CONTEXT_LIMIT for episode in counted)}
    if turns := [turn for episode in counted for turn in episode.turns]:
        metrics[f"{prefix}invalid_turns"] = fmean(turn.invalid for turn in turns)
    return metrics


def gradient_groups(episodes: Sequence[Episode], prefix: str) -> Metrics:
    """Share of groups whose rewards differ, so that group-relative advantages are not all 0.

    A group is a task with two or more episodes that count; there is no metric where there is none.
    """
    groups = [rewards for rewards in rewards_by_task(episodes) if len(rewards) > 1]
    return {f"{prefix}gradient_groups": fmean(map(uneven, groups))} if groups else {}
