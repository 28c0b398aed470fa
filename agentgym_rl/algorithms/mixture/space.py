"""The settings that an environment may have in training: its knobs without what is held out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from typing import Any

from agentgym_rl.envs.knobs import Knob, Setting

Settings = Mapping[str, Setting]
"""A value for each knob that moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustable:
    """An environment of a run whose options a mixture may set."""

    knobs: Sequence[Knob]
    options: Mapping[str, Any]
    """Options that the recipe sets; these do not move."""
    demonstrated: bool
    """Whether the run has demonstrations of it."""
    tasks: Callable[[str, Settings], Sequence[int]]
    """Training tasks of the part with this name and these settings. Raises ValueError: there are none, or the
    environment's oracle does not solve them."""


@dataclass(frozen=True, slots=True)
class Space:
    """The settings of one environment."""

    env: str
    knobs: tuple[Knob, ...]

    def draw(self, rng: Random) -> Settings:
        return {knob.option: rng.choice(knob.values) for knob in self.knobs}

    def mutated(self, settings: Settings, rng: Random) -> Settings:
        """One knob moves one step."""
        movable = [knob for knob in self.knobs if len(knob.values) > 1]
        if not movable:
            return settings
        knob = rng.choice(movable)
        return {**settings, knob.option: rng.choice(knob.near(settings[knob.option]))}

    def crossed(self, settings: Settings, other: Settings, rng: Random) -> Settings:
        """Each knob from one of two parents."""
        return {knob.option: rng.choice((settings, other))[knob.option] for knob in self.knobs}

    def distance(self, settings: Settings, other: Settings) -> float:
        """Mean over the knobs, each in [0, 1]."""
        return fmean(knob.distance(settings[knob.option], other[knob.option]) for knob in self.knobs)


def spaces(
    envs: Sequence[str], adjustable: Mapping[str, Adjustable], held_out: Mapping[str, Sequence[Any]]
) -> dict[str, Space]:
    """The space of each environment that takes part.

    Args:
        envs: those with a share.
        adjustable: all of the run.
        held_out: values that never occur in training, by knob.

    Raises:
        ValueError: an environment has no knob that moves, or trains on a value that is held out; ``held_out`` names no
            knob, no value of it, all of them, or of nested values another end than the last.
    """
    space_of = {}
    for env in envs:
        moving = [knob for knob in adjustable[env].knobs if knob.option not in adjustable[env].options]
        if not moving:
            raise ValueError(
                f"mixture=frontier moves the knobs of environments, and {env} has none that envs.{env}.options leaves "
                "free (an environment on a server has none); choose another mixture, or give it a share of 0"
            )
        space_of[env] = Space(env, tuple(_trained(knob, held_out) for knob in moving))
    values: dict[str, dict[Setting, None]] = {}
    for env in envs:
        for knob in adjustable[env].knobs:
            values.setdefault(knob.option, {}).update(dict.fromkeys(knob.values))
    for option, held in held_out.items():
        if option not in values:
            raise ValueError(f"mixture.held_out names {option}, which is no knob; knobs: {', '.join(values) or 'none'}")
        if unknown := [value for value in held if value not in values[option]]:
            known = ", ".join(map(str, values[option]))
            raise ValueError(f"mixture.held_out.{option}: {unknown[0]!r} is no value of it; choose among {known}")
    for env, of_env in adjustable.items():
        for knob in of_env.knobs:
            if knob.option in held_out and (env in envs or of_env.demonstrated):
                _check(env, of_env, knob, held_out[knob.option])
    return space_of


def _trained(knob: Knob, held_out: Mapping[str, Sequence[Any]]) -> Knob:
    """A knob without the values that are held out."""
    return replace(knob, values=tuple(value for value in knob.values if value not in held_out.get(knob.option, ())))


def _check(env: str, of_env: Adjustable, knob: Knob, held: Sequence[Any]) -> None:
    """Raises ValueError: see :func:`spaces`."""
    place = f"mixture.held_out.{knob.option}=[{','.join(map(str, held))}]"
    trained = [value for value in knob.values if value not in held]
    if not trained:
        raise ValueError(f"{place} leaves no value of {env} to train on; hold out fewer")
    if knob.nested and tuple(trained) != knob.values[: len(trained)]:
        raise ValueError(f"{place}: larger values of {env} have the same tasks, too; hold out the largest")
    fixed = of_env.options.get(knob.option)
    if fixed in held:
        raise ValueError(f"{place}, but envs.{env}.options.{knob.option}={fixed} trains on it; set another value")
    if of_env.demonstrated and fixed is None:
        raise ValueError(
            f"{place}, but the demonstrations of envs.{env} may have it; set envs.{env}.options.{knob.option} to "
            "another value, or take them from a part of the environment of their own"
        )
