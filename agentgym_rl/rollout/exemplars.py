"""Memory by retrieval: solved episodes of tasks like the present one, before its first observation (after Synapse,
arXiv 2306.07863, which finds them by embeddings; here BM25 compares goals)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.bm25 import Index
from agentgym_rl.envs.core import Task, TextEnv
from agentgym_rl.envs.extras import missing
from agentgym_rl.rollout.transcripts import transcript

LONGEST = 4000
"""Most characters of an exemplar."""
HEADING = "Solved before, of other tasks:"


@dataclass(frozen=True, slots=True)
class Exemplars:
    """The nearest successes to a task, which never are of the task itself, nor of one with the same goal."""

    successes: Mapping[str, tuple[Episode, ...]]
    """By environment, one of each task."""
    nearest: int
    digest: str
    """Of the file."""
    _indices: dict[str, tuple[Index, list[str]]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: str | Path, nearest: int = 2, envs: Collection[str] = ()) -> Exemplars:
        """The successes in a file of episodes; of several of a task the shortest.

        Args:
            envs: environments whose tasks they are for, by name; a part of one is another. Empty is any.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it holds no episodes, none that succeeded, none of ``envs``, or ``nearest`` is less than 1.
            MissingExtra: bm25s is not installed.
        """
        if nearest < 1:
            raise ValueError(f"nearest={nearest}: give at least 1")
        if find_spec("bm25s") is None:
            raise missing("exemplars", "bm25s", "searchqa")
        if not Path(file).is_file():
            raise FileNotFoundError(
                f"{file} does not exist; give a file of episodes, such as one of collect --episodes"
            )
        successes = _shortest(episode_store.read(file))
        if not successes:
            raise ValueError(f"{file} holds no episode that succeeded")
        if envs and not {*envs} & {*successes}:
            raise ValueError(f"{file} has successes of {', '.join(successes)}, none of {', '.join(sorted(envs))}")
        return cls(successes, nearest, sha256(Path(file).read_bytes()).hexdigest()[:12])

    def text(self, env: TextEnv, task: Task) -> str:
        """What a model reads before the first observation of a task; empty where no task's goal is like its goal.

        Raises:
            TaskNotFound: an episode is of a task that the environment does not have.
        """
        episodes = self.successes.get(task.env, ())
        if not episodes:
            return ""
        if task.env not in self._indices:
            goals = [env.goal(Task.parse(episode.item_id)) for episode in episodes]
            self._indices[task.env] = Index.over(goals), goals
        index, goals = self._indices[task.env]
        goal, item_id = env.goal(task), str(task)
        matches = [at for at in index.best(goal, len(goals)) if goals[at] != goal and episodes[at].item_id != item_id]
        shown = [
            f"Example {number}: {goals[at]}\n\n{transcript(_turns(episodes[at]), LONGEST)}"
            for number, at in enumerate(matches[: self.nearest], start=1)
        ]
        return "\n\n".join([HEADING, *shown]) if shown else ""


def _shortest(episodes: Iterable[Episode]) -> dict[str, tuple[Episode, ...]]:
    best: dict[str, Episode] = {}
    for episode in episodes:
        if episode.success and episode.turns:
            known = best.setdefault(episode.item_id, episode)
            best[episode.item_id] = min(known, episode, key=lambda candidate: len(candidate.turns))
    by_env: dict[str, tuple[Episode, ...]] = {}
    for item_id in sorted(best):
        by_env[best[item_id].env] = (*by_env.get(best[item_id].env, ()), best[item_id])
    return by_env


def _turns(episode: Episode) -> list[dict[str, str]]:
    """The conversation from the first observation on."""
    return episode.without_preface[episode.start - 1 :]
