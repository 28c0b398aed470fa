"""Whether rewards of steps say which steps help, where the environment knows it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise
from operator import itemgetter

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs import Task, TextEnv


def steps_left_by_turn(env: TextEnv, episode: Episode) -> list[float] | None:
    """Steps left before the first turn and after each; None where the environment cannot tell."""
    commands = [turn.action for turn in episode.turns if turn.action is not None]
    steps_left = env.steps_left(Task.parse(episode.item_id), commands)
    if steps_left is None:
        return None
    return [steps_left[sent] for sent in accumulate((turn.action is not None for turn in episode.turns), initial=0)]


def shortens(steps_left: Sequence[float]) -> list[bool]:
    """Of each turn, whether it shortens the way."""
    return [after < before for before, after in pairwise(steps_left)]


def auc(judged: Sequence[tuple[float, bool]]) -> float | None:
    """Area under the ROC curve of rewards: the chance that a step that helps has more than one that does not.

    Ties count half. 1 tells them apart without fault, 0.5 not at all; None where all steps help, or none.

    Args:
        judged: reward of each step, and whether it helps.
    """
    helpful = sum(helps for _, helps in judged)
    below, area = 0, 0.0
    for _, tied in groupby(sorted(judged), key=itemgetter(0)):
        labels = [helps for _, helps in tied]
        others = labels.count(False)
        area += labels.count(True) * (below + others / 2)
        below += others
    return area / (helpful * below) if helpful and below else None
