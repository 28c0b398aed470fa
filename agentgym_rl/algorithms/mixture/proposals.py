"""Settings that a writer proposes: what it is asked, and what its answer holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym_rl.algorithms.mixture.individual import Individual
from agentgym_rl.algorithms.mixture.space import Settings, Space
from agentgym_rl.envs.knobs import Knob, Setting
from agentgym_rl.rollout.answers import Unreadable, json_in

ENV = "environment"
"""Key of a proposal beside its knobs."""
QUESTION = """An agent learns in environments whose settings can be changed. It learns most from settings with which \
it succeeds in about half of its episodes. The settings, and their values:

{spaces}

How often it succeeds with those that it played last:

{played}

Propose {number} other settings, unlike each other, with which it would succeed in about half of its episodes. Answer \
with a JSON list of {number} objects like this one, and nothing else:

{example}"""


def question(spaces: Mapping[str, Space], played: Sequence[Individual], number: int) -> str:
    """What a writer is asked.

    Args:
        spaces: values that are held out are not among theirs.
        played: those without episodes are left out.
    """
    values = [
        f"{env}: " + "; ".join(f"{knob.option} = {_values(knob)}" for knob in space.knobs)
        for env, space in spaces.items()
    ]
    tried = [
        f"{_proposal(each.env, each.settings)}: {each.success.mean:.0%} in {each.episodes} episodes"
        for each in sorted(played, key=lambda each: each.success.mean)
        if each.episodes
    ]
    env, space = next(iter(spaces.items()))
    example = {knob.option: knob.values[0] for knob in space.knobs}
    return QUESTION.format(
        spaces="\n".join(values), played="\n".join(tried) or "(none yet)", number=number,
        example=_proposal(env, example),
    )  # fmt: skip


def proposals(answer: str) -> list[Any]:
    """The items of an answer's list.

    Raises:
        Unreadable: there is no JSON list.
    """
    items: list[Any] = json_in(answer, "[", "]", "list")
    return items


def read(proposal: Any, spaces: Mapping[str, Space]) -> tuple[str, Settings]:
    """The environment and the settings of an item.

    Raises:
        Unreadable: it names no environment, lacks a knob or has another key, or a value is none that may be drawn.
    """
    if not isinstance(proposal, dict):
        raise Unreadable(f"{_short(proposal)} is no object")
    env = str(proposal.get(ENV))
    if env not in spaces:
        raise Unreadable(f"{ENV}={_short(env)} is none of {', '.join(spaces)}")
    knobs = {knob.option: knob for knob in spaces[env].knobs}
    if unknown := proposal.keys() - {ENV, *knobs}:
        raise Unreadable(f"{_short(min(unknown))} is no setting of {env}")
    return env, {option: _value(knob, proposal.get(option)) for option, knob in knobs.items()}


def _value(knob: Knob, given: Any) -> Setting:
    """A number may be written as text."""
    known = {str(value): value for value in knob.values}
    if str(given) not in known:
        raise Unreadable(f"{knob.option}={_short(given)} is none of {_values(knob)}")
    return known[str(given)]


def _values(knob: Knob) -> str:
    return ", ".join(map(str, knob.values))


def _proposal(env: str, settings: Settings) -> str:
    return json.dumps({ENV: env, **settings})


def _short(value: Any) -> str:
    return str(value)[:80]
