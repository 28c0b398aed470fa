"""Classes from files of one's own, beside those of installed packages: ``./house.py:House``."""

import os
import re
import sys
from collections.abc import Container
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

from agentgym_rl.envs.core import TextEnv

FILES = "AGENTGYM_RL_FILES"
"""Environment variable with the files of this process and of those that it starts: ``<path>:<class>``, by commas."""

_REFERENCE = re.compile(r"(?P<path>.+\.py)(?::(?P<name>\w+))?")


def is_file(word: str) -> bool:
    """Whether a word names a file, with or without a class, rather than something installed."""
    return _REFERENCE.fullmatch(word) is not None


def adopt(reference: str, base: type, taken: Container[str] = ()) -> str:
    """Take a class from a file, for this process and those that it starts; returns the name to choose it by.

    Args:
        reference: ``<path>`` or ``<path>:<class>``; the class can be left out where the file has one of its kind.
        base: what it must be a subclass of.
        taken: names that it must not have.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file cannot be imported, has no such class, or has a comma in its path, or the name is that of
            something else.
    """
    adopted = _class(reference, base)
    word = f"{Path(str(sys.modules[adopted.__module__].__file__)).resolve()}:{adopted.__name__}"
    if "," in word:
        raise ValueError(f"{word} has a comma, which parts files in {FILES}; move it to another folder")
    name, others = _name(adopted), [other for other in _adopted() if other != word]
    if name in taken:
        raise ValueError(f"{reference}: {name!r} is the name of what is installed; rename yours")
    if same := [other for other in others if issubclass(kind := _class(other, object), base) and _name(kind) == name]:
        raise ValueError(f"{reference}: {name!r} is the name of {same[0]}, too; rename one")
    os.environ[FILES] = ",".join([*others, word])
    return name


def points(group: str, base: type) -> list[EntryPoint]:
    """The adopted subclasses of ``base``, as if they were entry points of a package.

    Raises:
        FileNotFoundError, ValueError: see :func:`adopt`.
    """
    loaded = [_class(word, object) for word in _adopted()]
    classes = [kind for kind in loaded if issubclass(kind, base)]
    return [EntryPoint(_name(kind), f"{kind.__module__}:{kind.__name__}", group) for kind in classes]


def _adopted() -> list[str]:
    return list(filter(None, os.environ.get(FILES, "").split(",")))


def _name(kind: type) -> str:
    """An environment's own name; other classes have that of their file."""
    return kind.name if issubclass(kind, TextEnv) else kind.__module__


def _class(reference: str, base: type) -> type:
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise ValueError(f"{reference!r} is not <path>.py:<class>, such as ./house.py:House")
    file, name = match["path"], match["name"]
    module = module_of(file)
    classes = {
        key: member
        for key, member in vars(module).items()
        if isinstance(member, type) and issubclass(member, base) and member.__module__ == module.__name__
    }
    if name is None and len(classes) == 1:
        return next(iter(classes.values()))
    if name in classes:
        return classes[name]
    what = f"the class {name}, a subclass of {base.__name__}," if name else f"one {base.__name__}"
    choices = " or ".join(f"{file}:{key}" for key in classes)
    raise ValueError(f"{file} does not have {what} to choose" + (f"; write {choices}" if classes else ""))


def module_of(file: str) -> ModuleType:
    """The module of a file, which other processes can import by the same name.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it cannot be imported.
    """
    path = Path(file).expanduser().resolve()
    if not path.is_file():
        raise FileNotFoundError(f"{file} does not exist; `agentgym-rl new` writes a file to start from")
    if not path.stem.isidentifier():
        raise ValueError(f"{path.name} cannot be imported; rename it to letters, digits and _, like my_file.py")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        module = import_module(path.stem)
    except Exception as error:  # a file may raise anything
        raise ValueError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    if Path(str(getattr(module, "__file__", ""))).resolve() != path:  # built-in modules have none
        raise ValueError(f"{path.name} has the name of the module {path.stem!r} that is installed; rename it")
    return module
