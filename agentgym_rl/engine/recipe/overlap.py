"""What the panels of a run share with its training tasks and demonstrations."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentgym_rl.data import agenttraj
from agentgym_rl.data.overlap import COMPARED, Games, Overlap
from agentgym_rl.data.panels import warn_of_other_ids
from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.recipe.tasks import host_of, hosted_env, training_pool
from agentgym_rl.envs import Task, TextEnv, item_ids
from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.numbering import Panel
from agentgym_rl.envs.registry import base_name

Overlaps = Mapping[str, Mapping[str, Overlap]]
"""By environment and panel."""


def overlaps(config: Config, panels: Mapping[str, Mapping[str, Panel]], files: Mapping[str, Path]) -> Overlaps:
    """How many tasks of each panel are among those that the run trains on, by id and by content.

    The parts of an environment count together. Contents are not asked of servers, where each takes an episode.

    Args:
        files: demonstrations by environment.

    Raises:
        EnvError: an environment cannot tell what a task shows.
    """
    envs = {name: hosted_env(config, name) for name in config.envs}
    training = {name: training_pool(env, config.envs[name]) for name, env in envs.items()}
    cloned = {name: _demonstrated(env, files[name]) for name, env in envs.items() if name in files}
    for name, env in envs.items():
        if (source := config.envs[name].demonstrations_file) is not None:
            warn_of_other_ids(env, source)
    found: dict[str, dict[str, Overlap]] = {}
    for name, env in envs.items():
        parts = [part for part in envs if base_name(part) == base_name(name)]
        games = Games(env, 0 if host_of(config, name).kind == "remote" else COMPARED)
        learned = [[index for part in parts for index in of.get(part, ())] for of in (training, cloned)]
        found[name] = asyncio.run(_of_env(games, panels[name], *learned))
    return found


def told(found: Overlaps) -> str:
    """The overlaps in one line; empty where there are no panels."""
    counts = {f"{env}/{panel}": overlap for env, own in found.items() for panel, overlap in own.items()}
    shared = [f"{panel}: {overlap}" for panel, overlap in counts.items() if overlap]
    if not counts:
        return ""
    return f"overlap: {'; '.join(shared)}" if shared else "overlap: no panel has a task that is trained on"


async def _of_env(
    games: Games, panels: Mapping[str, Panel], training: Sequence[int], cloned: Sequence[int]
) -> dict[str, Overlap]:
    found = {}
    for label, panel in panels.items():
        indices = [Task.parse(item_id).index for item_id in panel.item_ids]
        shared = [await games.shared(indices, others) for others in (training, cloned)]
        found[label] = Overlap(len(indices), *shared)
    await games.env.close()
    return found


def _demonstrated(env: TextEnv, file: Path) -> list[int]:
    """Indices of the tasks in a file of trajectories, as far as the environment has them."""
    name = env.spec.name
    listed = (item_ids.read(trajectory.item_id) for trajectory in agenttraj.of_env(file, name))
    return [index for _, index in filter(None, listed) if _has(env, Task(name, index))]


def _has(env: TextEnv, task: Task) -> bool:
    try:
        env.difficulty(task)
    except TaskNotFound:
        return False
    return True
