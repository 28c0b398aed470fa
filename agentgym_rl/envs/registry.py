"""Environments, found by entry point: any installed package can bring one."""

import inspect
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agentgym_rl.envs import own_files
from agentgym_rl.envs.core import EnvError, MissingExtra, TextEnv, UnknownEnv
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.quoted import conversations

GROUP = "agentgym_rl.envs"


@cache
def read_points() -> dict[str, EntryPoint]:
    """The entry points by name, with those of files of one's own; read from disk once a process.

    Raises:
        ValueError: two have one name.
    """
    points: dict[str, EntryPoint] = {}
    for point in (*entry_points(group=GROUP), *own_files.points(GROUP, TextEnv)):
        if (first := points.setdefault(point.name, point)).value != point.value:
            raise ValueError(f"{first.value} and {point.value} are environments of one name, {point.name!r}")
    return points


def adopt(reference: str) -> str:
    """Take an environment from a file, such as ``./house.py:House``; returns its name.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it has no such environment, or one with the name of another.
    """
    name = own_files.adopt(reference, TextEnv, entry_points(group=GROUP).names)
    read_points.cache_clear()
    return name


def available() -> list[str]:
    """Names of the installed environments, sorted."""
    return sorted(read_points())


def env_class(name: str) -> type[TextEnv]:
    """The class of an environment.

    ``<environment>-<part>``, such as ``maze-far``, is an environment under a name of its own, so that a run can have it
    several times, with other tasks and another share each.

    Raises:
        UnknownEnv: no installed package brings an environment of that name.
        MissingExtra: a package that the environment needs is not installed.
        EnvError: the entry point cannot be loaded.
    """
    points = read_points()
    if name not in points and base_name(name) in points:
        return _named(base_name(name), name)
    if name not in points:
        raise UnknownEnv(f"unknown environment {name!r}; installed environments: {', '.join(sorted(points)) or 'none'}")
    point = points[name]
    try:
        with needs(f"environment {name!r}", name) if _ours(point) else nullcontext():
            loaded: type[TextEnv] = point.load()
    except MissingExtra:
        raise
    except Exception as error:  # a module of another package may raise anything
        raise EnvError(
            f"environment {name!r}: its entry point {point.value} cannot be loaded: {type(error).__name__}: {error}; "
            "mend or uninstall the package that brings it"
        ) from error
    return loaded


def _ours(point: EntryPoint) -> bool:
    """Whether this package brings an environment, and so has the extra that it may need."""
    return point.value.startswith("agentgym_rl.")


def base_name(name: str) -> str:
    """``maze`` of ``maze-far``: the longest that is installed, because its own name may have hyphens."""
    while name not in read_points() and "-" in name:
        name = name.rpartition("-")[0]
    return name


@cache
def _named(base: str, name: str) -> type[TextEnv]:
    kind = env_class(base)
    return type(kind.__name__, (kind,), {"name": name, "__module__": kind.__module__, "__doc__": kind.__doc__})


def check_options(env: str, options: Mapping[str, Any]) -> None:
    """Raises ValueError: an environment's class has no such option, or not with such a value."""
    parameters, hints = options_of(env_class(env))
    named = [name for name, parameter in parameters.items() if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    known = [*named, "instruction_of"]
    for key, value in options.items():
        if key not in known and len(named) == len(parameters):
            raise ValueError(f"{env} has no option {key!r}; its options: {', '.join(known)}")
        if key == "style":
            env_class(env).check_style(value)
        elif key in hints and not _fits(value, hints[key]):
            if get_origin(hints[key]) is Literal:
                raise ValueError(f"{env}: {key} {value!r} is unknown; choose {' or '.join(get_args(hints[key]))}")
            raise ValueError(f"{env}: {key}={value!r} is not of type {inspect.formatannotation(hints[key])}")


@cache
def options_of(kind: type[TextEnv]) -> tuple[Mapping[str, inspect.Parameter], dict[str, Any]]:
    """Parameters of a class, and the types of those that are annotated."""
    try:
        hints = get_type_hints(kind.__init__)
    except NameError:  # a class of another package may import its types for type checkers alone
        hints = {}
    return inspect.signature(kind).parameters, hints


def _fits(value: object, hint: Any) -> bool:
    """Whether a value is of a type; true where that cannot be told."""
    origin = get_origin(hint) or hint
    if origin in (Union, UnionType):
        return any(_fits(value, argument) for argument in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin in (int, float):
        return isinstance(value, int if origin is int else (int, float)) and not isinstance(value, bool)
    return isinstance(value, origin) if isinstance(origin, type) else True


def make(name: str, *, instruction_of: str | Path | None = None, **options: Any) -> TextEnv:
    """Open a session of an environment; ``options`` are those of its class (all take ``style``).

    Args:
        instruction_of: a file of AgentTraj, whose instruction takes the place of the environment's own.

    Raises:
        UnknownEnv, MissingExtra: see :func:`env_class`.
        ValueError: the environment has no such option, or not with such a value.
        FileNotFoundError, ValueError: the file does not exist or has no conversation with the environment, or the
            style is not ``agentgym``.
    """
    check_options(name, options)
    env = env_class(name)(**options)
    if instruction_of is not None:
        if env.style != "agentgym":
            raise ValueError(f"instruction_of is for the style agentgym, not {env.style}")
        _, instruction, opening = next(conversations(instruction_of, base_name(name)))
        env.quote(instruction, opening)
    return env
