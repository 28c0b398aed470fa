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
none dies out. Here nobody writes settings.

Shares follow :math:`\max(u, 0)^{1/T}`, mixed with the uniform share as those of :mod:`.dynamic`. A setting that its
oracle does not solve is never born, and one whose value is held out is never drawn. What is born follows from the run's
seed and the number of the generation.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from random import Random
from statistics import fmean
from typing import Any, ClassVar

from agentgym_rl.algorithms.mixture.mixture import Mixture, Part, Pools, normalised
from agentgym_rl.algorithms.mixture.posterior import Posterior
from agentgym_rl.algorithms.mixture.space import Settings, spaces
from agentgym_rl.algorithms.mixture.tasks import MixtureConfig
from agentgym_rl.data.episode import Episode
from agentgym_rl.envs import Task
from agentgym_rl.envs.registry import base_name
from agentgym_rl.envs.splits import fingerprint

TRIES = 32
"""Draws for each individual that is wanted; where all are refused or live already, the population stays smaller."""


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
    held_out: dict[str, list[Any]] = field(default_factory=dict)
    """Values by knob that never occur in training, for panels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("population", "elite", "every", "min_episodes"):
            if getattr(self, key) < 1:
                raise ValueError(f"mixture.{key}={getattr(self, key)} must be at least 1")
        if self.elite >= self.population:
            raise ValueError(f"mixture.elite={self.elite} must be less than mixture.population={self.population}")
        if self.novelty < 0:
            raise ValueError(f"mixture.novelty={self.novelty} must not be negative")
        for key in ("distance", "crossover"):
            if not 0 <= getattr(self, key) <= 1:
                raise ValueError(f"mixture.{key}={getattr(self, key)} must be between 0 and 1")

    def unused(self, *, environments: int) -> dict[str, str]:
        """One environment has many settings."""
        return super().unused(environments=2)


@dataclass(slots=True)
class Individual:
    """A setting that lives."""

    name: str
    """Of the part of the environment that has it."""
    env: str
    """The environment of the recipe."""
    settings: Settings
    born: int
    """Steps before its birth."""
    parents: list[str]
    episodes: int = 0
    success: Posterior = field(default_factory=Posterior)

    def state_dict(self) -> dict[str, Any]:
        return {**asdict(self), "success": self.success.state_dict()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Individual:
        return cls(**{**state, "success": Posterior.from_state(state["success"])})


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
        self.population: list[Individual] = []
        self.observed = self.births = self.deaths = 0
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
        own = [episode for episode in episodes if episode.env in living or episode.env not in self._parts]
        super().observe(own)
        for each in self.population:
            counted = [episode for episode in own if episode.env == each.name and episode.ending.counts]
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
        have enough episodes."""
        shares = self.shares
        metrics = {
            f"env/{env}/share": sum(shares[each.name] for each in self.population if each.env == env)
            for env in self.spaces
        }
        metrics |= {
            "frontier/size": len(self.population),
            "frontier/best_utility": max(map(self.utility, self.population)),
            "frontier/births": self.births,
            "frontier/deaths": self.deaths,
            "frontier/refused": len(self._refused),
        }
        if elite := self.elite():
            metrics["frontier/elite_success"] = fmean(each.success.mean for each in elite)
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """With a table of the population: each one's settings, step of birth, parents, episodes and evidence."""
        population = {
            "observed": self.observed,
            "births": self.births,
            "deaths": self.deaths,
            "refused": self._refused,
            "individuals": [each.state_dict() for each in self.population],
            "parts": {name: asdict(part) for name, part in self._parts.items()},
        }
        return {**super().state_dict(), "shares": population}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        population = state.get("shares", {})
        if not isinstance(population, Mapping) or "individuals" not in population:
            raise ValueError("the state of mixture=frontier has a population, and this one has none")
        self.observed, self.births, self.deaths = (population[key] for key in ("observed", "births", "deaths"))
        self._refused = dict(population["refused"])
        self._parts = {name: Part(**part) for name, part in population["parts"].items()}
        self.population = [Individual.from_state(each) for each in population["individuals"]]
        self._settle()
        super().load_state_dict({**state, "shares": {}})

    def _change(self) -> None:
        """The elite stay, with those that have too few episodes to be judged; children take the others' place."""
        parents = self.elite()
        stay = [each for each in self.population if each in parents or each.episodes < self.config.min_episodes]
        self.deaths += len(self.population) - len(stay)
        self.population = stay
        self._fill(Random(f"{self.pools.seed}:frontier:{self.observed}"), parents)

    def _fill(self, rng: Random, parents: Sequence[Individual]) -> None:
        """Let settings be born until the population is whole."""
        wanted = self.config.population - len(self.population)
        for env, settings, of in self._children(rng, parents, TRIES * wanted):
            if len(self.population) == self.config.population:
                break
            name = f"{base_name(env)}-{fingerprint(json.dumps([env, settings], sort_keys=True), 8)}"
            if name in self._refused or any(each.name == name for each in self.population):
                continue
            try:
                self.recipe.adjustable[env].tasks(name, settings)
            except ValueError as error:
                self._refused[name] = str(error)
                continue
            self._parts[name] = Part(env, settings)
            self.population.append(Individual(name, env, settings, self.observed, of))
            self.births += 1
        self._settle()

    def _children(
        self, rng: Random, parents: Sequence[Individual], number: int
    ) -> Iterator[tuple[str, Settings, list[str]]]:
        """Environment, settings and parents of each; drawn for environments that have none, and where nobody has
        children."""
        envs = [*self.spaces]
        for env in envs:
            for _ in range(TRIES):
                if any(each.env == env for each in self.population):
                    break
                yield env, self.spaces[env].draw(rng), []
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
        self.population = [each for each in self.population if len(tasks[each.name])]
        if not self.population:
            why = next(reversed(self._refused.values()), "all of their tasks were left out")
            raise ValueError(f"mixture=frontier: no setting of {', '.join(self.spaces)} can be trained on: {why}")
        names = [each.name for each in self.population]
        self.pools = replace(self.recipe, tasks=tasks, shares=dict.fromkeys(names, 1.0))
        self.tasks.follow(names)
