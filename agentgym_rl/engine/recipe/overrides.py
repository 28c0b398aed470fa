"""The words of a command line, checked one by one and spelled out as Hydra wants them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException

from agentgym_rl.engine.recipe.migration import translated
from agentgym_rl.engine.recipe.schema import BLOCKS, CHOSEN, RecipeError
from agentgym_rl.rollout import pretrained

_EVERYWHERE = {"env.host": "kind", "env.address": "address"}
"""Keys of a host that may be given for every environment."""

_ROUNDS = "algorithm.rounds_ctrl."
"""AgentGym-RL's keys of a curriculum."""


def key(override: str) -> str:
    """``seed`` of ``seed=1``, also of ``+seed=1`` and ``~seed``."""
    return override.partition("=")[0].lstrip("+~")


def check(overrides: Sequence[str], options: Callable[[str], Sequence[str]]) -> None:
    """Every word is ``KEY=VALUE``, or takes out what recipes add, and no key is AgentGym-RL's or verl's.

    Args:
        options: what a group can be set to.

    Raises:
        RecipeError: one is not; names the word, and ours.
    """
    for word in overrides:
        if word[:1] != "~" and (not key(word) or "=" not in word):
            meant = f"; did you mean experiment={word}?" if word in options("experiment") else "; write it like seed=1"
            raise RecipeError(f"{word!r} is not KEY=VALUE{meant}")
        if word[:1] == "~" and not key(word).startswith(("envs.", "verl.")):
            raise RecipeError(f"{word} takes out a key that every run has; give it another value: {key(word)}=VALUE")
    if theirs := translated(map(key, overrides)):
        raise RecipeError(f"{theirs}\nAll keys: docs/from-agentgym-rl.md")


def check_repeated(overrides: Sequence[str]) -> None:
    """No key is given two values, of which the last would count.

    Raises:
        RecipeError: one is.
    """
    first: dict[str, str] = {}
    for word in overrides:
        for name in map(key, spelled_out(word)):
            if word[:5] != "+env=" and word != first.setdefault(name, word):
                raise RecipeError(f"{first[name]} and {word} are both given; leave out one of them")


def unreadable(error: Exception) -> str | None:
    """The message for an override that is not in Hydra's grammar; None where it is."""
    if several := re.match(r"Ambiguous value for argument '(.+?)=(.+)'", str(error)):
        name, values = several.groups()
        return f"{name}={values} has several values; `train -m` runs one after the other, {name}=[{values}] is a list"
    if not isinstance(error, OverrideParseException):
        return None
    name, _, value = error.override.partition("=")
    return f"{error.override!r} cannot be read; quote the value, such as '{name}=\"{value}\"'"


def everywhere(override: str) -> tuple[str, str] | None:
    """Key and value of a host's setting that is given for every environment."""
    name, _, value = override.partition("=")
    return None if name not in _EVERYWHERE else (_EVERYWHERE[name], value)


def spelled_out(override: str) -> list[str]:
    """An override as Hydra wants it."""
    name, _, value = override.partition("=")
    group, _, last = key(override).partition(".")
    if last == CHOSEN.get(group):
        raise RecipeError(f"{name} holds the choice that {group}={value} makes; write that")
    if name in BLOCKS:
        name = f"{name}.{BLOCKS[name]}"
        override = f"{name}={value}"
    if name == "+env":
        return [f"+env@envs={value}"]
    if name == "model" and "/" in value:
        return ["model=hf", f"++model.path={value}"]
    if name == "model" and ":" in value and pretrained.find(value) is not None:
        return [f"model={value.partition(':')[0]}", f"++model.path={value}"]
    return [f"++{override}" if "." in name and name[0] not in "+~" else override]


def with_curriculum(overrides: Sequence[str]) -> list[str]:
    """The overrides, with AgentGym-RL's keys of a curriculum as ours.

    Raises:
        RecipeError: a value is not AgentGym-RL's, or there are keys of both.
    """
    theirs = [word for word in overrides if key(word).startswith(_ROUNDS)]
    if not theirs:
        return list(overrides)
    ours = [word for word in overrides if word not in theirs]
    if any(key(word).partition(".")[0] == "curriculum" for word in ours):
        raise RecipeError("algorithm.rounds_ctrl and curriculum are both set; they mean the same, give one")
    parsed = OverridesParser.create().parse_overrides(theirs)
    settings: dict[str, Any] = {key(str(word.input_line)).removeprefix(_ROUNDS): word.value() for word in parsed}
    keys = {"type": "curriculum", "rounds": "curriculum.rounds", "steps_scaling_inter": "curriculum.steps"}
    if unknown := sorted(set(settings) - set(keys)):
        raise RecipeError(f"{_ROUNDS}{unknown[0]} is unknown; AgentGym-RL's keys are {', '.join(keys)}")
    types = {"fixed": "fixed", "scaling_inter_stepwise": "stepwise"}
    if settings.get("type") not in types:
        raise RecipeError(f"{_ROUNDS}type={settings.get('type')!r} is unknown; choose {', '.join(types)}")
    if settings.get("rounds") is None:
        raise RecipeError(f"{_ROUNDS}rounds is missing")
    if settings["type"] == "fixed":
        settings.pop("steps_scaling_inter", None)  # AgentGym-RL's scripts set it for both
    rounds = settings["rounds"] if isinstance(settings["rounds"], list) else [settings["rounds"]]
    values = {**settings, "type": types[settings["type"]], "rounds": f"[{','.join(map(str, rounds))}]"}
    return [*ours, *(f"{keys[name]}={value}" for name, value in values.items())]


_NAME = re.compile(r"\w[\w.,=+@-]*")


def check_place(name: str, folder: str) -> None:
    """A run's name names a folder below ``runs/``, and nothing else.

    Raises:
        RecipeError: it does not, or the folder has no name.
    """
    if _NAME.fullmatch(name) is None:
        raise RecipeError(
            f"name={name!r} must be letters, digits and . _ - = , + @ and begin with a letter or digit, like "
            "name=my_run; run.dir=FOLDER puts a run elsewhere"
        )
    if not folder.strip():
        raise RecipeError("run.dir is empty; give a folder, or leave it out for runs/<name>")
