"""Expert trajectories of a run as AgentTraj files, and conversations as rollouts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.data import agenttraj
from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.files import on_hub
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.envs import Task
from agentgym_rl.envs.actions import Action
from agentgym_rl.envs.core import Message
from agentgym_rl.envs.formats import Parse, opening, reader
from agentgym_rl.rollout.collect import collect
from agentgym_rl.rollout.supervised import encode


def files(run: Resolved, folder: Path, progress: Callable[[str, int, int], None] | None = None) -> dict[str, Path]:
    """The AgentTraj file of each env: the recipe's own, or oracle trajectories collected once into the run's folder.

    There are none where the run does not learn from them.

    Raises:
        FileNotFoundError: a file that the recipe names does not exist.
        ValueError: the training tasks are fewer than the trajectories asked for.
    """
    paths: dict[str, Path] = {}
    if (general := run.config.cloning.mix_file) is not None and not (Path(general).is_file() or on_hub(general)):
        raise FileNotFoundError(f"cloning.mix_file {general} does not exist")
    for name, env in run.config.envs.items() if run.learns_from_demonstrations else ():
        if env.demonstrations_file is not None:
            paths[name] = Path(env.demonstrations_file)
            if not (paths[name].is_file() or on_hub(env.demonstrations_file)):
                raise FileNotFoundError(f"envs.{name}.demonstrations_file {env.demonstrations_file} does not exist")
        elif env.demonstrations:
            paths[name] = folder / "demonstrations" / f"{name}.json"
            if paths[name].is_file():
                continue
            if env.pool is not None and env.demonstrations > env.pool:
                raise ValueError(
                    f"envs.{name}.demonstrations={env.demonstrations} are more than the training tasks, "
                    f"envs.{name}.pool={env.pool}"
                )
            report = None if progress is None else (lambda done, total, name=name: progress(name, done, total))
            asyncio.run(
                collect(
                    name,
                    env.split,
                    paths[name],
                    n=env.demonstrations,
                    seed=run.config.seed if env.pool is None else env.pool_seed,
                    settings=replace(run.rules, max_turns=run.max_turns(name)),
                    difficulty=env.difficulty,
                    options=env.options,
                    progress=report,
                )
            )
    return paths


@dataclass(frozen=True, slots=True)
class Encoder:
    """Makes rollouts of conversations that the run's model did not lead, in segments as the run's own episodes are."""

    run: Resolved
    tokenizer: Any
    builder: Any

    def conversation(self, messages: Sequence[Message], task: Task) -> Rollout:
        """See :meth:`agentgym_rl.algorithms.base.Run.encode`."""
        env = self.run.local[self.run.whole(task.env)]
        start = len(opening(env.spec, env.style, self.run.rules.action_format)) + 1
        return self.trajectory(task.env, Trajectory.of(str(task), messages, start))

    def trajectory(self, env: str, trajectory: Trajectory) -> Rollout:
        """See :func:`agentgym_rl.rollout.supervised.encode`, also for what it raises."""
        return self._encode(
            env, trajectory, reader(self.run.local[self.run.whole(env)].spec, self.run.rules.action_format)
        )

    def general(self, path: str | None) -> list[Rollout]:
        """The conversations of an AgentTraj file that no environment led; see :meth:`trajectory`.

        Raises:
            ValueError: the file is not AgentTraj JSON, or has none.
        """
        conversations = [] if path is None else [self._encode("", each, Action) for each in agenttraj.read(path)]
        if path is not None and not conversations:
            raise ValueError(f"cloning.mix_file {path} has no conversation")
        return conversations

    def _encode(self, env: str, trajectory: Trajectory, parse: Parse) -> Rollout:
        model, settings = self.run.config.model, self.run.rules
        episode, segments = asyncio.run(
            encode(
                trajectory,
                self.tokenizer,
                self.builder,
                env=env,
                prompt_limit=model.prompt_tokens,
                response_limit=model.response_tokens,
                settings=settings,
                parse=parse,
            )
        )
        return Rollout(episode=episode, segments=segments, group=episode.item_id)

    def files(self, paths: Mapping[str, Path]) -> list[Rollout]:
        """The trajectories of AgentTraj files, by env.

        Raises:
            ValueError: a file is not AgentTraj JSON, or has no trajectory of its environment; see also
                :meth:`trajectory`.
        """
        return [self.trajectory(env, each) for env, path in paths.items() for each in agenttraj.of_env(path, env)]


def save(folder: Path, name: str, rollouts: Sequence[Rollout]) -> None:
    """Write episodes as AgentTraj files, ``<env>_<name>.json``."""
    of_envs: dict[str, list[Trajectory]] = {}
    for episode in (rollout.episode for rollout in rollouts):
        trajectory = Trajectory.of(episode.item_id, episode.messages, episode.start)
        of_envs.setdefault(episode.env, []).append(trajectory)
    for env, trajectories in of_envs.items():
        agenttraj.write(folder / f"{env}_{name}.json", trajectories)
