"""Instructions that evolve with the policy (INSPO, arXiv 2512.01945): GRPO, whose groups read different instructions.

Each group of a step reads one of its environment's instructions before the first observation; rewards move their
weights (:mod:`.instructions`). Every ``algorithm.prune_every`` steps the lowest leave. With ``algorithm.proposals`` a
writer reads failures and writes others, the present policy tries each, and the best join with the median weight.
What replaces lost or filtered groups reads the best one.
Panels, and whoever gets the weights, read the one with the greatest weight; its digest stands in their results.

With one instruction and no proposals this is :mod:`~agentgym_rl.algorithms.grpo`.

Departures: the draw has a floor; an instruction stands before the first observation, and never in place of the
environment's own; one of the lowest stays until enough groups have read it, and no higher one leaves in its place. A
proposal that shares more than 90% of its words with another instruction is refused, and one in whose trial most turns
are invalid.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

from agentgym_rl.algorithms.base import Metrics, Needs, Request, Rollout, Run
from agentgym_rl.algorithms.checks import above, at_least, share
from agentgym_rl.algorithms.grpo import GRPO, GRPOConfig
from agentgym_rl.algorithms.instructions import Population, alike
from agentgym_rl.algorithms.restarts import task_of
from agentgym_rl.rollout.transcripts import transcript

LONGEST = 2000
"""Most characters of an instruction, and of a failure that the writer reads."""
QUESTION = """Instructions for an agent in the environment {env}, with the mean reward of those who read them:

{known}

Attempts that failed:

{failures}

Write one better instruction, general and short, which keeps the format of actions. Answer with its text alone."""


@dataclass(kw_only=True)
class InspoConfig(GRPOConfig):
    """Keys of ``algorithm=inspo``."""

    instructions: dict[str, list[str]] = field(default_factory=dict)
    """Texts by environment, such as ``{maze: ["Plan first.", ""]}``. An environment that is left out has its own
    instruction alone, which an empty text stands for, too."""
    population: int = 8
    """Most instructions of an environment."""
    tau: float = 0.1
    """Temperature of the draw."""
    eta: float = 0.2
    """Rate of weights and running means."""
    floor: float = 0.05
    """Share of the draws that are uniform."""
    prune_every: int = 20
    """Steps between prunings."""
    min_uses: int = 8
    """Groups that must have read an instruction before it can leave."""
    drop: int = 2
    """Most instructions of an environment that leave, or join, at once."""
    proposals: int = 0
    """Instructions that the run's ``writer`` writes after a pruning, for each environment; 0 needs no writer."""
    episodes: int = 8
    """Newest failures that it reads, one of a group."""
    verify_tasks: int = 16
    """Most tasks, of those of the step, on which the policy tries a proposal once each."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "population", "prune_every", "min_uses", "episodes", "verify_tasks")
        at_least(self, 0, "drop", "proposals")
        above(self, 0, "tau", "eta")
        share(self, "eta", "floor")
        for env, texts in self.instructions.items():
            if not 0 < len({*texts}) == len(texts) <= self.population:
                raise ValueError(
                    f"instructions.{env} has {len(texts)} texts; give 1 to population={self.population}, no two alike"
                )

    @property
    def evolves(self) -> bool:
        """Whether an environment can have several instructions."""
        return self.proposals > 0 or any(len(texts) > 1 for texts in self.instructions.values())

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        keys = dict(super().unused(off_policy=off_policy, environments=environments))
        if not self.proposals:
            keys |= dict.fromkeys(("episodes", "verify_tasks"), "algorithm.proposals=0 asks no writer")
        elif not min(self.drop, self.population - 1):
            why = f"algorithm.drop={self.drop} and algorithm.population={self.population} leave no room for a proposal"
            keys |= dict.fromkeys(("proposals", "episodes", "verify_tasks"), why)
        if not self.drop:
            keys |= dict.fromkeys(("prune_every", "min_uses"), "algorithm.drop=0 lets no instruction leave")
        if not self.evolves:
            rest = ("population", "tau", "eta", "floor", "prune_every", "min_uses", "drop")
            keys |= dict.fromkeys(rest, "each environment has one instruction")
        return keys


class Inspo(GRPO):
    """Groups read instructions, which gain or lose weight by their rewards."""

    Config = InspoConfig
    config: InspoConfig

    def __init__(self, config: InspoConfig) -> None:
        super().__init__(config)
        self.population = Population(tau=config.tau, eta=config.eta, floor=config.floor)
        self.failures: dict[str, list[str]] = {}
        """Transcripts by environment."""
        for env, texts in config.instructions.items():
            for text in texts:
                self.population.add(env, text)

    @classmethod
    def needs(cls, config: Any) -> Needs:
        writer = "algorithm.proposals" if config.proposals else None
        environments = {"algorithm.instructions": {*config.instructions}}
        return replace(
            super().needs(config),
            writer=writer,
            whole_steps=writer,  # trials and the groups of a next step would wait in one queue
            by_environment="algorithm=inspo",
            environments=environments,
        )

    def prompt(self, env: str) -> str:
        return self.population.best(env).text

    def plan(self, seed: int, number: int, requests: Sequence[Request]) -> list[Request]:
        """The requests of a step, each with an instruction."""
        rng, planned = random.Random(f"{seed} {number} instructions"), []
        for request in requests:
            drawn = self.population.draw(request.task.env, rng)
            planned.append(replace(request, prompt=drawn.text, tags={**request.tags, "instruction": drawn.id}))
        return planned

    def batches(self, run: Run, number: int) -> Iterator[list[Rollout]]:
        if not self.config.evolves:  # the one instruction of an environment is that of all its episodes
            yield from super().batches(run, number)
            return
        met: dict[str, list[Rollout]] = {}
        yield from self.planned(run, number, partial(self.plan, run.seed), met)
        self.population.steps += 1
        for group in met.values():
            self.observe(group)
        if self.population.steps % self.config.prune_every == 0:
            for env in sorted({group[0].episode.env for group in met.values()}):
                self.population.prune(env, self.config.min_uses, self.config.drop)
                tasks = [task_of(group[0].episode) for group in met.values() if group[0].episode.env == env]
                self.propose(run, env, [run.request(number, task) for task in tasks[: self.config.verify_tasks]])
        if number == self.units - 1:
            for line in self.population.lines():
                run.say(line)

    def observe(self, group: Sequence[Rollout]) -> None:
        """Take in a group, and one of its failures."""
        episodes = [rollout.episode for rollout in group]
        env, read = episodes[0].env, episodes[0].tags.get("instruction")
        self.population.observe(env, read, fmean(episode.reward for episode in episodes))
        failed = [episode.messages for episode in episodes if not episode.success][: bool(self.config.proposals)]
        transcripts = [transcript(messages, LONGEST) for messages in failed]
        self.failures[env] = [*self.failures.get(env, []), *transcripts][-self.config.episodes :]

    def propose(self, run: Run, env: str, requests: Sequence[Request]) -> None:
        """Let the writer write instructions, try them on the requests, and take the best."""
        config, instructions = self.config, self.population.of(env)
        room = min(config.drop, config.population - len(instructions))
        if not config.proposals or not self.failures[env] or room < 1:
            return
        listed = "\n\n".join(f"{each.text or '(none)'} (reward {each.reward:.2f})" for each in instructions)
        question = QUESTION.format(env=env, known=listed, failures="\n\n---\n\n".join(self.failures[env]))
        (texts,) = run.generate([[{"role": "user", "content": question}]], samples=config.proposals, by="writer")
        tried: list[tuple[float, str]] = []
        for text in (text.strip() for text in texts):
            others = [*(each.text for each in instructions), *(other for _, other in tried)]
            if text and len(text) <= LONGEST and not any(alike(text, other) for other in others):
                tried += [(reward, text) for reward in self.trial(run, requests, text)]
        for _, text in sorted(tried, key=lambda pair: -pair[0])[:room]:
            run.say(f"{env} has a new instruction: {text}")
            self.population.join(env, text)

    def trial(self, run: Run, requests: Sequence[Request], text: str) -> list[float]:
        """The mean reward of a text; none where it breaks the format of actions."""
        asked = [replace(request, prompt=text) for request in requests]
        episodes = [rollout.episode for rollout in run.rollouts(asked, "trial") if rollout.episode.ending.counts]
        invalid = [turn.invalid for episode in episodes for turn in episode.turns]
        return [fmean(episode.reward for episode in episodes)] if invalid and fmean(invalid) <= 0.5 else []

    def metrics(self, rollouts: Sequence[Rollout]) -> Metrics:
        envs, population = sorted({rollout.episode.env for rollout in rollouts}), self.population
        if not envs or not self.config.evolves:
            return {}
        return {
            "inspo/entropy": fmean(population.entropy(env) for env in envs),
            "inspo/best_weight": fmean(population.best(env).weight for env in envs),
            "inspo/age_of_best": fmean(population.steps - population.best(env).born for env in envs),
        }

    def state_dict(self) -> dict[str, Any]:
        return {"shaping": super().state_dict(), "population": self.population.state(), "failures": self.failures}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state["shaping"])
        self.population.load(state["population"])
        self.failures = dict(state["failures"])
