"""Reads a folder of Minecraft's own recipe files (one JSON file a recipe)."""

from collections import Counter
from collections.abc import Container
from pathlib import Path
from typing import Any

from agentgym_rl.envs.tables import json_object
from agentgym_rl.envs.textcraft.book import RecipeBook, reachable
from agentgym_rl.envs.textcraft.recipe import Recipe, Stack


def official_book(folder: str | Path, shown: Container[str] = ()) -> RecipeBook:
    """The shaped and shapeless recipes of a folder, those shown first, then in the order of file names.

    As in AgentGym: of alternative ingredients the first counts; a recipe from nothing but one block is left out; a
    recipe's group is the tag of what it makes; a tag that nothing craftable belongs to is a base item; a recipe that
    would close a cycle with earlier ones is left out.

    Args:
        shown: recipes as text.

    Raises:
        ValueError: the folder is missing, holds no crafting recipe, or a file in it is not a recipe.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"no recipe folder at {folder}")
    read: list[tuple[Recipe, str]] = []
    asked: set[str] = set()
    for path in sorted(folder.glob("*.json"), key=lambda path: path.name):
        try:
            data = json_object(path)
            parsed = _parse(data, asked)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise ValueError(f"{path} is not a Minecraft recipe: {error!r}") from error
        if parsed is not None:
            read.append((parsed, _name(data.get("group", ""))))
    if not read:
        raise ValueError(f"no crafting recipe in {folder}")
    read.sort(key=lambda each: str(each[0]) not in shown)
    return _without_cycles(read, asked)


def _without_cycles(read: list[tuple[Recipe, str]], asked: set[str]) -> RecipeBook:
    below: dict[str, set[str]] = {}  # name -> names it may be made from
    acyclic: list[Recipe] = []
    tags: dict[str, dict[str, None]] = {}
    for recipe, group in read:
        output = recipe.output.name
        tag = group if group in asked and group != output else None
        inputs = [stack.name for stack in recipe.inputs]
        if not {output, tag}.isdisjoint(reachable(inputs, lambda name: below.get(name, ()))):
            continue
        acyclic.append(recipe)
        below.setdefault(output, set()).update(inputs)
        if tag is not None:
            below.setdefault(tag, set()).add(output)
            tags.setdefault(tag, {})[output] = None
    return RecipeBook(acyclic, {tag: tuple(members) for tag, members in tags.items()})


def _parse(data: dict[str, Any], asked: set[str]) -> Recipe | None:
    kind = data["type"].removeprefix("minecraft:")
    if kind == "crafting_shaped":
        cells = "".join(data["pattern"])
        inputs = [(_ingredient(value, asked), cells.count(key)) for key, value in data["key"].items()]
    elif kind == "crafting_shapeless":
        inputs = list(Counter(_ingredient(value, asked) for value in data["ingredients"]).items())
    else:
        return None
    if len(inputs) == 1 and inputs[0][0].endswith(" block"):
        return None
    result = data["result"]
    result = {"item": result} if isinstance(result, str) else result
    output = Stack(_name(result.get("item") or result["id"]), result.get("count") or 1)
    return Recipe(output, tuple(Stack(name, count) for name, count in inputs))


def _ingredient(value: Any, asked: set[str]) -> str:
    """The name of an ingredient in any of the game's notations; tags are added to ``asked``."""
    entry = value[0] if isinstance(value, list) else value
    text: str = entry if isinstance(entry, str) else entry.get("item") or "#" + entry["tag"]
    name = _name(text.removeprefix("#"))
    if text.startswith("#"):
        asked.add(name)
    return name


def _name(identifier: str) -> str:
    return identifier.removeprefix("minecraft:").replace("_", " ")
