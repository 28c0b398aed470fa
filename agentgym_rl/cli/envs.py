"""``agentgym-rl envs``."""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from agentgym_rl.cli.common import Json, adopted, console, env_names, print_json, print_table, say
from agentgym_rl.envs import TextEnv, available, make
from agentgym_rl.envs.registry import env_class, options_of

Asked = Annotated[
    str | None,
    typer.Argument(
        help="All about this one, or about one of a file, ./house.py:House.",
        autocompletion=env_names,
        callback=lambda name: name and adopted(name),
    ),
]


def command(name: Asked = None, as_json: Json = False) -> None:
    """List the installed environments, or all about one: splits, styles, options, the licence of its data."""
    if name is None:
        rows = [_listed(known) for known in available()]
        print_json(rows) if as_json else _print_list(rows)
    else:
        facts = _facts(name) | _said(env_class(name))
        print_json(facts) if as_json else _print_facts(facts)


def _listed(name: str) -> dict[str, Any]:
    try:
        return _facts(name)
    except Exception as error:  # noqa: BLE001 - a broken plug-in, which may raise anything, must not hide the others
        return {"name": name, "error": str(error) or type(error).__name__}


def _facts(name: str) -> dict[str, Any]:
    env = make(name)
    spec = env.spec
    return {
        "name": name,
        "splits": {split: len(indices) for split, indices in spec.splits.items()},
        "max_turns": spec.max_turns,
        "oracle": type(env).oracle is not TextEnv.oracle,
        "official_tasks": spec.official,
        "extra": spec.extra,
        "licence": spec.licence,
    }


def _said(kind: type[TextEnv]) -> dict[str, Any]:
    """What a class says of itself: what it is, its styles, and its other options with type, default and meaning."""
    text = re.sub(r":\w+:(?=`)|`+", "", inspect.getdoc(kind) or "")
    arguments = text.partition("\nArgs:")[2].partition("\n\n")[0]
    said = (argument.partition(": ") for argument in re.split(r"\n    (?=\w)", arguments)[1:])
    meanings = {option: " ".join(meaning.split()) for option, _, meaning in said}
    parameters, hints = options_of(kind)
    options = {
        option: {
            "type": _type(hints.get(option, parameter.annotation)),
            "default": None if parameter.default is parameter.empty else parameter.default,
            "meaning": meanings.get(option, ""),
        }
        for option, parameter in parameters.items()
        if option != "style"
    }
    return {"about": " ".join(text.partition("\n\n")[0].split()), "styles": list(kind.styles), "options": options}


def _type(hint: Any) -> str:
    """A type as a reader needs it: without modules; of a choice its values."""
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    return re.sub(r"\w+\.| \| None$", "", inspect.formatannotation(hint))


def _shown(facts: Mapping[str, Any]) -> dict[str, str]:
    """What the list and the page of one have in common."""
    return {
        "turns": str(facts["max_turns"]),
        "oracle": "yes" if facts["oracle"] else "no",
        "official tasks": facts["official_tasks"] or "none",
        "extra": facts["extra"] or "none",
    }


def _print_list(rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for column in ("name", "train", "test", "others", "turns", "oracle", "official tasks", "extra"):
        number = column in {"train", "test", "others", "turns"}
        table.add_column(column, justify="right" if number else "left", no_wrap=number)
    for row in rows:
        if "error" not in row:
            splits = dict(row["splits"])
            sizes = (splits.pop("train", 0), splits.pop("test", 0), sum(splits.values()))
            table.add_row(row["name"], *(f"{size:,}" for size in sizes), *_shown(row).values())
    screen = console()
    print_table(screen, table)
    for row in rows:
        if "error" in row:
            say(screen, f"{row['name']}: {row['error']}")
    say(screen, "More of one: agentgym-rl envs NAME")


def _print_facts(facts: Mapping[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table.grid(padding=(0, 2), pad_edge=True)
    shown = {
        "splits": ", ".join(f"{split} {size:,}" for split, size in facts["splits"].items()),
        **_shown(facts),
        "styles": ", ".join(facts["styles"]),
        "data": facts["licence"],
    }
    for fact, text in shown.items():
        table.add_row(fact, escape(text))
    for option, about in facts["options"].items():
        default = "" if about["default"] is None else f", by default {about['default']}"
        table.add_row(f"option {option}", escape(f"{about['meaning'].rstrip('.')} ({about['type']}{default})".strip()))
    screen = console()
    say(screen, f"{facts['name']}: {facts['about']}\n")
    print_table(screen, table)
