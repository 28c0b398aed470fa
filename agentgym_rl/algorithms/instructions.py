r"""A population of instructions for each environment, drawn by weights that follow rewards.

An instruction is drawn with probability

.. math:: p_j = (1 - \varphi) \, \mathrm{softmax}(w / \tau)_j + \varphi / n

and a group with mean reward :math:`R_g` moves the weight of the one it read, and its environment's running mean:

.. math:: w_j \leftarrow w_j + \eta (R_g - b), \qquad b \leftarrow b + \eta (R_g - b)

so that an environment that is hard blames no instruction. :math:`b` begins as the first reward, which moves no weight.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass(slots=True, kw_only=True)
class Instruction:
    """A text that groups read."""

    id: int
    env: str
    text: str
    """Empty for the environment's own instruction alone."""
    weight: float = 0.0
    uses: int = 0
    """Groups that read it."""
    reward: float = 0.0
    """Mean of theirs."""
    born: int = 0
    """Steps before it came."""


@dataclass(kw_only=True)
class Population:
    """The instructions of all environments; an environment without any has its own alone."""

    tau: float
    eta: float
    floor: float
    known: list[Instruction] = field(default_factory=list)
    next_id: int = 0
    steps: int = 0
    """Steps so far."""
    means: dict[str, float] = field(default_factory=dict)
    """Running means of rewards by environment."""

    def add(self, env: str, text: str, weight: float = 0.0) -> None:
        self.known.append(Instruction(id=self.next_id, env=env, text=text, weight=weight, born=self.steps))
        self.next_id += 1

    def of(self, env: str) -> list[Instruction]:
        if not any(each.env == env for each in self.known):
            self.add(env, "")
        return [each for each in self.known if each.env == env]

    def best(self, env: str) -> Instruction:
        """The one with the greatest weight; the first of equals."""
        return max(self.of(env), key=lambda each: each.weight)

    def chances(self, env: str) -> list[float]:
        """Of its instructions to be drawn."""
        instructions = self.of(env)
        top = max(each.weight for each in instructions)
        odds = [math.exp((each.weight - top) / self.tau) for each in instructions]
        return [(1 - self.floor) * each / sum(odds) + self.floor / len(instructions) for each in odds]

    def entropy(self, env: str) -> float:
        """Of a draw, in nats."""
        return -sum(chance * math.log(chance) for chance in self.chances(env) if chance)

    def draw(self, env: str, rng: random.Random) -> Instruction:
        return rng.choices(self.of(env), self.chances(env))[0]

    def observe(self, env: str, number: int | None, reward: float) -> None:
        """Take in the mean reward of a group that read an instruction; one that has left is not weighed."""
        mean = self.means.setdefault(env, reward)
        for each in self.of(env):
            if each.id == number:
                each.weight += self.eta * (reward - mean)
                each.reward += (reward - each.reward) / (each.uses + 1)
                each.uses += 1
        self.means[env] = mean + self.eta * (reward - mean)

    def prune(self, env: str, min_uses: int, drop: int) -> None:
        """Take out the lowest; those without enough uses stay, and always one."""
        instructions = sorted(self.of(env), key=lambda each: each.weight)
        lowest = instructions[: min(drop, len(instructions) - 1)]
        gone = {each.id for each in lowest if each.uses >= min_uses}
        self.known = [each for each in self.known if each.id not in gone]

    def join(self, env: str, text: str) -> None:
        """Add one with the median weight."""
        self.add(env, text, median(each.weight for each in self.of(env)))

    def lines(self) -> Iterator[str]:
        """A line for each instruction."""
        for env in sorted({each.env for each in self.known}):
            for each, chance in zip(self.of(env), self.chances(env), strict=True):
                read = f"{each.uses} groups, reward {each.reward:.2f}"
                yield f"{env}: {chance:.1%} of the draws, {read}: {each.text or '(its own instruction alone)'}"

    def state(self) -> dict[str, Any]:
        """JSON types."""
        known = [asdict(each) for each in self.known]
        return {"known": known, "next_id": self.next_id, "steps": self.steps, "means": dict(self.means)}

    def load(self, state: Mapping[str, Any]) -> None:
        """The inverse of :meth:`state`."""
        self.known = [Instruction(**each) for each in state["known"]]
        self.next_id, self.steps, self.means = state["next_id"], state["steps"], dict(state["means"])


def alike(text: str, other: str) -> bool:
    """Whether more than 90% of the words of two texts are in both."""
    words, others = ({*each.casefold().split()} for each in (text, other))
    return words == others or len(words & others) > 0.9 * len(words | others)
