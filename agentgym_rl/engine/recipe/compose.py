"""Composing a run's configuration from ``recipes/`` and the command line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import MissingMandatoryValue, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from agentgym_rl.engine.recipe.config import Config

_OPEN = re.compile(r"worlds\.\w+\.(curriculum|host|options)\b")
"""Keys below which a recipe need not have what the command line sets."""


_HOSTS = {"env.host": "kind", "env.address": "address"}


class RecipeError(ValueError):
    """A recipe or an override is wrong; the message names the key."""


def recipes_dir() -> Path:
    """The Hydra tree: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).resolve().parents[2]
    for candidate in (package / "recipes", package.parent / "recipes"):
        if (candidate / "config.yaml").is_file():
            return candidate
    raise RecipeError(f"no recipes found beside {package}; the installation is incomplete")


def experiments() -> list[str]:
    """Names for ``experiment=``."""
    return sorted(path.stem for path in (recipes_dir() / "experiment").glob("*.yaml"))


def load(overrides: list[str]) -> Config:
    """Compose a run from Hydra overrides, e.g. ``["experiment=demo", "seed=1"]``.

    Keys of verl (``verl.KEY=VALUE``) and open ones of a world need no ``+``; whether verl has them is seen in
    ``verl_config``. ``model`` takes a
    Hugging Face folder or id besides the recipes under ``model/``. ``env.host`` and ``env.address`` say for every world
    what ``worlds.<name>.host.{kind,address}`` say for one.

    Raises:
        RecipeError: an unknown group, key or value, a wrong type, or a missing mandatory value.
    """
    GlobalHydra.instance().clear()
    ConfigStore.instance().store(name="schema", node=Config)
    try:
        with initialize_config_dir(str(recipes_dir()), version_base="1.3"):
            composed = compose(
                "config", [part for one in overrides if not _everywhere(one) for part in _spelled_out(one)]
            )
        # `run.dir` is built from the name, so that a missing name has to be looked for first
        missing = {"name"} if OmegaConf.is_missing(composed, "name") else OmegaConf.missing_keys(composed)
        if missing:
            raise RecipeError(f"missing values: {', '.join(sorted(missing))}; set them like name=my_run")
        config = OmegaConf.to_object(composed)
    except (HydraException, OmegaConfBaseException, MissingMandatoryValue) as error:
        cause = error.__cause__
        raise RecipeError(f"{error}" if cause is None else f"{error}\n{cause}") from error
    assert isinstance(config, Config)
    for world in config.worlds.values():
        world.host = dict(found for one in overrides if (found := _everywhere(one))) | world.host
    return config


def _everywhere(override: str) -> tuple[str, str] | None:
    """Key and value of a host's setting that is given for every world."""
    key, _, value = override.partition("=")
    return None if key not in _HOSTS else (_HOSTS[key], value)


def _spelled_out(override: str) -> list[str]:
    """An override as Hydra wants it."""
    key, _, value = override.partition("=")
    if key.startswith("verl.") or _OPEN.match(key):
        return [f"++{override}"]
    known = {path.stem for path in (recipes_dir() / "model").glob("*.yaml")}
    if key == "model" and value not in known and "/" in value:
        return ["model=hf", f"model.path={value}"]
    return [override]


def identity(config: Config) -> str:
    """What a run is, as YAML: not whether it may resume or is profiled, its group in W&B, or where its worlds run."""
    worlds = {name: replace(world, host={}) for name, world in config.worlds.items()}
    run, logger = replace(config.run, resume=True), replace(config.logger, group=None)
    return to_yaml(replace(config, run=run, logger=logger, worlds=worlds, profile=False))


def to_yaml(config: Config) -> str:
    """The whole configuration, every default visible."""
    return OmegaConf.to_yaml(OmegaConf.structured(config), resolve=True)
