"""``agentgym-rl new``."""

import re
import sys
from collections.abc import Container
from enum import StrEnum
from importlib.metadata import entry_points
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer

from agentgym_rl.data.files import write_text
from agentgym_rl.envs.item_ids import check_name
from agentgym_rl.envs.registry import available

SKELETONS = Path(__file__).parent / "skeletons"
"""Texts in which ``skeleton`` and ``Skeleton`` stand for the names of module and class."""


class Kind(StrEnum):
    """What there is a skeleton of."""

    ENV = "env"
    ALGORITHM = "algorithm"
    CURRICULUM = "curriculum"


def command(
    kind: Annotated[Kind, typer.Argument(help="env, algorithm or curriculum.")],
    name: Annotated[str, typer.Argument(help="Its name, such as house: the file is house.py, the class House.")],
) -> None:
    """Write an environment, algorithm or curriculum to start from, with a test, into the current folder.

    It works as it is, without a package: --help of train and check says how a file is named.
    """
    if not name.isidentifier() or not name.islower() or iskeyword(name):
        raise ValueError(f"{name!r} is no name of a file of Python; give small letters, digits and _, like house")
    if kind is Kind.ENV:
        check_name(name)
    title = "".join(part.capitalize() for part in name.split("_"))
    files = {Path(f"{name}.py"): f"{kind}.txt", Path(f"test_{name}.py"): f"test_{kind}.txt"}
    if there := [str(file) for file in files if file.exists()]:
        raise ValueError(f"{there[0]} exists; choose another name, or remove it")
    if name in sys.stdlib_module_names or name in _taken(kind) or find_spec(name) or _used(title, kind):
        raise ValueError(f"{name!r} is taken, by Python or by what is installed; choose another name")
    for file, skeleton in files.items():
        text = (SKELETONS / skeleton).read_text(encoding="utf-8")
        write_text(file, re.sub("[Ss]keleton", lambda word: title if word[0] == "Skeleton" else name, text))
    typer.echo(f"written: {', '.join(map(str, files))}; next:")
    place = f"./{name}.py:{title}"
    checked = [f"agentgym-rl check {place}"] if kind is Kind.ENV else []
    for line in [f"pytest test_{name}.py", *checked, f"agentgym-rl train experiment=smoke {kind}={place}"]:
        typer.echo(f"  {line}")


def _used(title: str, kind: Kind) -> bool:
    """Whether Python or what the skeleton imports has the name of the class already."""
    text = (SKELETONS / f"{kind}.txt").read_text(encoding="utf-8")
    return iskeyword(title) or re.search(rf"^from .* import .*\b{title}\b", text, re.MULTILINE) is not None


def _taken(kind: Kind) -> Container[str]:
    """The names that what is installed of a kind is chosen by."""
    if kind is Kind.ENV:
        return available()
    return entry_points(group="agentgym_rl.algorithms" if kind is Kind.ALGORITHM else "agentgym_rl.curricula").names
