r"""Early experience (arXiv 2510.08558): what follows other actions than the expert's.

At each state :math:`s_i` of a demonstration the policy as it is takes ``alternatives`` actions :math:`a_i^j`, and the
environment answers :math:`s_i^j`. With ``mode=world`` the first passes learn these observations, and those that the
expert met,

.. math:: L = - \sum \log p(s_i^j | s_i, a_i^j)

over the tokens between two responses. The rest clone the demonstrations. With ``budget=equal`` both together make as
many updates as ``epochs`` passes of cloning alone. With ``mode=reflection`` a writer is shown :math:`s_{i+1}` and
:math:`s_i^j`, and writes the expert's response again with a reason for its action; where the action is still the
expert's, cloning learns it in the place of some demonstrations.

Departures: an observation enters the tokens of an episode when the next response begins, so an action that ends the
episode has no example of it. A branch is one row, and a demonstration is one row of all its turns, so there are many
more of the former: with ``budget=equal`` cloning keeps the updates of one pass, whatever there is to observe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, compress, cycle, islice, pairwise
from random import Random
from statistics import fmean
from typing import Any

from agentgym_rl.algorithms.base import Algorithm, Metrics, Needs, Request, Rollout, Run
from agentgym_rl.algorithms.bc import Cloning, demonstrated
from agentgym_rl.algorithms.checks import above, at_least, share
from agentgym_rl.algorithms.config import AlgorithmConfig, within
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.optimizer import OptimizerConfig, SupervisedOptimizerConfig
from agentgym_rl.algorithms.reflections import Alternative, asked
from agentgym_rl.algorithms.restarts import keys, task_of
from agentgym_rl.algorithms.rows import PerToken, Row, span
from agentgym_rl.data.episode import Turn, shallow
from agentgym_rl.rollout.prefix import Prefix, Replayed
from agentgym_rl.rollout.supervised import Example

HELD_OUT = 10
"""Of so many demonstrations the branches of one are not learned: they tell how well next states are known."""


class Mode(StrEnum):
    """What is made of branches."""

    WORLD = "world"
    REFLECTION = "reflection"
    BOTH = "both"


class Budget(StrEnum):
    """Whether passes over observations take updates from cloning."""

    EQUAL = "equal"
    EXTRA = "extra"


@dataclass(kw_only=True)
class EarlyExperienceConfig(AlgorithmConfig):
    """Keys of ``algorithm=early_experience``."""

    epochs: int = 3
    """Passes over demonstrations."""
    lr: float = 1e-5
    """Learning rate of the first of them; by default it falls linearly to a tenth."""
    mini_batch_trajectories: int = 16
    """Demonstrations, or branches, of an update."""
    optimizer: SupervisedOptimizerConfig = field(default_factory=SupervisedOptimizerConfig)
    """Schedule of the learning rate, and AdamW's settings."""
    mode: Mode = Mode.WORLD
    """Learn next states (world), reflections of the run's ``writer`` (reflection), or both."""
    alternatives: int = 4
    """Actions of the policy at a state, :math:`K`, at most 16; 0 takes none. The paper's reflections have 2 to 4."""
    states: int | None = None
    """States of a demonstration, drawn; null takes all."""
    include_expert: bool = True
    """Also learn the observations of demonstrations."""
    temperature: float = 1.0
    """Sampling temperature of branches."""
    resamples: int = 3
    """How often at most the policy is asked for another command than the expert's."""
    iwm_epochs: int = 1
    """Passes over observations; 0 is cloning."""
    iwm_lr: float | None = None
    """Their learning rate; null takes ``lr``."""
    budget: Budget = Budget.EQUAL
    """Updates on observations are taken from those of cloning (equal), or come on top (extra)."""
    reflection_share: float = 0.5
    """Share of reflections among the rows of a pass of cloning, which has as many as there are demonstrations."""

    def __post_init__(self) -> None:
        share(self, "reflection_share")
        at_least(self, 1, "epochs", "mini_batch_trajectories", *(["states"] if self.states is not None else []))
        at_least(self, 0, "alternatives", "resamples", "iwm_epochs")
        above(self, 0, "lr", "temperature", *(["iwm_lr"] if self.iwm_lr is not None else []))
        if self.alternatives > 16:
            raise ValueError(f"alternatives must be at most 16, got {self.alternatives}")
        if self.reflects:
            above(self, 0, "reflection_share")
        if self.reflects and not self.alternatives:
            raise ValueError(f"mode={self.mode} compares the expert with others; set alternatives above 0")
        if self.passes and not self.alternatives and not self.include_expert:
            raise ValueError("alternatives=0 with include_expert=false observes nothing; iwm_epochs=0 clones alone")
        if self.passes and self.budget is Budget.EQUAL and self.epochs < 2:
            raise ValueError("budget=equal takes from the passes after the first; set epochs=2, or budget=extra")

    @property
    def reflects(self) -> bool:
        """Whether a writer is asked."""
        return self.mode is not Mode.WORLD

    @property
    def passes(self) -> int:
        """Passes over observations."""
        return 0 if self.mode is Mode.REFLECTION else self.iwm_epochs

    @property
    def branches(self) -> bool:
        """Whether the policy takes actions of its own."""
        return bool(self.alternatives and (self.passes or self.reflects))

    @property
    def updates(self) -> OptimizerConfig:
        return self.optimizer

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        reasons = dict(within("optimizer", self.optimizer.unused()))
        reflecting = self.mode is Mode.REFLECTION
        if not self.passes:
            why = "mode=reflection" if reflecting else "iwm_epochs=0"
            observing = ("include_expert", "iwm_lr", "budget", *(["iwm_epochs"] if reflecting else []))
            reasons |= dict.fromkeys(observing, f"algorithm.{why} learns no observations")
        if not self.branches:
            why = "alternatives=0" if self.passes else "iwm_epochs=0"
            branching = ("states", "temperature", "resamples", *([] if self.passes else ["alternatives"]))
            reasons |= dict.fromkeys(branching, f"algorithm.{why} has no branches")
        if not self.reflects:
            reasons |= {"reflection_share": "algorithm.mode=world has no reflections"}
        return reasons


class EarlyExperience(Algorithm[EarlyExperienceConfig]):
    """One unit of branches, passes over observations, a unit of reflections, and passes of cloning."""

    Config = EarlyExperienceConfig

    def __init__(self, config: EarlyExperienceConfig) -> None:
        super().__init__(config)
        self.branches: list[Row] = []
        """Up to the observation, which has the weight."""
        self.held_out: list[Example] = []
        """The same of other demonstrations, with the weight as that of own tokens, which :meth:`.Run.score` scores."""
        self.alternatives: list[Alternative] = []
        """What the writer is asked about."""
        self.reflections: list[Row] = []

    @classmethod
    def needs(cls, config: EarlyExperienceConfig) -> Needs:
        name = "algorithm=early_experience"
        return Needs(
            demonstrations=True,
            full_context=name if config.passes or config.reflects else None,
            replays=name if config.branches else None,
            writer=f"algorithm.mode={config.mode}" if config.reflects else None,
            equal_updates={"algorithm.mini_batch_trajectories": config.mini_batch_trajectories},
        )

    @property
    def phases(self) -> list[Callable[[Run, int], Metrics]]:
        """What each unit does, given its place among those that do the same."""
        config = self.config
        first = [self.branch] if config.passes or config.reflects else []
        reflecting = [self.reflect] if config.reflects else []
        return [*first, *[self.observe] * config.passes, *reflecting, *[self.clone] * config.epochs]

    @property
    def units(self) -> int:
        return len(self.phases)

    def ends_phase(self, number: int) -> bool:
        before, *after = self.phases[number : number + 2]
        return after != [before] and before != self.clone

    def unit(self, run: Run, number: int) -> Metrics:
        phase = self.phases[number]
        return phase(run, number - self.phases.index(phase))

    def branch(self, run: Run, _: int) -> Metrics:
        """Roll out the branches; keep what follows other actions than the expert's."""
        places = enumerate(run.demonstrations)
        requests = [request for place, rollout in places for request in self.requests(run, place, rollout)]
        rollouts = run.rollouts(requests, "branches", resumable=True) if requests else []
        without = Counter(filter(None, map(self.keep, rollouts)))
        counts = {"branches": len(rollouts), "examples": len(self.branches), "held_out": len(self.held_out)}
        counts |= {str(why): without[why] for why in Without}
        return {f"ee/{name}": float(count) for name, count in counts.items()} | self.next_state_loss(run)

    def keep(self, rollout: Rollout) -> Without | None:
        """Take in a branch; returns why nothing, or no observation, of it is learned, where that is so."""
        turns = other(rollout)
        if isinstance(turns, Without):
            return turns
        tags = rollout.episode.tags
        if self.config.reflects:
            first = turns[0]
            self.alternatives.append(
                Alternative(
                    demonstration=tags["demonstration"],
                    turn=tags["turn"],
                    response=first.response,
                    observation=first.observation,
                )
            )
        if self.config.passes and len(turns) == 1:
            return Without.ENDED
        if self.config.passes:
            segment = cut(rollout.segments[0], turns[1])
            weights = between(segment, turns)
            if tags["demonstration"] % HELD_OUT == HELD_OUT - 1:
                self.held_out.append(replace(segment, loss_weight=weights))
            else:
                self.branches.append(weighted(segment, weights))
        return None

    def requests(self, run: Run, place: int, demonstration: Rollout) -> list[Request]:
        """Branches of a demonstration: its first turns again, then two of the policy."""
        episode, config = demonstration.episode, self.config
        responses, known = [turn.response for turn in episode.turns], keys(episode)
        states = [length for length in range(len(responses)) if all(responses[:length])] if config.alternatives else []
        if config.states is not None and config.states < len(states):
            states = sorted(Random(f"{run.seed}:states:{episode.item_id}").sample(states, config.states))
        return [
            run.request(
                0,
                task_of(episode),
                samples=config.alternatives,
                temperature=config.temperature,
                max_turns=length + 2,
                prefix=Prefix(
                    responses=[Replayed(text=response) for response in responses[:length]],
                    avoid=[said(episode.turns[length])],
                    resamples=config.resamples,
                ),
                tags={
                    "state": known[length],
                    "expert": said(episode.turns[length]),
                    "demonstration": place,
                    "turn": length,
                },
            )
            for length in states
        ]

    def observe(self, run: Run, epoch: int) -> Metrics:
        """One pass over observations."""
        config, rows = self.config, self.observed(run)
        shared = None
        if config.budget is Budget.EQUAL:
            shared = part(self.taken(run), epoch, config.passes)
        return self.learn(run, rows, config.iwm_lr or config.lr, epoch, shared) | self.next_state_loss(run)

    def next_state_loss(self, run: Run) -> Metrics:
        """The loss of observations that are held out, in nats a token, at the temperature of rollouts."""
        if not self.held_out:
            return {}
        scored = run.score([Row(segment, {}) for segment in self.held_out], name=SCORE, read=True)
        tokens = chain.from_iterable(row.streams[SCORE] for row in scored)  # type: ignore[misc]
        weights = chain.from_iterable(segment.loss_weight for segment in self.held_out)
        return {"ee/next_state_loss": -fmean(compress(tokens, weights))}

    def reflect(self, run: Run, _: int) -> Metrics:
        """Ask the writer why the expert's actions are better."""
        self.reflections = asked(run, self.alternatives)
        return {"ee/reflections": float(len(self.alternatives)), "ee/reflections_kept": float(len(self.reflections))}

    def clone(self, run: Run, epoch: int) -> Metrics:
        """One pass over demonstrations, or less."""
        config, rows, shared = self.config, self.mixed(run, epoch), None
        if config.budget is Budget.EQUAL and config.passes:
            shared = part(config.epochs * self.whole(rows) - self.taken(run), epoch, config.epochs)
        return self.learn(run, rows, config.optimizer.rate(config.lr, epoch, config.epochs), epoch, shared)

    def mixed(self, run: Run, epoch: int) -> list[Row]:
        """Rows of a pass of cloning: each reflection is drawn once before one is drawn again."""
        demonstrations, reflections = demonstrated(run), list(self.reflections)
        count = round(len(demonstrations) * self.config.reflection_share) if reflections else 0
        if not count:
            return demonstrations
        draw = Random(f"{run.seed}:reflections:{epoch}")
        draw.shuffle(reflections)
        return [*draw.sample(demonstrations, len(demonstrations) - count), *islice(cycle(reflections), count)]

    def observed(self, run: Run) -> list[Row]:
        """All that passes over observations learn."""
        shown = run.demonstrations if self.config.include_expert else ()
        return [*(row for rollout in shown for row in observations(rollout)), *self.branches]

    def whole(self, rows: Sequence[Row]) -> int:
        """Updates of a pass."""
        return -(-len(rows) // self.config.mini_batch_trajectories)

    def taken(self, run: Run) -> int:
        """Updates that passes over observations take from cloning."""
        config = self.config
        most = (config.epochs - 1) * self.whole(demonstrated(run))
        return min(config.passes * self.whole(self.observed(run)), most)

    def learn(self, run: Run, rows: Sequence[Row], lr: float, epoch: int, updates: int | None) -> Metrics:
        """One pass, or so many updates of it; the rows are shuffled as in the same pass of cloning."""
        if not rows or updates == 0:
            return {}
        return run.learn(
            rows,
            CROSS_ENTROPY,
            lr=lr,
            mini_batch=self.config.mini_batch_trajectories,
            updates=None if updates == self.whole(rows) else updates,
            seed=f"{run.seed}:{Cloning.stage}",
            first_epoch=epoch,
        )

    def state_dict(self) -> dict[str, Any]:
        learned = {"branches": self.branches, "reflections": self.reflections}
        saved = {
            name: [{"segment": shallow(row.segment), "weights": row.streams["cross_entropy"]} for row in rows]
            for name, rows in learned.items()
        }
        return {
            **saved,
            "held_out": [shallow(segment) for segment in self.held_out],
            "alternatives": [shallow(each) for each in self.alternatives],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.branches, self.reflections = (
            [weighted(Example(**saved["segment"]), saved["weights"]) for saved in state[name]]
            for name in ("branches", "reflections")
        )
        self.held_out = [Example(**saved) for saved in state["held_out"]]
        self.alternatives = [Alternative(**saved) for saved in state["alternatives"]]


SCORE = "next_state"
"""The stream of a row's scores."""


class Without(StrEnum):
    """Why a branch has no example."""

    LOST = "lost"
    """It does not count."""
    DIVERGED = "diverged"
    """Its replay met other observations."""
    REPEATED = "repeated"
    """The policy took the expert's action after all."""
    ENDED = "ended"
    """No response follows the action: the episode is over, or its context full."""


def other(rollout: Rollout) -> list[Turn] | Without:
    """The turn of a branch that leaves the expert, and the next one where there is one."""
    episode, reached = rollout.episode, keys(rollout.episode)
    if not rollout.segments:
        return Without.LOST
    if episode.tags["state"] not in reached:
        return Without.DIVERGED
    turns = episode.turns[reached.index(episode.tags["state"]) :][:2]
    if not turns:
        return Without.ENDED
    return Without.REPEATED if said(turns[0]) == episode.tags["expert"] else turns


def observations(rollout: Rollout) -> list[Row]:
    """All that stands between the responses of a demonstration."""
    turns = rollout.episode.turns
    return [weighted(segment, between(segment, turns)) for segment in rollout.segments if len(turns) > 1]


def between(segment: Example, turns: Sequence[Turn]) -> list[float]:
    """1 on the tokens between the responses of these turns, 0 on all others."""
    weights = [0.0] * len(segment.input_ids)
    for turn, after in pairwise(turns):
        start, end = span(segment, turn)[1], span(segment, after)[0]
        weights[start:end] = [1.0] * (end - start)
    return weights


def weighted(segment: Example, weights: Sequence[float]) -> Row:
    """A row with these weights of its tokens."""
    return Row(segment, {"cross_entropy": PerToken(weights)})


def cut(segment: Example, turn: Turn) -> Example:
    """What stands before the response of a turn."""
    end, _ = span(segment, turn)
    return Example(segment.input_ids[:end], segment.loss_weight[:end], segment.prompt)


def said(turn: Turn) -> str:
    """The command of a turn; the response where none could be read."""
    return turn.response if turn.action is None else turn.action


def part(total: int, number: int, parts: int) -> int:
    """Whole numbers that add up to ``total`` over ``parts``, as even as can be."""
    return (number + 1) * total // parts - number * total // parts
