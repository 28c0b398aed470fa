"""Composing a run's configuration from ``recipes/`` and the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hydra
from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException, ValidationError

from agentgym_rl.algorithms.installed import adopt, read
from agentgym_rl.algorithms.losses.base import Loss
from agentgym_rl.engine.recipe import budget, gpus
from agentgym_rl.engine.recipe import overrides as words
from agentgym_rl.engine.recipe.choices import KINDS, Choices, installed
from agentgym_rl.engine.recipe.config import Config, PretrainedModelConfig, TinyModelConfig
from agentgym_rl.engine.recipe.digest import named_files
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import CHOSEN, RecipeError, explain, nearest, schema, to_dict, typed
from agentgym_rl.engine.recipe.unused import check_unused
from agentgym_rl.engine.recipe.yaml_files import RecipeFiles
from agentgym_rl.envs import registry
from agentgym_rl.envs.own_files import is_file

__all__ = [
    "RecipeError",
    "identity",
    "load",
    "loader",
    "options",
    "recipes_dir",
    "remarks",
    "restore",
    "to_dict",
    "to_yaml",
]

FOLDERS = "AGENTGYM_RL_RECIPES"
"""Environment variable with the user's folders of recipes."""

HYDRAS_OWN = tuple(f"~hydra/{group}" for group in (
    "output", "launcher", "sweeper", "help", "hydra_help", "hydra_logging", "job_logging",
))  # fmt: skip
"""Settings of Hydra's own program, which nobody runs here; they would take a fifth of the time."""

FROM_FILES: dict[str, type] = {"algorithm.loss": Loss, **{group: base for group, (_, base) in KINDS.items()}}
"""Base class of what a file of one's own can bring, beside environments, by the key that chooses it."""

GROUPS = ("experiment", "env", "model", "algorithm", "engine", "curriculum", "mixture", "logger")


def recipes_dir() -> Path:
    """The Hydra tree: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).resolve().parents[2]
    for candidate in (package / "recipes", package.parent / "recipes"):
        if (candidate / "config.yaml").is_file():
            return candidate
    raise RecipeError(f"no recipes found beside {package}; the installation is incomplete")


@cache
def package_recipes(path: tuple[str, ...]) -> list[Path]:
    """The ``recipes`` folders of installed packages that bring an algorithm, curriculum, mixture or environment.

    Args:
        path: ``sys.path``, where they are looked for; once, as it takes a look at every package.
    """
    entries, groups = entry_points(), ("algorithms", "curricula", "mixtures", "envs")  # one look at the disk
    points = [point for group in groups for point in entries.select(group=f"agentgym_rl.{group}")]
    packages = sorted({point.module.partition(".")[0] for point in points} - {"agentgym_rl"})
    specs = [spec for package in packages if (spec := find_spec(package)) is not None]
    folders = [Path(folder) / "recipes" for spec in specs for folder in spec.submodule_search_locations or ()]
    return [folder for folder in folders if folder.is_dir()]


def own_recipes() -> list[Path]:
    """The user's folders: those that ``AGENTGYM_RL_RECIPES`` lists, else ``recipes`` of the current folder.

    Raises:
        RecipeError: a folder that is listed has no group of recipes.
    """
    listed = [Path(folder).expanduser().resolve() for folder in os.environ.get(FOLDERS, "").split(os.pathsep) if folder]
    for folder in listed:
        if not _has_groups(folder):
            raise RecipeError(f"{folder} has no recipes; it needs folders like {', '.join(GROUPS)} with YAML files")
    here = Path("recipes").resolve()
    return listed or ([here] if here != recipes_dir() and _has_groups(here) else [])


def _has_groups(folder: Path) -> bool:
    return any((folder / group).is_dir() for group in GROUPS)


@contextmanager
def loader() -> Iterator[ConfigLoader]:
    """Hydra, with the tree of recipes and what installed packages add to it."""
    for source in (RecipeFiles, Choices):
        Plugins.instance().register(source)
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(recipes_dir()), version_base="1.3"):
        config_loader: Any = GlobalHydra.instance().config_loader()
        for place in _places():
            config_loader.get_search_path().prepend("recipes", place, anchor="schema")
        config_loader.repository.initialize_sources(config_loader.get_search_path())
        yield config_loader


def options(group: str) -> list[str]:
    """The choices of a group, e.g. ``model``."""
    with loader() as config_loader:
        return sorted(config_loader.get_group_options(group))


def load(overrides: Sequence[str]) -> Config:
    """Compose a run from Hydra overrides, e.g. ``["experiment=demo", "seed=1"]``.

    No key needs a ``+``: a key that the typed configuration lacks is an error. Whether verl has a key
    (``verl.KEY=VALUE``) is seen in ``verl_config``. ``model`` takes a Hugging Face folder or id besides its options,
    and ``<option>:hub`` for a model that has a name; ``model.path`` alone, where no recipe has chosen a pretrained
    model, means the same.
    ``env.host`` and ``env.address`` say for every environment what ``envs.<name>.host.{kind,address}`` say for one.
    AgentGym-RL's ``algorithm.rounds_ctrl`` is taken as a curriculum; its other keys are refused with ours.

    Raises:
        RecipeError: an unknown group, key or value, a wrong type, a missing mandatory value, or a key that has no
            effect beside the others.
    """
    words.check(overrides, options)
    overrides = [_adopted(word) for word in overrides]
    everywhere = dict(filter(None, map(words.everywhere, overrides)))
    overrides = [word for word in overrides if not words.everywhere(word)]
    try:
        with loader():
            overrides = words.with_curriculum(overrides)
            spelled_out = [part for word in overrides for part in words.spelled_out(word)]
            composed = _composed(spelled_out)
            tiny = OmegaConf.get_type(composed.model) is schema(TinyModelConfig)
            if tiny and composed.model.path is not None and "model" not in map(words.key, overrides):
                composed = _composed([*spelled_out, "model=hf"])
            if composed.engine.memory is not None:
                chosen = gpus.chosen(composed, {*map(words.key, overrides)})
                composed = _composed([*spelled_out, *(part for word in chosen for part in words.spelled_out(word))])
            _replace_envs(composed, overrides)
        # `run.dir` is built from the name, so that a missing name has to be looked for first
        missing = {"name"} if OmegaConf.is_missing(composed, "name") else OmegaConf.missing_keys(composed)
        if missing:
            raise RecipeError(f"missing values: {', '.join(sorted(missing))}; set them like name=my_run")
        config = typed(composed)
    except (HydraException, OmegaConfBaseException) as error:
        raise RecipeError(_said(error)) from error
    assert isinstance(config, Config)
    for env in config.envs.values():
        env.host = everywhere | env.host
    words.check_place(config.name, config.run.dir)
    given = {words.key(word) for word in overrides if not word.endswith("=null")}
    budget.settle(config, given)
    check_unused(Resolved(config), given)
    return config


def _composed(overrides: Sequence[str]) -> DictConfig:
    return hydra.compose("config", [*overrides, *HYDRAS_OWN])


def remarks(config: Config, overrides: Sequence[str]) -> list[str]:
    """Warnings before a run starts: settings that the experiment lacks, and an unspent budget."""
    return [*_untuned(config, overrides), *filter(None, [budget.line(config)])]


def restore(values: Mapping[str, Any]) -> Config:
    """The configuration that :func:`to_dict` took apart, e.g. from the ``config.yaml`` of a run.

    Raises:
        RecipeError: it has keys, or values, that this version does not know.
    """
    composed = OmegaConf.structured(schema(Config))
    for group, kinds in installed().items():
        key = CHOSEN[group]
        name = values[group].get(key)
        if name not in kinds:
            raise RecipeError(f"{group}.{key}={name!r} is unknown; choose {', '.join(kinds)}")
        composed[group] = schema(kinds[name].Config)
    composed.model = schema(TinyModelConfig if values["model"].get("path") is None else PretrainedModelConfig)
    try:
        config = typed(OmegaConf.merge(composed, dict(values)))  # type: ignore[arg-type]
    except OmegaConfBaseException as error:
        raise RecipeError(_said(error)) from error
    assert isinstance(config, Config)
    return config


def _untuned(config: Config, overrides: Sequence[str]) -> Iterator[str]:
    experiment = next((word.partition("=")[2] for word in overrides if word.startswith("experiment=")), None)
    if experiment is None or config.algorithm.online is None:
        return
    with loader() as config_loader:
        algorithms, curricula = (config_loader.get_group_options(folder) for folder in ("tuned", "tuned/curriculum"))
    algorithm, curriculum = config.algorithm.name, config.curriculum.type
    if f"{experiment}_{algorithm}" not in algorithms:
        yield f"untuned: defaults of algorithm={algorithm}"
    has_curricula = any(option.startswith(f"{experiment}_") for option in curricula)
    if has_curricula and curriculum != "fixed" and f"{experiment}_{curriculum}" not in curricula:
        yield f"untuned: defaults of curriculum={curriculum}"


def _adopted(override: str) -> str:
    """An override whose value is a file of one's own, with the name of its class: ``env=./house.py:House``.

    Raises:
        FileNotFoundError, ValueError: there is no such file, or no such class in it.
    """
    name, _, value = override.partition("=")
    group = words.key(override)
    if not is_file(value) or group not in {"env", *FROM_FILES}:
        return override
    return f"{name}={registry.adopt(value) if group == 'env' else adopt(value, FROM_FILES[group])}"


def _replace_envs(composed: DictConfig, overrides: Sequence[str]) -> None:
    """``env=X`` takes the place of an experiment's environments, with as many demonstrations; ``+env=X`` adds one.

    Raises:
        RecipeError: a key is one of an environment that is replaced.
    """
    chosen = [word for word in overrides if word.startswith("env=")]
    if not chosen or not any(word.startswith("experiment=") for word in overrides):
        return
    added = [part for word in overrides if word.startswith("+env=") for part in words.spelled_out(word)]
    envs = _composed([*chosen, *added]).envs
    replaced = [name for name in composed.envs if envs and name not in envs]  # env=none leaves the experiment's
    for name in replaced:
        if unused := next((word for word in overrides if words.key(word).startswith(f"envs.{name}.")), None):
            raise RecipeError(f"{unused} has no effect: {chosen[-1]} replaces {name}; +{chosen[-1]} adds to it")
    with open_dict(composed.envs):
        demonstrations = sum(composed.envs.pop(name).demonstrations for name in replaced)
    given = set(map(words.key, overrides))
    for name, env in composed.envs.items():
        if not ({f"envs.{name}.demonstrations", f"envs.{name}.demonstrations_file"} & given or env.demonstrations):
            env.demonstrations = -(-demonstrations // len(composed.envs))


def _said(error: Exception) -> str:
    """The message of an error of Hydra or OmegaConf."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, MissingConfigException) and error.options:
        missing, known = str(error.missing_cfg_file), sorted(error.options)
        group, _, choice = missing.rpartition("/")
        if group in KINDS and (why := read(*KINDS[group]).broken.get(choice)):
            return f"{group}={choice}: {why}"
        return f"{missing} is unknown{nearest(choice, known)}; choose {', '.join(known)}"
    if isinstance(cause, ValidationError) and "not a subclass of EnvConfig" in str(cause):
        return _no_such_env(str(cause.full_key))
    if isinstance(cause, ValidationError) and "not a subclass of PanelConfig" in str(cause):
        return f"panels.{cause.full_key}: the recipe has no such panel; write it into a recipe (docs/recipes.md)"
    if unreadable := words.unreadable(error):
        return unreadable
    if isinstance(cause, OmegaConfBaseException):
        place = str(error).partition(":")[0] + ": " if str(error).startswith("In '") else ""
        return f"{place}{explain(cause)}"
    if isinstance(error, OmegaConfBaseException):
        return explain(error)
    return " ".join(f"{error} {cause or ''}".split())


def _no_such_env(name: str) -> str:
    known = registry.available()
    if registry.base_name(name) in known:
        return f"envs.{name}: the run does not have this environment; +env={name} adds it"
    return f"envs.{name}: no such environment{nearest(name, known)}; agentgym-rl envs lists those installed"


def _places() -> list[str]:
    """Where choices are looked for that our tree has not; the first one counts."""
    folders = (*own_recipes(), *package_recipes(tuple(sys.path)))
    return [*(f"{RecipeFiles.scheme()}://{folder}" for folder in folders), f"{Choices.scheme()}://"]


def identity(config: Config) -> str:
    """The identity of a run, as YAML: every key that changes what is learned, none that is operational, and digests of
    the files that they name.
    """
    settings = to_dict(config, operational=False)
    files = named_files(settings)
    return OmegaConf.to_yaml(OmegaConf.create(settings | ({"files": files} if files else {})))


def to_yaml(config: Config) -> str:
    """The whole configuration, every default visible."""
    return OmegaConf.to_yaml(OmegaConf.create(to_dict(config)))
