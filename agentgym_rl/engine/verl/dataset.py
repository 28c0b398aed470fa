"""Tasks as rows for verl: its ``data.custom_cls``, also under verl's own entry point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils.data import Dataset

from agentgym_rl.data.panels import sample
from agentgym_rl.envs import Task, make
from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.hosts import HostSettings, open_host


def row(index: int, task: Task, **fields: Any) -> dict[str, Any]:
    """One row for verl's agent loop. The environment gives the prompt when the episode starts."""
    return {
        "index": index,
        "item_id": str(task),
        "data_source": task.env,
        "raw_prompt": [{"role": "user", "content": str(task)}],
        "reward_model": {"ground_truth": None},
        **fields,
    }


class TaskDataset(Dataset):  # type: ignore[type-arg]
    """Tasks of splits, named like ``textcraft:train`` or ``babyai:test:64`` (a seeded draw of 64), or single item ids.

    A file of item ids may stand for a split. ``data.agentgym`` holds the rules of an episode
    (:class:`agentgym_rl.rollout.settings.RolloutSettings`), ``data.agentgym_envs`` the environments' options and hosts.

    Raises:
        ValueError: the split is unknown or has fewer tasks than asked for.
        EnvError: see :mod:`agentgym_rl.envs`; also where a server does not answer.
    """

    def __init__(
        self,
        data_files: str | Sequence[str],
        tokenizer: Any = None,
        config: Any = None,
        processor: Any = None,
        max_samples: int = -1,
    ) -> None:
        names = [data_files] if isinstance(data_files, str) else list(data_files)
        envs = (config or {}).get("agentgym_envs") or {}
        tasks = [task for name in names for task in self._tasks(name, envs)]
        self.tasks = tasks if max_samples < 0 else tasks[:max_samples]

    @staticmethod
    def _tasks(name: str, envs: Mapping[str, Any]) -> list[Task]:
        env, named, split = name.partition(":")
        if not named:
            task = Task.parse(name)
            if not any(task.index in split for split in make(task.env).spec.splits.values()):
                raise TaskNotFound(f"{name} is in none of the splits of {task.env}")
            return [task]
        options = dict(envs.get(env) or {})
        options.pop("harness", None)  # the agent loop's
        session = open_host(HostSettings.of(options.pop("host", {}))).facts(env, options)
        rest, _, number = split.rpartition(":")
        return sample(session, rest, n=int(number)) if rest and number.isdigit() else sample(session, split)

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return row(index, self.tasks[index])
