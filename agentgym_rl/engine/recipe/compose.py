"""Composing a run's configuration from ``recipes/`` and the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from agentgym_rl.algorithms import algorithms
from agentgym_rl.algorithms.mixture import mixtures
from agentgym_rl.algorithms.scaling_inter import curricula
from agentgym_rl.engine.recipe.config import Config, PretrainedModelConfig, TinyModelConfig
from agentgym_rl.engine.recipe.migration import translated
from agentgym_rl.engine.recipe.schema import CHOSEN, RecipeError, explain, nearest, schema, to_dict, typed
from agentgym_rl.engine.recipe.unused import check_unused
from agentgym_rl.envs import registry
from agentgym_rl.rollout import pretrained

__all__ = [
    "RecipeError",
    "identity",
    "load",
    "loader",
    "options",
    "recipes_dir",
    "restore",
    "to_dict",
    "to_yaml",
]

FOLDERS = "AGENTGYM_RL_RECIPES"
"""Environment variable with the user's folders of recipes."""

GROUPS = ("experiment", "env", "model", "algorithm", "engine", "curriculum", "mixture", "logger")

_EVERYWHERE = {"env.host": "kind", "env.address": "address"}
"""Keys of a host that may be given for every environment."""

_ROUNDS = "algorithm.rounds_ctrl."
"""AgentGym-RL's keys of a curriculum."""


def recipes_dir() -> Path:
    """The Hydra tree: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).resolve().parents[2]
    for candidate in (package / "recipes", package.parent / "recipes"):
        if (candidate / "config.yaml").is_file():
            return candidate
    raise RecipeError(f"no recipes found beside {package}; the installation is incomplete")


def package_recipes() -> list[Path]:
    """The ``recipes`` folders of installed packages that bring an algorithm, curriculum, mixture or environment."""
    every, groups = entry_points(), ("algorithms", "curricula", "mixtures", "envs")  # one look at the disk
    points = [point for group in groups for point in every.select(group=f"agentgym_rl.{group}")]
    packages = sorted({point.module.partition(".")[0] for point in points} - {"agentgym_rl"})
    specs = [spec for package in packages if (spec := find_spec(package)) is not None]
    folders = [Path(folder) / "recipes" for spec in specs for folder in spec.submodule_search_locations or ()]
    return [folder for folder in folders if folder.is_dir()]


def own_recipes() -> list[Path]:
    """The user's folders: those that ``AGENTGYM_RL_RECIPES`` lists, else ``recipes`` of the current folder.

    Raises:
        RecipeError: a folder that is listed has no group of recipes.
    """
    listed = [Path(one).expanduser().resolve() for one in os.environ.get(FOLDERS, "").split(os.pathsep) if one]
    for folder in listed:
        if not _has_groups(folder):
            raise RecipeError(f"{folder} has no recipes; it needs folders like {', '.join(GROUPS)} with YAML files")
    here = Path("recipes").resolve()
    return listed or ([here] if here != recipes_dir() and _has_groups(here) else [])


def _has_groups(folder: Path) -> bool:
    return any((folder / group).is_dir() for group in GROUPS)


class RecipeFiles(FileConfigSource):
    """A user's folder of recipes: as Hydra reads folders, but a file may begin with a byte order mark."""

    @staticmethod
    def scheme() -> str:
        return "recipes"

    def load_config(self, config_path: str) -> ConfigResult:
        path = Path(self.path, self._normalize_file_name(config_path))
        with path.open(encoding="utf-8-sig") as file:
            header = self._get_header_dict(file.read(512))
            file.seek(0)
            return ConfigResult(self.provider, f"{self.scheme()}://{self.path}", OmegaConf.load(file), header)


@contextmanager
def loader() -> Iterator[ConfigLoader]:
    """Hydra, with the tree of recipes and what installed packages add to it.

    A choice without a file is one of the typed classes, or an installed environment.
    """
    store = ConfigStore.instance()
    store.store("schema", schema(Config))
    for group, kinds in _installed().items():
        for name, kind in kinds.items():
            store.store(name, schema(kind.Config)(**{CHOSEN[group]: name}), group=group)
    for name, model in (("tiny", TinyModelConfig), ("hf", PretrainedModelConfig)):
        store.store(name, schema(model), group="model")
    for name in {*registry.available()} - {path.stem for path in recipes_dir().glob("env/*.yaml")}:
        store.store(name, {name: {"panels": {"test": {"split": "test"}}}}, group="env", package="envs")
    Plugins.instance().register(RecipeFiles)
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(recipes_dir()), version_base="1.3"):
        yield GlobalHydra.instance().config_loader()


def options(group: str) -> list[str]:
    """What a group can be set to, e.g. ``model``."""
    with loader() as found:
        return sorted(found.get_group_options(group, overrides=_searchpath()))


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
    if theirs := translated(map(_key, overrides)):
        raise RecipeError(f"{theirs}\nAll keys: docs/from-agentgym-rl.md")
    everywhere = dict(filter(None, map(_everywhere, overrides)))
    own = [one for one in overrides if not _everywhere(one)]
    try:
        with loader():
            own = _curriculum(own)
            wanted = [*_searchpath(), *(part for one in own for part in _spelled_out(one))]
            composed = compose("config", wanted)
            if _is_tiny(composed) and composed.model.path is not None and "model" not in map(_key, own):
                composed = compose("config", [*wanted, "model=hf"])
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
    check_unused(config, {_key(one) for one in own if not one.endswith("=null")})
    return config


def restore(values: Mapping[str, Any]) -> Config:
    """The configuration that :func:`to_dict` took apart, e.g. from the ``config.yaml`` of a run.

    Raises:
        RecipeError: it has keys, or values, that this version does not know.
    """
    composed = OmegaConf.structured(schema(Config))
    for group, kinds in _installed().items():
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


def _installed() -> dict[str, Mapping[str, Any]]:
    """Classes by name, by the group that chooses among them."""
    return {"algorithm": algorithms(), "curriculum": curricula(), "mixture": mixtures()}


def _said(error: Exception) -> str:
    """What is wrong, whether Hydra or OmegaConf found it."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, MissingConfigException) and error.options:
        missing, known = str(error.missing_cfg_file), sorted(error.options)
        return f"{missing} is unknown{nearest(missing.rpartition('/')[2], known)}; choose {', '.join(known)}"
    if isinstance(cause, OmegaConfBaseException):
        place = str(error).partition(":")[0] + ": " if str(error).startswith("In '") else ""
        return f"{place}{explain(cause)}"
    if isinstance(error, OmegaConfBaseException):
        return explain(error)
    return f"{error}" if cause is None else f"{error}\n{cause}"


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+~")


def _searchpath() -> list[str]:
    folders = [f"{RecipeFiles.scheme()}://{folder}" for folder in (*own_recipes(), *package_recipes())]
    return [f"hydra.searchpath=[{','.join(folders)}]"] if folders else []


def _everywhere(override: str) -> tuple[str, str] | None:
    """Key and value of a host's setting that is given for every environment."""
    key, _, value = override.partition("=")
    return None if key not in _EVERYWHERE else (_EVERYWHERE[key], value)


def _spelled_out(override: str) -> list[str]:
    """An override as Hydra wants it."""
    key, _, value = override.partition("=")
    group, _, last = _key(override).partition(".")
    if last == CHOSEN.get(group):
        raise RecipeError(f"{key} holds the choice that {group}={value} makes; write that")
    if key == "model" and "/" in value:
        return ["model=hf", f"++model.path={value}"]
    if key == "model" and ":" in value and pretrained.find(value) is not None:
        return [f"model={value.partition(':')[0]}", f"++model.path={value}"]
    return [f"++{override}" if "." in key and key[0] not in "+~" else override]


def _is_tiny(composed: DictConfig) -> bool:
    kind: Any = OmegaConf.get_type(composed.model)
    return kind is schema(TinyModelConfig)


def _curriculum(overrides: Sequence[str]) -> list[str]:
    """The overrides, with AgentGym-RL's keys of a curriculum as ours.

    Raises:
        RecipeError: a value is not AgentGym-RL's, or there are keys of both.
    """
    theirs = [one for one in overrides if _key(one).startswith(_ROUNDS)]
    if not theirs:
        return list(overrides)
    ours = [one for one in overrides if one not in theirs]
    if any(_key(one).partition(".")[0] == "curriculum" for one in ours):
        raise RecipeError("algorithm.rounds_ctrl and curriculum are both set; they mean the same, give one")
    parsed = OverridesParser.create().parse_overrides(theirs)
    given: dict[str, Any] = {_key(str(one.input_line)).removeprefix(_ROUNDS): one.value() for one in parsed}
    keys = {"type": "curriculum", "rounds": "curriculum.rounds", "steps_scaling_inter": "curriculum.steps"}
    if unknown := sorted(set(given) - set(keys)):
        raise RecipeError(f"{_ROUNDS}{unknown[0]} is unknown; AgentGym-RL's keys are {', '.join(keys)}")
    types = {"fixed": "fixed", "scaling_inter_stepwise": "stepwise"}
    if given.get("type") not in types:
        raise RecipeError(f"{_ROUNDS}type={given.get('type')!r} is unknown; choose {', '.join(types)}")
    if given.get("rounds") is None:
        raise RecipeError(f"{_ROUNDS}rounds is missing")
    if given["type"] == "fixed":
        given.pop("steps_scaling_inter", None)  # AgentGym-RL's scripts set it for both
    rounds = given["rounds"] if isinstance(given["rounds"], list) else [given["rounds"]]
    values = {**given, "type": types[given["type"]], "rounds": f"[{','.join(map(str, rounds))}]"}
    return [*ours, *(f"{keys[key]}={value}" for key, value in values.items())]


def identity(config: Config) -> str:
    """What a run is, as YAML: every key that changes what is learned, and none that is operational."""
    return OmegaConf.to_yaml(OmegaConf.create(to_dict(config, operational=False)))


def to_yaml(config: Config) -> str:
    """The whole configuration, every default visible."""
    return OmegaConf.to_yaml(OmegaConf.create(to_dict(config)))
