"""Whether two installations of an environment have the same tasks."""

from dataclasses import dataclass

from agentgym_rl.envs.core import Task, TextEnv
from agentgym_rl.envs.registry import base_name
from agentgym_rl.envs.splits import fingerprint


@dataclass(frozen=True, slots=True)
class Panel:
    """Tasks of one environment. Equal digests mean the same ids with the same goals and difficulties."""

    name: str
    env: str
    item_ids: tuple[str, ...]
    digest: str


def facts(env: TextEnv, task: Task, item_id: str | None = None) -> str:
    """What a digest holds of a task: its id, goal and difficulty, and its revision if it is not the first."""
    revision = env.revision(task)
    parts = [item_id or str(task), env.goal(task), env.difficulty(task), *([] if revision == 1 else [str(revision)])]
    return "\t".join(parts)


def digests(env: TextEnv) -> dict[str, str]:
    """A digest of each split: of its size, and of its first and last task, if it has any, with goal and difficulty.

    Another version of an environment, or other options, give the splits that they change another digest. A server tells
    its own (``GET /numbering``).
    """
    by_split, base = {}, base_name(env.spec.name)
    for split, indices in env.spec.splits.items():
        ends = (indices[0], indices[-1]) if indices else ()
        described = [facts(env, Task(env.spec.name, index), str(Task(base, index))) for index in ends]
        by_split[split] = fingerprint("\n".join([str(len(indices)), *described]), 12)
    return by_split
