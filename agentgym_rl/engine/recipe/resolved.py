"""A run's configuration, and what follows from it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Any

from agentgym_rl.algorithms import Algorithm, algorithms
from agentgym_rl.algorithms.base import Needs
from agentgym_rl.algorithms.bc import Cloning
from agentgym_rl.algorithms.curriculum.turn_limit import Curriculum, TurnLimit, curricula
from agentgym_rl.algorithms.mixture import Adjustable, Mixture, Pools, mixtures
from agentgym_rl.algorithms.mixture.space import Settings
from agentgym_rl.algorithms.optimizer import OptimizerConfig
from agentgym_rl.data.overlap import COMPARED, Games, Overlap, demonstrated, overlaps_of
from agentgym_rl.data.panels import digest, indices_of, panel_of, sample, warn_of_other_ids
from agentgym_rl.engine.recipe.config import Config, EngineConfig, EnvConfig
from agentgym_rl.engine.recipe.schema import RecipeError, read, to_dict
from agentgym_rl.envs import Task, TextEnv, make
from agentgym_rl.envs.core import EnvError, OracleUnavailable, TaskNotFound
from agentgym_rl.envs.hosts import EnvHost, HostSettings, LocalHost, open_host
from agentgym_rl.envs.numbering import Panel
from agentgym_rl.envs.probe import BadAction, follow, walk
from agentgym_rl.envs.registry import base_name, env_class
from agentgym_rl.rollout.exemplars import Exemplars
from agentgym_rl.rollout.harness.settings import Harness
from agentgym_rl.rollout.playbook import Playbook
from agentgym_rl.rollout.settings import RolloutSettings

CHECKED = 2
"""Tasks of a part that its oracle solves before the mixture takes it."""


@dataclass(frozen=True, eq=False)
class Resolved:
    """One run: its configuration, and parts that are built once each, when they are first asked for.

    The parts are passed on with it, so that nobody builds an environment or an algorithm again to ask it something.
    Algorithm, mixture and curriculum have a state, which is that of the run.
    """

    config: Config

    def with_engine(self, engine: EngineConfig) -> Resolved:
        """The same run with other settings of its engine; what is built stays."""
        changed = copy(self)
        object.__setattr__(changed, "config", replace(self.config, engine=engine))
        return changed

    def ask_envs(self) -> None:
        """Build what follows from the tasks of environments, and so find out what is wrong with it.

        Raises:
            RecipeError: the algorithm replays or relabels episodes of an environment that cannot, asks one without an
                oracle for solutions, or cannot take the parts that the mixture makes.
            ValueError, EnvError, FileNotFoundError: see :attr:`panels`, :attr:`mixture`, :attr:`playbook` and
                :attr:`exemplars`.
        """
        _ = self.panels, self.mixture, self.playbook, self.exemplars
        online = self.config.algorithm.online is not None
        learned = [name for name, env in self.config.envs.items() if (env.share if online else env.has_demonstrations)]
        leave = "out of training (envs.<name>.share=0)" if online else "without demonstrations"
        if key := self.needs.replays:
            unlike = [name for name in learned if not self.local[name].spec.replayable]
            _refuse(f"{key} replays the beginning of episodes, which", unlike, leave)
        if (key := self.needs.by_environment or self.needs.relabels) and self.mixture.makes_parts:
            raise RecipeError(
                f"{key} goes by the names of environments, and mixture={self.config.mixture.type} makes parts with "
                "names of their own; choose another mixture"
            )
        if key := self.needs.relabels:
            unlike = [name for name in learned if not self.envs[name].relabels]  # those on servers do not
            _refuse(f"{key} asks which other goals an episode reached, which", unlike, leave)
        if key := self.needs.plans:
            unlike = [name for name in learned if not self._has_oracle(name)]
            _refuse(f"{key} asks for the commands that solve a task, which", unlike, leave)

    def _has_oracle(self, name: str) -> bool:
        """Whether it solves the first training task of an environment."""
        try:
            return bool(self.local[name].oracle(Task(name, self.pools[name][0])))
        except OracleUnavailable:
            return False

    # the algorithm

    @cached_property
    def algorithm(self) -> Algorithm[Any]:
        algorithm: Algorithm[Any] = algorithms()[self.config.algorithm.name](self.config.algorithm)
        return algorithm

    @cached_property
    def needs(self) -> Needs:
        """The requirements of the algorithm, and the mixture's of a writer."""
        needs, online = self.algorithm.needs(self.config.algorithm), self.config.algorithm.online
        return replace(needs, writer=needs.writer or self.config.mixture.writer) if online else needs

    @property
    def learns_from_demonstrations(self) -> bool:
        """True if the run learns from demonstrations where it has some."""
        needs, config = self.needs, self.config
        asked = needs.cloning or needs.demonstrations or needs.takes_demonstrations
        return asked or config.run.control or bool(config.cloning.epochs)

    def optimizer(self, stage: str) -> OptimizerConfig:
        """Settings of the updates of a stage; the control repeats those of the algorithm."""
        return self.config.cloning.optimizer if stage == Cloning.stage else self.config.algorithm.updates

    # the rules of an episode

    @cached_property
    def rules(self) -> RolloutSettings:
        """The rules that all episodes of the run share."""
        rollout = self.config.rollout
        return RolloutSettings(**{each.name: getattr(rollout, each.name) for each in fields(RolloutSettings)})

    def max_turns(self, env: str) -> int | None:
        """The turn limit of an environment's episodes; None takes its own."""
        return self.config.envs[self.whole(env)].max_turns or self.config.rollout.max_turns

    @cached_property
    def playbook(self) -> Playbook:
        """The lessons that all episodes begin with.

        Raises:
            ValueError, FileNotFoundError: see :meth:`Playbook.read`, or no lesson is of the run's environments.
        """
        file = self.config.rollout.playbook
        playbook = Playbook() if file is None else Playbook.read(file)
        envs = {lesson.env for lesson in playbook.lessons}
        if envs and not envs & {*self.config.envs}:
            raise ValueError(f"rollout.playbook={file} is of {', '.join(sorted(envs))}, none of which the run has")
        return playbook

    @cached_property
    def exemplars(self) -> Exemplars | None:
        """Successes of which all episodes show the nearest; raises as :meth:`Exemplars.read`."""
        rollout, envs = self.config.rollout, (*self.config.envs, *self.mixture.parts)
        return None if rollout.exemplars is None else Exemplars.read(rollout.exemplars, rollout.nearest, envs)

    def prompt(self, env: str, algorithm: Algorithm[Any], instead: str | None = None) -> str:
        """What goes with the weights that an algorithm leads to; ``instead`` takes the place of its own prompt."""
        env = self.whole(env)
        of_algorithm = algorithm.prompt(env) if instead is None else instead
        return "\n\n".join(filter(None, [of_algorithm, self.playbook.text(env)]))

    def preface(self, task: Task, algorithm: Algorithm[Any], of_request: str = "", instead: str | None = None) -> str:
        """What stands before the first observation of a task.

        Args:
            algorithm: of the stage.
            of_request, instead: ``preface`` and ``prompt`` of a request.
        """
        solved = "" if self.exemplars is None else self.exemplars.text(self.facts(task.env), task)
        return "\n\n".join(filter(None, [self.prompt(task.env, algorithm, instead), solved, of_request]))

    @property
    def seeded(self) -> bool:
        """See :attr:`.config.EngineConfig.seeds_responses`."""
        return self.config.engine.seeds_responses

    # environments

    @cached_property
    def hosts(self) -> dict[str, HostSettings]:
        """Where the episodes of each environment run.

        Raises:
            ValueError: ``envs.<name>.host`` has an unknown key or a value out of range.
        """
        hosts = {}
        for name, env in self.config.envs.items():
            try:
                hosts[name] = HostSettings.of(env.host)
            except ValueError as error:
                raise ValueError(f"envs.{name}.{error}") from error
        return hosts

    @cached_property
    def harnesses(self) -> dict[str, Harness]:
        """The programs that play, by environment.

        Raises:
            ValueError, FileNotFoundError: ``envs.<name>.harness`` is wrong.
        """
        harnesses = {}
        for name, env in self.config.envs.items():
            if not env.harness:
                continue
            try:
                harnesses[name] = Harness.of(env.harness)
            except ValueError as error:
                raise ValueError(f"envs.{name}: {error}") from error
        return harnesses

    @cached_property
    def servers(self) -> dict[str, EnvHost]:
        """Where questions about the tasks of each environment are answered: on its servers, or in this process."""
        return {name: open_host(host) if host.kind == "remote" else LocalHost() for name, host in self.hosts.items()}

    @cached_property
    def options(self) -> dict[str, dict[str, Any]]:
        """Options of each environment's class, with the run's wording."""
        return {name: {**env.options, "style": self.config.rollout.style} for name, env in self.config.envs.items()}

    def open(self, name: str) -> TextEnv:
        """A session of an environment with the tasks that its host has; servers are asked, unless they were before.

        Raises:
            EnvError: a server does not answer, or does not have the environment.
        """
        return self.servers[name].facts(name, self.options[name])

    @cached_property
    def envs(self) -> dict[str, TextEnv]:
        """Each environment as :meth:`open` opens it, to be asked for fixed facts."""
        return {name: self.open(name) for name in self.config.envs}

    @cached_property
    def local(self) -> dict[str, TextEnv]:
        """Each environment as it is installed here; a server may have other tasks."""
        remote = {name for name, host in self.hosts.items() if host.kind == "remote"}
        return {
            name: make(name, **self.options[name]) if name in remote else self.envs[name] for name in self.config.envs
        }

    @cached_property
    def replaying(self) -> dict[str, TextEnv]:
        """Sessions in this process for the algorithm, by environment; see :meth:`session`."""
        return {name: make(name, **self.options[name]) for name in self.config.envs}

    def session(self, name: str) -> TextEnv:
        """A session in this process for the algorithm, also of a part that the mixture made."""
        if name not in self.replaying:
            part = self.mixture.parts[name]
            self.replaying[name] = make(name, **self._options_with(part.env, part.settings))
        return self.replaying[name]

    # parts that the mixture makes

    def whole(self, env: str) -> str:
        """The environment of the recipe that an environment is, or is a part of."""
        return env if env in self.config.envs else self.mixture.parts[env].env

    def facts(self, env: str) -> TextEnv:
        """An environment, or part of one, to be asked for fixed facts."""
        return self.envs[env] if env in self.envs else self.session(env)

    def _options_with(self, whole: str, settings: Settings) -> dict[str, Any]:
        return {**self.options[whole], **settings}

    @cached_property
    def _part_tasks(self) -> dict[str, Sequence[int]]:
        """Training tasks of the parts that the mixture made, by name."""
        return {}

    def _tasks_of_part(self, whole: str, name: str, settings: Settings) -> Sequence[int]:
        """Training tasks of an environment with other options.

        Raises:
            ValueError: there are none, or the oracle does not solve two of them within the turn limit.
        """
        if name not in self._part_tasks:
            try:
                env = make(name, **self._options_with(whole, settings))
                pool = _pool(env, self.config.envs[whole])
                limit = self.config.envs[whole].max_turns or self.config.rollout.max_turns or env.spec.max_turns
                for index in Random(name).sample(pool, min(CHECKED, len(pool))):
                    asyncio.run(_solve(env, Task(name, index), limit))
            except (EnvError, BadAction) as error:
                raise ValueError(f"{whole} with {_listed(settings)}: {error}") from error
            self._part_tasks[name] = pool
        return self._part_tasks[name]

    def is_local(self, panel: Panel) -> bool:
        """True if the environment in this process has the tasks of a panel; a server may have others."""
        tasks = [Task.parse(item_id) for item_id in panel.item_ids]
        try:
            return digest(self.local[panel.env], tasks) == panel.digest
        except TaskNotFound:
            return False

    # tasks

    @cached_property
    def pools(self) -> dict[str, Sequence[int]]:
        """Task indices that training draws from: a split, or the part of it that ``difficulty`` and ``pool`` leave."""
        return {name: _pool(self.envs[name], env) for name, env in self.config.envs.items()}

    @cached_property
    def panels(self) -> dict[str, dict[str, Panel]]:
        """Validation panels by environment and name.

        Raises:
            ValueError: a split or difficulty does not exist where the environment runs, or holds fewer tasks than asked
                for.
            EnvError: a server does not answer, or does not have the environment.
        """
        return {
            name: {
                label: panel_of(self.envs[name], panel.split, panel.difficulty, panel.n, panel.seed)
                for label, panel in env.panels.items()
            }
            for name, env in self.config.envs.items()
        }

    @property
    def panel_tasks(self) -> dict[str, list[Task]]:
        """Tasks of all panels of each environment."""
        return {
            name: [Task.parse(item_id) for panel in panels.values() for item_id in panel.item_ids]
            for name, panels in self.panels.items()
        }

    def overlaps(self, demonstrations: Mapping[str, Path]) -> dict[str, dict[str, Overlap]]:
        """How many tasks of each panel are among those that the run learns from, by environment and panel.

        The parts of an environment count together. Contents are not asked of servers, where each takes an episode.

        Args:
            demonstrations: files by environment.

        Raises:
            EnvError: an environment cannot tell what a task shows.
        """
        cloned = {name: demonstrated(self.envs[name], file) for name, file in demonstrations.items()}
        overlaps: dict[str, dict[str, Overlap]] = {}
        for name, env in self.config.envs.items():
            if (source := env.demonstrations_file) is not None:
                warn_of_other_ids(self.envs[name], source)
            parts = [part for part in self.envs if base_name(part) == base_name(name)]
            games = Games(self.open(name), 0 if self.hosts[name].kind == "remote" else COMPARED)
            learned = [[index for part in parts for index in of.get(part, ())] for of in (self.pools, cloned)]
            overlaps[name] = asyncio.run(overlaps_of(games, self.panels[name], *learned))
        return overlaps

    @cached_property
    def mixture(self) -> Mixture[Any]:
        """How the run's training episodes are shared among environments and tasks.

        Raises:
            ValueError: names the key under ``mixture`` or the environment that is wrong.
        """
        config = self.config
        pools = Pools(
            tasks=self.pools,
            shares={name: env.share for name, env in config.envs.items()},
            seed=config.seed,
            difficulty=lambda task: self.facts(task.env).difficulty(task),
            fewest_samples=self.needs.samples_per_task,
            adjustable={name: self._adjustable(name) for name in config.envs},
        )
        mixture = mixtures()[config.mixture.type](config.mixture, pools)
        if (online := config.algorithm.online) is not None:
            mixture.bounds(online.samples_per_task)
        return mixture

    def _adjustable(self, name: str) -> Adjustable:
        env, remote = self.config.envs[name], self.hosts[name].kind == "remote"
        return Adjustable(
            knobs=() if remote else env_class(name).knobs,
            options=env.options,
            demonstrated=env.has_demonstrations and self.learns_from_demonstrations,
            tasks=partial(self._tasks_of_part, name),
        )

    @cached_property
    def curriculum(self) -> Curriculum:
        """The turn limits of training episodes.

        Raises:
            RecipeError: a key of ``envs.<name>.curriculum`` is unknown, or a value out of range.
        """
        return Curriculum({name: self._limit(f"envs.{name}", env) for name, env in self.config.envs.items()})

    def _limit(self, place: str, env: EnvConfig) -> TurnLimit[Any]:
        """An environment's own keys go before those that are set of the run's and that its curriculum has, too."""
        settings: Mapping[str, Any] = env.curriculum
        kinds, run, left_out = curricula(), to_dict(self.config.curriculum), to_dict(type(self.config.curriculum)())
        chosen = settings.get("type", self.config.curriculum.type)
        if chosen not in kinds:
            raise RecipeError(f"{place}.curriculum.type={chosen!r} is unknown; choose {', '.join(sorted(kinds))}")
        kind = kinds[chosen]
        keys = {each.name for each in fields(kind.Config)}
        shared = {key: value for key, value in run.items() if key in keys and value != left_out.get(key)}
        return kind(read(kind.Config, {**shared, "type": chosen, **settings}, f"{place}.curriculum"))


def _refuse(what: str, envs: Sequence[str], leave: str) -> None:
    """Raises RecipeError: there are environments that cannot do what the algorithm does with their episodes."""
    if envs:
        raise RecipeError(
            f"{what} {', '.join(envs)} cannot; leave such environments {leave}, or choose another algorithm"
        )


def _pool(env: TextEnv, config: EnvConfig) -> Sequence[int]:
    if config.difficulty is None and config.pool is None:
        return indices_of(env, config.split)
    tasks = sample(env, config.split, config.difficulty, config.pool, config.pool_seed)
    return [task.index for task in tasks]


async def _solve(env: TextEnv, task: Task, limit: int) -> None:
    """Raises EnvError: the oracle does not solve the task in so many turns."""
    try:
        trail = await walk(env, task, follow(env.oracle(task)))
    finally:
        await env.close()
    if not env.spec.success(trail.reward) or len(trail.steps) > limit:
        raise OracleUnavailable(f"{task} is not solved by the oracle within {limit} turns")


def _listed(settings: Settings) -> str:
    return ", ".join(f"{option}={value}" for option, value in settings.items())
