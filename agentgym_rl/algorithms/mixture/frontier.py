r"""Settings of environments that follow what the agent can nearly do.

An individual is a setting of an environment's knobs (:mod:`agentgym_rl.envs.knobs`), played as a part of the
environment under a name of its own. With p the posterior mean of its success rate and :math:`c` the share of the
population that is within ``distance`` of it (mean distance of the knobs, each in [0, 1]), its utility is

.. math:: u = \min(p, 1 - p) - novelty \cdot c

the uncertainty reward of Agent0 less its penalty of repetition (arXiv 2511.16043, section 3.1), which there takes
clusters of a batch of questions by BLEU. Every ``every`` steps the population changes, as EnvGen's environments follow
the success by skill (arXiv 2403.12014): of the individuals with ``min_episodes`` the ``elite`` with the greatest
utility stay, the others of them leave, and children of the elite take their place: a mutation moves one knob one step,
a crossover takes each knob from one of two parents first. An environment that has nobody left gets a drawn one, so that
none dies out. With ``mutate=writer`` a writer, told how often each setting is solved, proposes settings first, as
EnvGen's does; what cannot be read or may not be born is counted, and children take its place.

Shares follow :math:`\max(u, 0)^{1/T}`, mixed with the uniform share as those of :mod:`.dynamic`. A setting that its
oracle does not solve is never born, and one whose value is held out is never drawn. What is born follows from the run's
seed and the number of the generation.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from statistics import fmean
from typing import Any, ClassVar

from agentgym_rl.algorithms.mixture.individual import WRITER, Individual
from agentgym_rl.algorithms.mixture.mixture import Mixture, Part, Pools, normalised
from agentgym_rl.algorithms.mixture.proposals import proposals, question, read
from agentgym_rl.algorithms.mixture.space import Settings, spaces
from agentgym_rl.algorithms.mixture.tasks import MixtureConfig
from agentgym_rl.data.episode import Episode
from agentgym_rl.envs import Task
from agentgym_rl.envs.core import EnvError
from agentgym_rl.envs.registry import base_name
from agentgym_rl.envs.splits import fingerprint
from agentgym_rl.rollout.answers import Unreadable

TRIES = 32
"""Draws for each individual that is wanted; where all are refused or live already, the population stays smaller."""
Child = tuple[str, Settings, list[str]]
"""Environment, settings and parents of one that may be born."""


class Mutate(StrEnum):
    """Where settings come from when the population changes."""

    KNOB = "knob"
    WRITER = "writer"


@dataclass(kw_only=True)
class FrontierConfig(MixtureConfig):
    """Keys of ``mixture=frontier``; ``floor``, ``temperature`` and ``decay`` are those of shares, too."""

    both_keys: ClassVar[tuple[str, ...]] = ("floor", "temperature", "decay")

    population: int = 12
    """Most settings at a time."""
    elite: int = 4
    """How many settings with enough episodes stay when the population changes."""
    every: int = 5
    """Steps (rounds of AgentEvol) between changes of the population."""
    min_episodes: int = 16
    """Fewest episodes of a setting before it is judged."""
    novelty: float = 0.3
    """How much the share of the population that is near a setting lowers its utility."""
    distance: float = 0.2
    """How far apart two settings are near each other, in [0, 1]."""
    crossover: float = 0.5
    """Share of births with two parents."""
    mutate: Mutate = Mutate.KNOB
    """Where settings come from: knob (children of the elite), or writer (first what the run's ``writer`` proposes)."""
    held_out: dict[str, list[Any]] = field(default_factory=dict)
    """Values by knob that never occur in training, for panels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("population", "elite", "every", "min_episodes"):
            if getattr(self, key) < 1:
                raise ValueError(f"mixture.{key}={getattr(self, key)} must be at least 1")
        if self.elite >= self.population:
            raise ValueError(f"mixture.elite={self.elite} must be less than mixture.population={self.population}")
        if not self.novelty >= 0:
            raise ValueError(f"mixture.novelty={self.novelty} must not be negative")
        for key in ("distance", "crossover"):
            if not 0 <= getattr(self, key) <= 1:
                raise ValueError(f"mixture.{key}={getattr(self, key)} must be between 0 and 1")

    @property
    def writer(self) -> str | None:
        return "mixture.mutate=writer" if self.mutate is Mutate.WRITER else None

    def unused(self, *, environments: int) -> dict[str, str]:
        """One environment has many settings."""
        near = {} if self.novelty else {"distance": "mixture.novelty=0 takes nothing off for settings that are near"}
        mates = {} if self.elite > 1 else {"crossover": "mixture.elite=1 has no two parents"}
        return {**super().unused(environments=2), **near, **mates}


class Frontier(Mixture[FrontierConfig]):
    """A population of settings, whose shares and births follow the agent's success."""

    Config = FrontierConfig
    makes_parts = True

    def __init__(self, config: FrontierConfig, pools: Pools) -> None:
        """
        Raises:
            ValueError: see :func:`.space.spaces`, or there are more environments than the population has places, or the
                oracle of one solves no setting of it.
        """
        super().__init__(config, pools)
        self.recipe = pools
        self.spaces = spaces([*pools.given], pools.adjustable, config.held_out)
        if len(self.spaces) > config.population:
            least = len(self.spaces)
            raise ValueError(
                f"mixture.population={config.population} must be at least {least}, one for each environment"
            )
        self.individuals: list[Individual] = []
        """The population and all that left, by birth."""
        self.population: list[Individual] = []
        self.observed = 0
        self.answers: Counter[str] = Counter()
        """What came of the writer's answers: ``proposals``, ``refused`` ones, and answers ``unread``."""
        self._parts: dict[str, Part] = {}
        self._refused: dict[str, str] = {}
        """Why parts were not born, by name."""
        self._left_out: set[Task] = set()
        self._fill(Random(f"{pools.seed}:frontier:0"), [])
        if without := [env for env in self.spaces if all(each.env != env for each in self.population)]:
            why = next(reversed(self._refused.values()))
            raise ValueError(f"mixture=frontier: no setting of {without[0]} can be trained on: {why}")

    @property
    def parts(self) -> Mapping[str, Part]:
        """Those that live, and those that left, whose tasks an algorithm may still ask for."""
        return self._parts

    @property
    def deaths(self) -> int:
        return sum(each.died is not None for each in self.individuals)

    @property
    def shares(self) -> Mapping[str, float]:
        worth = {each.name: max(self.utility(each), 0.0) ** (1 / self.config.temperature) for each in self.population}
        weights = normalised(worth if any(worth.values()) else dict.fromkeys(worth, 1.0))
        floor = self.config.floor
        return {name: floor / len(weights) + (1 - floor) * weight for name, weight in weights.items()}

    def utility(self, each: Individual) -> float:
        """At most 1/2."""
        uncertainty = min(each.success.mean, 1 - each.success.mean)
        return uncertainty - self.config.novelty * self.crowding(each)

    def crowding(self, each: Individual) -> float:
        """Share of the population that is near an individual, without itself."""
        others = [other for other in self.population if other is not each and other.env == each.env]
        apart = [self.spaces[each.env].distance(each.settings, other.settings) for other in others]
        return sum(distance <= self.config.distance for distance in apart) / len(self.population)

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Episodes of parts that have left meanwhile are ignored."""
        living = {each.name for each in self.population}
        played = [episode for episode in episodes if episode.env in living or episode.env not in self._parts]
        super().observe(played)
        for each in self.population:
            counted = [episode for episode in played if episode.env == each.name and episode.ending.counts]
            solved = sum(episode.success for episode in counted)
            each.episodes += len(counted)
            each.success.add(solved, len(counted) - solved, self.config.decay)
        self.observed += 1
        if self.observed % self.config.every == 0:
            self._change()

    def elite(self) -> list[Individual]:
        """Those with enough episodes and the greatest utility, best first; of equals the older one."""
        judged = [each for each in self.population if each.episodes >= self.config.min_episodes]
        return sorted(judged, key=self.utility, reverse=True)[: self.config.elite]

    def leave_out(self, tasks: Collection[Task]) -> None:
        self._left_out |= {*tasks}
        self._settle()

    def metrics(self) -> dict[str, float]:
        """``env/<name>/share`` of the recipe's environments, and of the population ``frontier/<key>``: ``size``,
        ``best_utility``, ``births``, ``deaths``, ``refused`` settings, and ``elite_success``, an estimate, where some
        have enough episodes; with ``mutate=writer`` also ``writer_proposals``, those ``writer_refused``, and answers
        that were ``writer_unread``."""
        shares = self.shares
        metrics = {
            f"env/{env}/share": sum(shares[each.name] for each in self.population if each.env == env)
            for env in self.spaces
        }
        metrics |= {
            "frontier/size": len(self.population),
            "frontier/best_utility": max(map(self.utility, self.population)),
            "frontier/births": len(self.individuals),
            "frontier/deaths": self.deaths,
            "frontier/refused": len(self._refused),
        }
        if self.config.mutate is Mutate.WRITER:
            metrics["frontier/writer_proposals"] = self.answers["proposals"]
            metrics["frontier/writer_refused"] = self.answers["refused"]
            metrics["frontier/writer_unread"] = self.answers["unread"]
        if elite := self.elite():
            metrics["frontier/elite_success"] = fmean(each.success.mean for each in elite)
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """With a table of all individuals: settings, steps of birth and death, parents, episodes and evidence."""
        population = {
            "observed": self.observed,
            "refused": self._refused,
            "answers": dict(self.answers),
            "individuals": [each.state_dict() for each in self.individuals],
        }
        return {**super().state_dict(), "shares": population}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        population = state.get("shares", {})
        if not isinstance(population, Mapping) or "individuals" not in population:
            raise ValueError("the state of mixture=frontier has a population, and this one has none")
        self.observed, self._refused = population["observed"], dict(population["refused"])
        self.answers = Counter(population["answers"])
        self.individuals = [Individual.from_state(each) for each in population["individuals"]]
        self.population = [each for each in self.individuals if each.died is None]
        self._parts = {each.name: Part(each.env, each.settings) for each in self.individuals}
        self._settle()
        super().load_state_dict({**state, "shares": {}})

    def _change(self) -> None:
        """The elite stay, with those that have too few episodes to be judged; others take the place of the rest."""
        parents, before = self.elite(), len(self.population)
        self._keep([each for each in self.population if each in parents or each.episodes < self.config.min_episodes])
        self._fill(Random(f"{self.pools.seed}:frontier:{self.observed}"), parents)
        if len(self.population) < before:
            self.say(
                f"mixture=frontier: {len(self.population)} settings live instead of {before}; what else was drawn "
                "lives already, or its oracle does not solve it"
            )

    def _keep(self, living: list[Individual]) -> None:
        """The others leave."""
        for each in self.population:
            each.died = None if each in living else self.observed
        self.population = living

    @property
    def _missing(self) -> int:
        return self.config.population - len(self.population)

    def _fill(self, rng: Random, parents: Sequence[Individual]) -> None:
        """Let settings be born until the population is whole."""
        tries = TRIES * self._missing
        for child in self._lacking(rng):
            self._bear(*child)
        if self.observed:
            self._propose()
        for child in self._children(rng, parents, tries):
            if not self._missing:
                break
            self._bear(*child)
        self._settle()

    def _bear(self, env: str, settings: Settings, parents: list[str]) -> str:
        """Let a setting be born; says why not, where it is not."""
        name = f"{base_name(env)}-{fingerprint(json.dumps([env, settings], sort_keys=True), 8)}"
        if any(each.name == name for each in self.population):
            return f"{json.dumps(settings)} of {env} lives already"
        if name not in self._refused:
            try:
                self.recipe.adjustable[env].tasks(name, settings)
            except ValueError as error:
                self._refused[name] = str(error)
        if name in self._refused:
            return self._refused[name]
        self._parts[name] = Part(env, settings)
        self.population.append(Individual(name, env, settings, self.observed, parents))
        self.individuals.append(self.population[-1])
        return ""

    def _lacking(self, rng: Random) -> Iterator[Child]:
        """Drawn ones of environments that have none."""
        for env, space in self.spaces.items():
            for _ in range(TRIES):
                if any(each.env == env for each in self.population) or not self._missing:
                    break
                yield env, space.draw(rng), []

    def _propose(self) -> None:
        """Let a writer's settings be born."""
        missing = self._missing
        if self.config.mutate is not Mutate.WRITER or not missing:
            return
        played = [each for each in self.individuals if each.died in (None, self.observed)]
        try:
            proposed = proposals(self.ask(question(self.spaces, played, missing)))[:missing]
        except (EnvError, Unreadable) as error:
            self.answers["unread"] += 1
            self.say(f"mixture=frontier: the writer proposes nothing: {error}")
            return
        faults = [fault for each in proposed if (fault := self._fault(each))]
        self.answers.update(proposals=len(proposed), refused=len(faults))
        if faults:
            self.say(f"mixture=frontier: {len(faults)} of {len(proposed)} proposals refused; the first: {faults[0]}")

    def _fault(self, proposal: Any) -> str:
        """Why a proposal is not born; empty where it is."""
        try:
            return self._bear(*read(proposal, self.spaces), [WRITER])
        except Unreadable as error:
            return str(error)

    def _children(self, rng: Random, parents: Sequence[Individual], number: int) -> Iterator[Child]:
        """Those of parents; drawn ones where nobody has children."""
        envs = [*self.spaces]
        for at in range(number):
            if not parents:
                yield (env := envs[at % len(envs)]), self.spaces[env].draw(rng), []
                continue
            parent = rng.choice(parents)
            space, settings, of = self.spaces[parent.env], parent.settings, [parent.name]
            mates = [each for each in parents if each.env == parent.env and each is not parent]
            if mates and rng.random() < self.config.crossover:
                mate = rng.choice(mates)
                settings, of = space.crossed(settings, mate.settings, rng), [parent.name, mate.name]
            yield parent.env, space.mutated(settings, rng), of

    def _settle(self) -> None:
        """Bring pools and statistics of tasks in line with the population; a part without tasks leaves.

        Raises:
            ValueError: nobody is left.
        """
        tasks = {}
        for each in self.population:
            pool = self.recipe.adjustable[each.env].tasks(each.name, each.settings)
            if any(task.env == each.name for task in self._left_out):
                pool = [index for index in pool if Task(each.name, index) not in self._left_out]
            tasks[each.name] = pool
        self._keep([each for each in self.population if len(tasks[each.name])])
        if not self.population:
            why = next(reversed(self._refused.values()), "all of their tasks were left out")
            raise ValueError(f"mixture=frontier: no setting of {', '.join(self.spaces)} can be trained on: {why}")
        names = [each.name for each in self.population]
        self.pools = replace(self.recipe, tasks=tasks, shares=dict.fromkeys(names, 1.0))
        self.tasks.follow(names)
